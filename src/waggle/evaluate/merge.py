"""Merge rows that were played elsewhere into a run directory.

    waggle eval recipes/tables/primary.toml --merge elsewhere/primary

A row is taken if its cell is in the plan and has no finished row here, with the record of its
episode if one was kept; rows of other plans are left out. Cells are matched by id, whatever a
recipe calls the method. If the two rows of a cell differ, or a method's rows would be of several
weights, nothing is taken; with `--again` the rows from there replace those here:

    waggle eval recipes/tables/primary.toml --methods nano --again --merge elsewhere/primary

Rows are not trusted: those with a record are recomputed from it, and a sample of the rows of rules
is played again. If one row does not match its cell, all are refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from waggle.core.errors import RecordError
from waggle.evaluate import recheck, sessions
from waggle.evaluate.episodes import RECORDS, record_path
from waggle.evaluate.executors import Inline
from waggle.evaluate.plan import Cell, Key
from waggle.evaluate.resume import listed, same_weights
from waggle.evaluate.rows import Row, RowFile, alike, finished_rows, row_of, succeeded
from waggle.runtime.records import read

DRAWN = 8
"""Number of rows of rules without a record to play again, besides the best of every task."""
SHARES = ("silo", "agentsnet")
"""Substrates whose score is a share."""


class MergeReport(NamedTuple):
    """The row counts of one merge."""

    taken: int
    known: int
    foreign: int
    """Rows whose cells are not in the plan; rows of failed cells are ignored."""
    older: int = 0
    """Rows that stay although others of their method were replaced; possibly of an older law."""


_Digests: TypeAlias = Mapping[str, set[str]]
"""The digests of the weights that played each method's rows."""


def merge(plan: Sequence[Cell], folder: Path, other: Path, *, again: bool = False) -> MergeReport:
    """Copy the rows of the plan from another run directory, in the order of the plan.

    With `again`, rows that differ or that other weights played replace those here.

    Raises:
        RecordError: if the two rows of a cell differ, or if the rows of a method would be of
            several laws; the message names it.
    """
    wanted = {cell.key: cell for cell in plan}
    here = {key: row for key, row in finished_rows(folder).items() if key in wanted}
    theirs = succeeded(other)
    source = _sources(wanted, theirs, other)
    found = {key: msgspec.structs.replace(theirs[k], method=key[0]) for key, k in source.items()}
    both = [key for key in wanted if key in found and key in here]
    differ = [key for key in both if _differ(here[key], found[key])]
    known = set(both) - set(differ)
    taken = {key: row for key, row in found.items() if key not in known}
    mine, new = _digests(here.values()), _digests(taken.values())
    mixed = [name for name in new if not same_weights(*new[name], *mine.get(name, ()))]
    if mixed and not again:
        raise RecordError(f"{other}: {_describe(mixed, mine, new, taken)}")
    if differ and not again:
        first = found[differ[0]]
        raise RecordError(
            f"{other}: {len(differ)} of {len(both)} cells that both have came out differently: "
            f"{first.cell} of {first.method} ({_name(first)}); replace them here with "
            "--again --merge, or leave the method out with --methods"
        )
    records = {key: _record(wanted[key], source[key], other) for key in taken}
    _require_honest(wanted, taken, records, other)
    rows = RowFile(folder)
    for key, cell in wanted.items():
        if key in taken:
            _take_record(cell, folder / RECORDS, records[key], key in here)
            rows.append(found[key])
    rows.close()
    sessions.carry(other, folder, _methods(theirs) - _methods(source.values()))
    changed = _methods(differ) | set(mixed)
    left = [row for key, row in here.items() if key[0] in changed and key not in found]
    older = sum(row.method not in mixed or row.digest not in new[row.method] for row in left)
    return MergeReport(len(taken), len(known), len(theirs) - len(set(source.values())), older)


