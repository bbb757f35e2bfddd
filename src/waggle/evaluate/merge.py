"""Rows that were played elsewhere, taken into a run directory.

    waggle eval recipes/tables/primary.toml --merge elsewhere/primary

A row is taken if its cell is in the plan and has no finished row here, with the record of its
episode where one was kept; rows of other plans are left out. A cell is what is played, whatever a
recipe calls the method; where several there play it, they must have come out alike. Invariant: a
cell that both have must have come out alike, and a method's rows must be of the same weights, else
nothing is taken from there, unless what is here is to be replaced:

    waggle eval recipes/tables/primary.toml --methods nano --again --merge elsewhere/primary
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from waggle.core.errors import RecordError
from waggle.evaluate import sessions
from waggle.evaluate.episodes import record_path
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, RowFile, alike, succeeded
from waggle.evaluate.runner import RECORDS, finished_rows
from waggle.evaluate.weights import Key, clash, listed


class Merged(NamedTuple):
    """What a merge did with the rows of one folder."""

    taken: int
    known: int
    foreign: int
    """Rows whose cells are not in the plan, or that failed."""
    older: int = 0
    """Rows that stay although others of their method were replaced: perhaps of an older law."""


def merge(plan: Sequence[Cell], folder: Path, other: Path, *, again: bool = False) -> Merged:
    """Take the rows of another run directory that the plan asks for, in the order of the plan.

    Args:
        plan: the cells.
        folder: the run directory that takes.
        other: the run directory that gives.
        again: whether rows that came out differently, or that other weights played, replace those
            that are here.

    Raises:
        RecordError: if a cell that both have came out differently, or if rows of a method would be
            of several laws, naming it.
    """
    wanted = {(cell.method, cell.id): cell for cell in plan}
    here = {key: row for key, row in finished_rows(folder).items() if key in wanted}
    theirs = succeeded(other)
    known_as = _found(wanted, theirs, other)
    mine = {key: msgspec.structs.replace(theirs[k], method=key[0]) for key, k in known_as.items()}
    both = [key for key in wanted if key in mine and key in here]
    differ = [key for key in both if _differ(here[key], mine[key])]
    known = set(both) - set(differ)
    taken = {key: row for key, row in mine.items() if key not in known}
    clashes = clash(here, taken)
    if clashes and not again:
        raise RecordError(f"{other}: {_clash(clashes, taken)}")
    if differ and not again:
        raise RecordError(
            f"{other}: {len(differ)} of {len(both)} cells that both have came out differently: "
            f"{differ[0][1]} of {differ[0][0]} ({_name(mine[differ[0]])}); replace them here with "
            "--again --merge, or leave the method out with --methods"
        )
    rows = RowFile(folder)
    for key in wanted:
        if key in taken:
            if key in here:  # the record of the episode that is replaced
                record_path(folder / RECORDS, wanted[key]).unlink(missing_ok=True)
            named = msgspec.structs.replace(wanted[key], method=known_as[key][0])
            _take_record(wanted[key], folder / RECORDS, record_path(other / RECORDS, named))
            rows.append(mine[key])
    rows.close()
    sessions.carry(other, folder, _methods(theirs) - _methods(known_as.values()))
    changed = {method for method, _ in differ} | clashes.keys()
    left = [row for key, row in here.items() if key[0] in changed and key not in mine]
    older = sum(row.digest not in clashes.get(row.method, ((), ()))[1] for row in left)
    foreign = len(theirs) - len(set(known_as.values()))
    return Merged(len(taken), len(known), foreign, older)


def _found(wanted: Iterable[Key], theirs: Mapping[Key, Row], other: Path) -> dict[Key, Key]:
    """Return under which method each cell stands there: its own, else any that plays the same.

    Raises:
        RecordError: if several others play it, and it came out differently.
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


def _methods(keys: Iterable[Key]) -> set[str]:
    return {method for method, _ in keys}


def _differ(one: Row, two: Row) -> bool:
    """Whether two rows of a cell are of two episodes, or of two laws as far as they say."""
    return not alike(one, two) or bool(one.digest and two.digest and one.digest != two.digest)


def _clash(
    clashes: Mapping[str, tuple[Sequence[str], Sequence[str]]], taken: Mapping[Key, Row]
) -> str:
    """Say in one line which rows would lie beside rows of another law."""
    method, (mine, theirs) = next(iter(clashes.items()))
    rows = sum(key[0] == method and bool(row.digest) for key, row in taken.items())
    beside = f"would lie beside rows of {listed(mine)} here" if mine else "are of several laws"
    more = f", and so with {len(clashes) - 1} more methods" if len(clashes) > 1 else ""
    return (
        f"{rows:,} rows of {method}, played by the weights {listed(theirs)}, {beside}{more}; take "
        "them in place of those here with --again --merge, or leave the method out with --methods"
    )


def _name(row: Row) -> str:
    return f"{row.substrate}/{row.task} N={row.n} seed {row.seed}"


def _take_record(cell: Cell, here: Path, source: Path) -> None:
    if source.is_file():
        here.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, record_path(here, cell))
