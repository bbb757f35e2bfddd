"""Decide which finished rows still count when a plan is resumed.

A law that was trained again keeps its name and its cells keep their ids: only the digest in a row
distinguishes the two laws. Rows whose digest differs from the law's current one are stale, and a
method with stale rows is not continued unless requested. The same holds for the digest of a plug-in
file that a law or a world comes from. Rows without a digest, of built-in rules and of early runs,
count as finished. Digests are compared only where both are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from waggle.core.errors import WaggleError
from waggle.evaluate.code import Part, Source, name_in, source_of
from waggle.evaluate.episodes import law_of, options_of
from waggle.evaluate.plan import Cell, Key
from waggle.evaluate.rows import Row
from waggle.laws.digest import digest_of


class FinishedRows(NamedTuple):
    """The weights of a method's finished rows and the current weights of its law."""

    method: str
    now: str
    """Digest of the law's weights; empty for rules and where it is not known."""
    digests: Mapping[str, int]
    """Number of rows by digest; rows without one are counted under the empty string."""

    @property
    def stale(self) -> int:
        """The number of rows that other weights played."""
        return sum(k for each, k in self.digests.items() if self.now and each not in ("", self.now))


def compare(
    cells: Iterable[Cell], here: Mapping[Key, Row], width: int | None = None
) -> list[FinishedRows]:
    """Return the weights of the finished rows of every method whose rows have a digest.

    Laws are created with the batch size that they will play with.
    """
    counts: dict[str, Counter[str]] = {}
    first: dict[str, Cell] = {}
    for cell in cells:
        row = here.get(cell.key)
        if row is not None:
            first.setdefault(cell.method, cell)
            counts.setdefault(cell.method, Counter())[row.weights or ""] += 1
    return [
        FinishedRows(name, _digest_now(first[name], width), own)
        for name, own in counts.items()
        if any(own)
    ]


def _digest_now(cell: Cell, width: int | None) -> str:
    """Return the digest of a cell's law; empty if the law cannot be created."""
    try:
        return digest_of(law_of(cell.law, options_of(cell, width)))
    except WaggleError:
        return ""


def stale_methods(
    cells: Sequence[Cell], here: Mapping[Key, Row], width: int | None = None
) -> list[tuple[list[str], str]]:
    """Return the methods that are not continued and the reason, grouped by law or by file."""
    groups: dict[str, list[FinishedRows]] = {}
    for each in compare(cells, here, width):
        if each.stale:
            groups.setdefault(each.now, []).append(each)
    retrained = [([each.method for each in own], _reason(own)) for own in groups.values()]
    return [*retrained, *_rewritten(cells, here)]


def _rewritten(cells: Iterable[Cell], here: Mapping[Key, Row]) -> Iterator[tuple[list[str], str]]:
    """Yield the methods whose law or world comes from a file that changed, and the reason."""
    sources: dict[tuple[Part, str], Source | None] = {}
    changed: dict[str, Counter[str]] = {}
    for cell in cells:
        row = here.get(cell.key)
        for part, digest in ((row and row.code) or {}).items():
            key = part, name_in(cell, part)
            if key not in sources:
                sources[key] = source_of(*key)
            source, what = sources[key], "law" if part == "law" else "world"
            if source is not None and source.digest != digest:
                whole = f"{what} {key[1]!r} ({source.file})"
                changed.setdefault(whole, Counter())[cell.method] += 1
    for whole, methods in changed.items():
        count = f"{methods.total():,} of its rows {'was' if methods.total() == 1 else 'were'}"
        yield list(methods), f"{whole} changed after {count} played; {_again(methods)}"


def _again(methods: Iterable[str]) -> str:
    return f"--again --methods {','.join(methods)} plays them again"


def _reason(own: Sequence[FinishedRows]) -> str:
    stale, rows = sum(p.stale for p in own), sum(sum(p.digests.values()) for p in own)
    others = sorted({d for p in own for d in p.digests if d not in ("", p.now)})
    return (
        f"{stale:,} of {rows:,} finished rows were played by other weights ({listed(others)}) than "
        f"the law has now ({own[0].now}); {_again(p.method for p in own)}"
    )


def listed(digests: Sequence[str]) -> str:
    """Return digests as text, at most the first three."""
    more = f" and {len(digests) - 3} more" if len(digests) > 3 else ""
    return ", ".join(digests[:3]) + more


def same_weights(*digests: str) -> bool:
    """Return whether all known digests are of one law."""
    return len(set(digests) - {""}) <= 1
