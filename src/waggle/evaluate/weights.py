"""Which weights played the rows of a run, and whether the laws still have them.

A law that was trained again keeps its name, and its cells keep their ids: only the digest in a row
tells the two apart. Rows whose digest is not the law's present one are stale, and nothing is played
beside them unasked. Rows that say nothing, of runs before rows had digests, count as finished.
Invariant: digests decide only where both sides are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from waggle.core.errors import WaggleError
from waggle.evaluate.episodes import law_of, options_of
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row
from waggle.laws.digest import digest_of

Key: TypeAlias = tuple[str, str]
"""Method and id of a cell."""


class Played(NamedTuple):
    """The finished rows of a method beside the weights its law has now."""

    method: str
    now: str
    """Digest of the law's weights; empty for rules and where it cannot be told."""
    digests: Mapping[str, int]
    """How many rows each digest has; rows that say nothing are under the empty one."""

    @property
    def stale(self) -> int:
        """Rows that other weights played."""
        return sum(k for each, k in self.digests.items() if self.now and each not in ("", self.now))

    @property
    def untold(self) -> int:
        """Rows that do not say which weights played them, where the law can say."""
        return self.digests.get("", 0) if self.now else 0


def compare(
    cells: Iterable[Cell], here: Mapping[Key, Row], width: int | None = None, silent: bool = False
) -> list[Played]:
    """Return for every method that has finished rows which weights played them.

    Args:
        cells: the cells whose rows count.
        here: the finished rows.
        width: the batch size that laws will be made with.
        silent: whether laws are made, too, whose rows all say nothing.
    """
    counts: dict[str, Counter[str]] = {}
    first: dict[str, Cell] = {}
    for cell in cells:
        row = here.get((cell.method, cell.id))
        if row is not None:
            first.setdefault(cell.method, cell)
            counts.setdefault(cell.method, Counter())[row.digest] += 1
    return [
        Played(name, _now(first[name], width), own)
        for name, own in counts.items()
        if silent or any(own)
    ]


def _now(cell: Cell, width: int | None) -> str:
    """Return the digest of a cell's law; empty where it cannot be made, as when it is played."""
    try:
        return digest_of(law_of(cell.law, options_of(cell, width)))
    except WaggleError:
        return ""


def refused(played: Iterable[Played]) -> list[tuple[list[str], str]]:
    """Say which methods are not continued and why, once for those of one law."""
    groups: dict[str, list[Played]] = {}
    for each in played:
        if each.stale:
            groups.setdefault(each.now, []).append(each)
    return [([each.method for each in own], _reason(own)) for own in groups.values()]


def _reason(own: Sequence[Played]) -> str:
    stale, rows = sum(p.stale for p in own), sum(sum(p.digests.values()) for p in own)
    others = sorted({d for p in own for d in p.digests if d not in ("", p.now)})
    names = ",".join(p.method for p in own)
    return (
        f"{stale:,} of {rows:,} finished rows were played by other weights ({listed(others)}) than "
        f"the law has now ({own[0].now}); --again --methods {names} plays them again"
    )


def staying(played: Iterable[Played]) -> list[str]:
    """Say which rows stay beside those that are played now although they may be of another law."""
    lines = []
    for each in played:
        if each.stale:
            lines.append(
                f"{each.method}: {each.stale:,} rows of other weights stay beside those of "
                f"{each.now}; play them again, too, or every table will say so"
            )
        elif each.untold:
            lines.append(
                f"{each.method}: {each.untold:,} rows stay that do not say which weights played "
                f"them, beside those of {each.now}; if the law has changed, play all with --again "
                f"--methods {each.method}"
            )
    return lines


def listed(digests: Sequence[str]) -> str:
    """Write digests down, the first few of many."""
    more = f" and {len(digests) - 3} more" if len(digests) > 3 else ""
    return ", ".join(digests[:3]) + more


def clash(
    here: Mapping[Key, Row], taken: Mapping[Key, Row]
) -> dict[str, tuple[list[str], list[str]]]:
    """Return the methods whose rows would be of several laws: digests here and of what is taken."""
    mine, theirs = (_by_method(rows.values()) for rows in (here, taken))
    return {
        name: (sorted(mine.get(name, ())), sorted(own))
        for name, own in theirs.items()
        if len(own | mine.get(name, set())) > 1
    }


def _by_method(rows: Iterable[Row]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        if row.digest:
            found.setdefault(row.method, set()).add(row.digest)
    return found


def measured_before(row: Row, told: Row | None) -> Row:
    """Return a row that was measured from a record, with the weights that its first row names."""
    return row if told is None else msgspec.structs.replace(row, weights=told.weights)
