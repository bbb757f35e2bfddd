"""Merge rows that were played elsewhere into a run directory.

    waggle eval recipes/tables/primary.toml --merge elsewhere/primary

A row is taken if its cell is in the plan and has no finished row here, with the record of its
episode if one was kept; rows of other plans are left out. Cells are matched by id, whatever a
recipe calls the method. If the two rows of a cell differ, or a method's rows would be of several
weights or a world's of several plug-in files, nothing is taken; with `--again` the rows from there
replace those here:

    waggle eval recipes/tables/primary.toml --methods nano --again --merge elsewhere/primary

Rows are not trusted: those with a record are recomputed from it, and a sample of the rows of rules
is played again. If one row does not match its cell, all are refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from waggle.core.errors import RecordError
from waggle.evaluate import row_check, sessions
from waggle.evaluate.episodes import RECORDS, record_path
from waggle.evaluate.executors import Inline
from waggle.evaluate.plan import Cell, Key
from waggle.evaluate.rows import Row, RowFile, alike, finished_rows, row_of, succeeded
from waggle.evaluate.stale import listed, same_weights
from waggle.runtime.records import read

DRAWN = 8
"""Number of rows of rules without a record to play again, besides the best of every task."""
SHARES = ("silo", "agentsnet")
"""Substrates whose score is a share."""
_OF_CASE = ("substrate", "task", "n", "seed", "shock", "options")
"""What a row repeats of its cell's case; tables read it from the row."""


class MergeReport(NamedTuple):
    """The row counts of one merge."""

    taken: int
    known: int
    foreign: int
    """Rows whose cells are not in the plan; rows of failed cells are ignored."""
    older: int = 0
    """Rows that stay although others of their method were replaced; possibly of an older law."""


class _Match(NamedTuple):
    """A cell of the plan that has a finished row in the other run directory."""

    cell: Cell
    source: Key
    """The key of that row there; the method may have another name."""
    row: Row
    """That row, under the method's name in the plan."""
    record: Path
    """The path of its record there; the file exists only if it was kept."""
    here: Row | None
    """The finished row of the cell here."""
    differs: bool
    """Whether both rows exist and differ in their episode, their weights or their files."""


_Digests: TypeAlias = Mapping[str, set[str]]
"""The digests of the weights that played each method's rows."""


def merge(plan: Sequence[Cell], folder: Path, other: Path, *, again: bool = False) -> MergeReport:
    """Copy the rows of the plan from another run directory, in the order of the plan.

    With `again`, rows that differ or that other weights played replace those here.

    Raises:
        RecordError: if the two rows of a cell differ, or if the rows of a method would be of
            several laws, or those of a world of several files; the message names it.
    """
    wanted = {cell.key: cell for cell in plan}
    here = {key: row for key, row in finished_rows(folder).items() if key in wanted}
    theirs = succeeded(other)
    matches = _match(wanted.values(), here, theirs, other)
    taken = [match for match in matches if match.here is None or match.differs]
    differing = [match for match in matches if match.differs]
    mine, new = _digests(here.values()), _digests(match.row for match in taken)
    mixed = [name for name in new if not same_weights(*new[name], *mine.get(name, ()))]
    if mixed and not again:
        raise RecordError(f"{other}: {_describe(mixed, mine, new, taken)}")
    if not again:
        _require_one_world([*here.values(), *(match.row for match in taken)], other)
    if differing and not again:
        first, both = differing[0].row, sum(match.here is not None for match in matches)
        raise RecordError(
            f"{other}: {len(differing)} of {both} cells that both have came out differently: "
            f"{first.cell} of {first.method} ({_name(first)}); replace them here with "
            "--again --merge, or leave the method out with --methods"
        )
    _require_honest(taken, other)
    rows = RowFile(folder)
    try:
        for match in taken:
            _take_record(match, folder / RECORDS)
            rows.append(match.row)
    finally:
        rows.close()
    sources = {match.source for match in matches}
    sessions.carry(other, folder, _methods(theirs) - _methods(sources))
    unmatched = here.keys() - {match.cell.key for match in matches}
    changed = {match.cell.method for match in differing} | set(mixed)
    left = [here[key] for key in unmatched if here[key].method in changed]
    # Rows of the weights that were taken are not older.
    older = sum(row.method not in mixed or row.digest not in new[row.method] for row in left)
    return MergeReport(len(taken), len(matches) - len(taken), len(theirs) - len(sources), older)


def _match(
    cells: Iterable[Cell], here: Mapping[Key, Row], theirs: Mapping[Key, Row], other: Path
) -> list[_Match]:
    """Match cells with the rows there: with that of the same method, else of any with its id."""
    by_id: dict[str, list[Row]] = {}
    for row in theirs.values():
        by_id.setdefault(row.cell, []).append(row)
    matches = []
    for cell in cells:
        if cell.id not in by_id:
            continue
        source = theirs.get(cell.key) or _renamed(cell, by_id[cell.id], other)
        row = msgspec.structs.replace(source, method=cell.method)
        there = cell  # not a copy, which would compute its id once more
        if source.method != cell.method:
            there = msgspec.structs.replace(cell, method=source.method)
        record = record_path(other / RECORDS, there)
        known = here.get(cell.key)
        differs = known is not None and _differ(known, row)
        matches.append(_Match(cell, source.key, row, record, known, differs))
    return matches


