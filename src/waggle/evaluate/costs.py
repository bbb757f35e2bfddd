"""What a plan costs before it is played: decisions per cell, and a fair deal among processes.

A decision is one local update of one node. Invariant: costs steer who plays what and when, never
what is played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.errors import WaggleError
from waggle.core.protocols import Case
from waggle.evaluate.plan import Cell

WEIGHTS: Mapping[str, float] = {"agentsnet": 6.0, "silo": 1.6, "swarmbench/synchronization": 2.5}
"""Tokens that `nano` reads and writes for a decision, relative to one of Pursuit; by task, else by
substrate, else 1. Measured on the cells of the primary matrix and of AgentsNet."""


class Count(NamedTuple):
    """A method's part of a plan."""

    method: str
    cells: int
    decisions: int
    finished: int
    """Cells of these that need no playing."""
    left: int
    """Decisions of the cells that do."""


def decisions(cell: Cell) -> int:
    """Return how many decisions a cell asks for if its episode goes to its horizon.

    A case that cannot be opened asks for none; it fails when it is played.
    """
    case = msgspec.structs.replace(cell.case, seed=0)  # the horizon is the same for all seeds
    return case.n * _rounds(msgspec.json.encode(case, order="sorted"))


@cache
def _rounds(case: bytes) -> int:
    """Return the updates per node of a case, told apart by its JSON text."""
    opened = msgspec.json.decode(case, type=Case)
    try:
        return plugins.get_substrate(opened.substrate).open(opened).rounds
    except WaggleError:
        return 0


def cost(cell: Cell) -> float:
    """Return what a cell costs, in decisions of Pursuit."""
    case = cell.case
    weight = WEIGHTS.get(f"{case.substrate}/{case.task}", WEIGHTS.get(case.substrate, 1.0))
    return weight * decisions(cell)


def deal(cells: Sequence[Cell], hands: int) -> list[list[Cell]]:
    """Deal cells so that all hands end together: the costliest first, to whoever has least."""
    dealt: list[list[Cell]] = [[] for _ in range(hands)]
    load = [0.0] * hands
    costs = {id(cell): cost(cell) for cell in cells}
    for cell in sorted(cells, key=lambda cell: -costs[id(cell)]):
        least = min(range(hands), key=load.__getitem__)
        dealt[least].append(cell)
        load[least] += costs[id(cell)]
    return dealt


def deal_laws(laws: Sequence[Sequence[Cell]], hands: int) -> list[list[tuple[int, list[Cell]]]]:
    """Deal the cells of several laws so that hands end together and hold few laws each.

    A single law is dealt cell by cell. Several lie end to end, in the order given, and are cut into
    equal parts, so that a hand has neighbours only: a law is loaded by few hands.

    Returns:
        for every hand the places of its laws, each with its cells, the costliest first.
    """
    if sum(map(bool, laws)) == 1:
        place = next(k for k, cells in enumerate(laws) if cells)
        return [[(place, some)] if some else [] for some in deal(laws[place], hands)]
    line = [(place, cell, cost(cell)) for place, cells in enumerate(laws) for cell in cells]
    share = sum(price for _, _, price in line) / hands
    dealt: list[dict[int, list[tuple[float, Cell]]]] = [{} for _ in range(hands)]
    passed = 0.0
    for place, cell, price in line:
        hand = min(hands - 1, int((passed + price / 2) / share)) if share else 0
        dealt[hand].setdefault(place, []).append((price, cell))
        passed += price
    return [
        [(place, [cell for _, cell in sorted(some, key=lambda pair: -pair[0])])
         for place, some in hand.items()]
        for hand in dealt
    ]  # fmt: skip


def total(rows: Sequence[Count]) -> Count:
    """Return the sum of all methods."""
    return Count(
        "all",
        sum(row.cells for row in rows),
        sum(row.decisions for row in rows),
        sum(row.finished for row in rows),
        sum(row.left for row in rows),
    )


def counts(plan: Sequence[Cell], finished: set[tuple[str, str]]) -> list[Count]:
    """Return what every method of a plan asks for, in the order of the plan."""
    found: dict[str, list[Cell]] = {}
    for cell in plan:
        found.setdefault(cell.method, []).append(cell)
    rows = []
    for method, cells in found.items():
        open_cells = [cell for cell in cells if (cell.method, cell.id) not in finished]
        rows.append(
            Count(
                method,
                len(cells),
                sum(map(decisions, cells)),
                len(cells) - len(open_cells),
                sum(map(decisions, open_cells)),
            )
        )
    return rows