def _sources(wanted: Iterable[Key], theirs: Mapping[Key, Row], other: Path) -> dict[Key, Key]:
    """Return the key in `theirs` of each cell's row: of the same method, else of any with its id.

    A cell that several other methods have is refused if their rows differ.
    """
    by_id: dict[str, list[Key]] = {}
    for key in theirs:
        by_id.setdefault(key[1], []).append(key)
    found = {}
    for key in wanted:
        if key in theirs:
            found[key] = key
        elif key[1] in by_id:
            first, *more = by_id[key[1]]
            for each in more:
                if _differ(theirs[first], theirs[each]):
                    raise RecordError(
                        f"{other}: {key[1]} ({_name(theirs[first])}) came out differently as "
                        f"{first[0]} and as {each[0]}, and {key[0]} may be either; leave it out "
                        "with --methods, or play it"
                    )
            found[key] = first
    return found


def _record(cell: Cell, key: Key, other: Path) -> Path:
    """Return the path of a row's record in `other`; the file exists only if it was kept."""
    return record_path(other / RECORDS, msgspec.structs.replace(cell, method=key[0]))


def _require_honest(
    wanted: Mapping[Key, Cell], taken: Mapping[Key, Row], records: Mapping[Key, Path], other: Path
) -> None:
    """Verify rows before they are taken.

    Every row is compared with its record if one was kept. Of the rows of rules without a record,
    the best of every task and a sample of others are played again. Rows of models without a record
    are accepted, if a score that is a share lies in 0 to 1.

    Raises:
        RecordError: if a row does not match its cell; the message names the first.
    """
    alone = {}
    for key, row in taken.items():
        cell = wanted[key]
        case = cell.case
        if (row.substrate, row.task, row.n, row.seed) != (
            case.substrate, case.task, case.n, case.seed,
        ):  # fmt: skip
            raise _forged(other, row, f"its cell is {case.task} N={case.n} seed {case.seed}")
        headline = row.scores.get("score", 0.0)
        if case.substrate in SHARES and not 0.0 <= headline <= 1.0:
            raise _forged(other, row, f"its score {headline:g} is no share")
        if records[key].is_file():
            if not alike(row, row_of(cell, read(records[key]))):
                raise _forged(other, row, f"{records[key]} gives other numbers")
        else:
            alone[key] = row
    known = recheck.rules([wanted[key] for key in alone], alone)
    best: dict[tuple[str, str], Cell] = {}
    for cell in sorted(known, key=lambda cell: alone[cell.key].scores.get("score", 0.0)):
        best[cell.case.substrate, cell.case.task] = cell
    chosen = {cell.key: cell for cell in [*recheck.drawn(known, DRAWN), *best.values()]}
    for found in recheck.recheck(list(chosen.values()), alone, Inline()):
        if found.differs:
            raise _forged(other, alone[found.cell.key], found.differs[0])


def _forged(other: Path, row: Row, reason: str) -> RecordError:
    return RecordError(
        f"{other}: the row {row.cell} of {row.method} ({_name(row)}) is not what its cell gives: "
        f"{reason}; nothing was taken, play it again there"
    )


def _methods(keys: Iterable[Key]) -> set[str]:
    return {method for method, _ in keys}


def _differ(one: Row, two: Row) -> bool:
    """Return whether two rows of a cell differ in their episode or, if known, their weights."""
    return not alike(one, two) or not same_weights(one.digest, two.digest)


def _digests(rows: Iterable[Row]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        if row.digest:
            found.setdefault(row.method, set()).add(row.digest)
    return found


def _describe(mixed: Sequence[str], mine: _Digests, new: _Digests, taken: Mapping[Key, Row]) -> str:
    """Return one line that names the rows that would be mixed with rows of another law."""
    method, weights = mixed[0], listed(sorted(new[mixed[0]]))
    rows = sum(row.method == method and bool(row.digest) for row in taken.values())
    here = listed(sorted(mine.get(method, ())))
    beside = f"would lie beside rows of {here} here" if here else "are of several laws"
    more = f", and so with {len(mixed) - 1} more methods" if len(mixed) > 1 else ""
    return (
        f"{rows:,} rows of {method}, played by the weights {weights}, {beside}{more}; take "
        "them in place of those here with --again --merge, or leave the method out with --methods"
    )


def _name(row: Row) -> str:
    return f"{row.substrate}/{row.task} N={row.n} seed {row.seed}"


def _take_record(cell: Cell, here: Path, source: Path, replaced: bool) -> None:
    """Copy the record of a cell; remove the record of a replaced episode."""
    if replaced:
        record_path(here, cell).unlink(missing_ok=True)
    if source.is_file():
        here.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, record_path(here, cell))