def _renamed(cell: Cell, rows: Sequence[Row], other: Path) -> Row:
    """Return the row of a cell from those of other methods; refuse rows that differ."""
    first, *more = rows
    for row in more:
        if _differ(first, row):
            raise RecordError(
                f"{other}: {cell.id} ({_name(first)}) came out differently as "
                f"{first.method} and as {row.method}, and {cell.method} may be either; leave it "
                "out with --methods, or play it"
            )
    return first


def _require_one_world(rows: Iterable[Row], other: Path) -> None:
    """Raise RecordError if rows were played in worlds of one name from different plug-in files."""
    known: dict[str, str] = {}
    for row in rows:
        digest = _world(row)
        if digest and known.setdefault(row.substrate, digest) != digest:
            raise RecordError(
                f"{other}: rows of world {row.substrate!r} are of several versions of its file "
                f"({known[row.substrate]}, {digest}); take them in place of those here with "
                "--again --merge, or leave its tasks out with --tasks"
            )


def _require_honest(taken: Iterable[_Match], other: Path) -> None:
    """Verify rows before they are taken.

    Every row is compared with its record if one was kept. Of the rows of rules without a record,
    the best of every task and a sample of others are played again. Rows of models without a record
    are accepted, if a score that is a share lies in 0 to 1.

    Raises:
        RecordError: if a row does not match its cell; the message names the first.
    """
    unrecorded: list[_Match] = []
    for match in taken:
        row, case = match.row, match.cell.case
        for name in _OF_CASE:
            asked = getattr(case, name)
            if getattr(row, name) != asked:
                raise _forged(other, row, f"its cell has {name} {asked}")
        headline = row.scores.get("score", 0.0)
        if case.substrate in SHARES and not 0.0 <= headline <= 1.0:
            raise _forged(other, row, f"its score {headline:g} is no share")
        if not match.record.is_file():
            unrecorded.append(match)
        elif not alike(row, row_of(match.cell, read(match.record))):
            raise _forged(other, row, f"{match.record} gives other numbers")
    rows = {match.cell.key: match.row for match in unrecorded}
    rules = row_check.rules([match.cell for match in unrecorded], rows)
    best: dict[tuple[str, str], Cell] = {}
    for cell in sorted(rules, key=lambda cell: rows[cell.key].scores.get("score", 0.0)):
        best[cell.case.substrate, cell.case.task] = cell
    sample = {cell.key: cell for cell in [*row_check.drawn(rules, DRAWN), *best.values()]}
    for result in row_check.check_rows(list(sample.values()), rows, Inline()):
        if result.differs:
            raise _forged(other, rows[result.cell.key], result.differs[0])


def _forged(other: Path, row: Row, reason: str) -> RecordError:
    return RecordError(
        f"{other}: the row {row.cell} of {row.method} ({_name(row)}) is not what its cell gives: "
        f"{reason}; nothing was taken, play it again there"
    )


def _methods(keys: Iterable[Key]) -> set[str]:
    return {method for method, _ in keys}


def _differ(one: Row, two: Row) -> bool:
    """Return whether two rows of a cell differ in their episode or, if known, in their code."""
    same = same_weights(one.digest, two.digest) and same_weights(_world(one), _world(two))
    return not (same and alike(one, two))


def _world(row: Row) -> str:
    """Return the digest of the plug-in file of a row's world; empty if it has none."""
    return (row.code or {}).get("substrate", "")


def _digests(rows: Iterable[Row]) -> dict[str, set[str]]:
    digests: dict[str, set[str]] = {}
    for row in rows:
        if row.digest:
            digests.setdefault(row.method, set()).add(row.digest)
    return digests


def _describe(mixed: Sequence[str], mine: _Digests, new: _Digests, taken: Iterable[_Match]) -> str:
    """Return one line that names the rows that would be mixed with rows of another law."""
    method, weights = mixed[0], listed(sorted(new[mixed[0]]))
    rows = sum(match.row.method == method and bool(match.row.digest) for match in taken)
    here = listed(sorted(mine.get(method, ())))
    beside = f"would lie beside rows of {here} here" if here else "are of several laws"
    more = f", and so with {len(mixed) - 1} more methods" if len(mixed) > 1 else ""
    return (
        f"{rows:,} rows of {method}, played by the weights {weights}, {beside}{more}; take "
        "them in place of those here with --again --merge, or leave the method out with --methods"
    )


def _name(row: Row) -> str:
    return f"{row.substrate}/{row.task} N={row.n} seed {row.seed}"


def _take_record(match: _Match, folder: Path) -> None:
    """Copy the record of a row atomically; remove the record of a replaced episode."""
    path = record_path(folder, match.cell)
    if match.here is not None:
        path.unlink(missing_ok=True)
    if match.record.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        shutil.copyfile(match.record, partial)
        os.replace(partial, path)
