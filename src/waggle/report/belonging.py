"""Whether rows of a law that ships were played by the weights that ship.

A law that is trained and packed again keeps its name, and rows of a run directory may be of the one
before. Rows say which weights played them (those of earlier days do not), `law.json` which ones
ship. Invariant: nothing is refused; one line says what is not known to belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe
from waggle.evaluate.resume import listed
from waggle.evaluate.rows import Row
from waggle.laws.digest import of_manifest
from waggle.report.matching import label


def counted(rows: Iterable[Row], recipe: Recipe) -> dict[str, dict[str, int]]:
    """Count the rows of every method of a shipped law by the weights that played them.

    Rows that do not say are counted under the empty digest.
    """
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row.method in recipe.methods and recipe.methods[row.method].law in shipped.names():
            found.setdefault(row.method, Counter())[row.digest] += 1
    return {name: dict(counts) for name, counts in found.items()}


def doubts(counts: Mapping[str, int], now: str) -> str:
    """Say how many rows other weights played than a law has, or unnamed ones; empty where none.

    Args:
        counts: rows by digest, those that do not say under the empty one.
        now: digest of the law; nothing is said where it is empty.
    """
    others = sorted(digest for digest in counts if digest not in ("", now))
    kinds = {
        f"other weights ({listed(others)})": sum(counts[digest] for digest in others),
        "weights that their rows do not name": counts.get("", 0),
    }
    every = sum(counts.values())
    parts = [f"{rows:,} of {every:,} episodes by {kind}" for kind, rows in kinds.items() if rows]
    return " and ".join(parts) if now else ""


def foreign(rows: Sequence[Row], recipe: Recipe) -> list[str]:
    """Say in one line which methods of shipped laws have rows that may be of another law."""
    parts = []
    for name, counts in counted(rows, recipe).items():
        law = recipe.methods[name].law
        if said := doubts(counts, now := _shipped(law)):
            parts.append(f"{label(recipe, name)} {said} ({law} has {now} here)")
    return [f"not known to be of the laws that ship: {'; '.join(parts)}"] if parts else []


def _shipped(law: str) -> str:
    """Return the digest of a law that ships; empty where its weights are not here."""
    try:
        return of_manifest(shipped.manifest(shipped.folder(law)))
    except ConfigError:
        return ""
