"""Which finished rows still count when a plan is played on.

A law that was trained again keeps its name and its cells keep their ids: only the digest in a row
tells the two laws apart. Rows whose digest is not the law's present one are stale, and a method is
not continued beside stale rows unasked. Rows without a digest, of rules and of early runs, count as
finished. Digests decide only where both sides are known.

`waggle eval --again` plays finished cells anew. Rows are only ever appended, so the size of the row
file at the start of such a call tells which rows were played since. The size is kept in a journal
until the call ends: the same call goes on after an interruption, except with rows of weights that
its law has no more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from waggle.core.errors import WaggleError
from waggle.evaluate.episodes import law_of, options_of
from waggle.evaluate.plan import Cell, Key
from waggle.evaluate.rows import FILE, Row, read_rows
from waggle.laws.digest import digest_of

JOURNAL = "again.json"
"""File of a run directory: at which byte of the rows each unfinished `--again` began."""
MAX_JOURNAL = 1 << 20


class Played(NamedTuple):
    """The finished rows of a method beside the weights its law has now."""

    method: str
    now: str
    """Digest of the law's weights; empty for rules and where it is not known."""
    digests: Mapping[str, int]
    """How many rows have each digest; rows without one are under the empty text."""

    @property
    def stale(self) -> int:
        """Rows that other weights played."""
        return sum(k for each, k in self.digests.items() if self.now and each not in ("", self.now))

    @property
    def unnamed(self) -> int:
        """Rows that do not name their weights although the law has some."""
        return self.digests.get("", 0) if self.now else 0


def compare(
    cells: Iterable[Cell], here: Mapping[Key, Row], width: int | None = None, unnamed: bool = False
) -> list[Played]:
    """Return for every method that has finished rows which weights played them.

    Args:
        cells: the cells whose rows count.
        here: the finished rows.
        width: the batch size that laws will be made with.
        unnamed: whether methods of which no row names its weights are compared as well.
    """
    counts: dict[str, Counter[str]] = {}
    first: dict[str, Cell] = {}
    for cell in cells:
        row = here.get(cell.key)
        if row is not None:
            first.setdefault(cell.method, cell)
            counts.setdefault(cell.method, Counter())[row.digest] += 1
    return [
        Played(name, _digest_now(first[name], width), own)
        for name, own in counts.items()
        if unnamed or any(own)
    ]


def _digest_now(cell: Cell, width: int | None) -> str:
    """Return the digest of a cell's law; empty where it cannot be made."""
    try:
        return digest_of(law_of(cell.law, options_of(cell, width)))
    except WaggleError:
        return ""


def stale_methods(played: Iterable[Played]) -> list[tuple[list[str], str]]:
    """Return the methods that are not continued and the reason, once for those of one law."""
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


def mixture_notes(played: Iterable[Played]) -> list[str]:
    """Say which rows stay beside those that are played now although they may be of another law."""
    lines = []
    for each in played:
        if each.stale:
            lines.append(
                f"{each.method}: {each.stale:,} rows of other weights stay beside those of "
                f"{each.now}; play them again, too, or every table will say so"
            )
        elif each.unnamed:
            lines.append(
                f"{each.method}: {each.unnamed:,} rows stay that do not say which weights played "
                f"them, beside those of {each.now}; if the law has changed, play all with --again "
                f"--methods {each.method}"
            )
    return lines


def listed(digests: Sequence[str]) -> str:
    """Write digests down, the first three of many."""
    more = f" and {len(digests) - 3} more" if len(digests) > 3 else ""
    return ", ".join(digests[:3]) + more


def same_weights(*digests: str) -> bool:
    """Whether digests are of one law, as far as they are known."""
    return len(set(digests) - {""}) <= 1


class Again:
    """One call of `waggle eval --again`."""

    def __init__(self, folder: Path, cells: Sequence[Cell]) -> None:
        self._folder, self._cells, self._path = folder, cells, folder / JOURNAL
        named = sorted({f"{cell.method} {cell.id}" for cell in cells})
        self._name = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]

    def done(
        self, width: int | None = None, notice: Callable[[str], None] | None = None
    ) -> dict[Key, Row]:
        """Return the rows that an interrupted call of the same cells has played.

        Args:
            width: the batch size that laws will be made with.
            notice: called with their number, if there are any.
        """
        start = self._start()
        if start is None:
            return {}
        wanted = {cell.key for cell in self._cells}
        rows = {row.key: row for row in read_rows(self._folder, start)}
        found = {key: row for key, row in rows.items() if key in wanted and not row.error}
        now = {each.method: each.now for each in compare(self._cells, found, width)}
        kept = {
            key: row
            for key, row in found.items()
            if same_weights(row.digest, now.get(row.method, ""))
        }
        if kept and notice is not None:
            notice(
                f"going on with an interrupted --again: {len(kept):,} cells have been played "
                f"again; remove {self._path} to play all of them"
            )
        return kept

    def _start(self) -> int | None:
        """Return where an interrupted call began, if rows have only been appended since."""
        start = self._journal().get(self._name)
        if not start:
            return start
        try:
            with (self._folder / FILE).open("rb") as rows:
                rows.seek(start - 1)
                return start if rows.read(1) == b"\n" else None
        except OSError:
            return None

    def begin(self) -> None:
        """Write down where this call begins, unless it goes on with an interrupted one."""
        if self._start() is None:
            self._write({**self._journal(), self._name: (self._folder / FILE).stat().st_size})

    def end(self) -> None:
        """Remove this call from the journal."""
        self._write({k: start for k, start in self._journal().items() if k != self._name})

    def _journal(self) -> dict[str, int]:
        """Return where calls began; a file that is no journal holds none."""
        try:
            if self._path.stat().st_size > MAX_JOURNAL:
                return {}
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(name): max(0, int(start)) for name, start in found.items()}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def _write(self, journal: Mapping[str, int]) -> None:
        partial = self._path.with_name(f".{JOURNAL}.{os.getpid()}")
        partial.write_text(json.dumps(journal), encoding="utf-8")
        os.replace(partial, self._path)
        if not journal:
            self._path.unlink()
