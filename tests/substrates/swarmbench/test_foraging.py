"""Foragers make out the lanes and walk the winding way without detours."""

from collections import deque

import pytest

from tests.substrates.swarmbench.worlds import NOTHING
from waggle.core.protocols import Act, Case
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.episode import FOLLOW, SwarmEpisode
from waggle.substrates.swarmbench.sim.config import MOVES
from waggle.substrates.swarmbench.sim.rules import Foraging
from waggle.substrates.swarmbench.tasks.winding import (
    Gap,
    Lanes,
    give_way,
    lies_at_open_end,
    take,
)


def alone(seed: int, rounds: int = 400) -> SwarmEpisode:
    """One forager on the large map."""
    return SwarmBench().open(Case("swarmbench", "foraging", 1, seed, rounds, options={"map": 24}))


def distances(terrain: list[str], symbol: str) -> dict[tuple[int, int], int]:
    """Steps from every open cell to the nearest cell that touches a symbol."""
    cells = {(i, j): s for i, row in enumerate(terrain) for j, s in enumerate(row)}
    start = [
        (i + a, j + b)
        for (i, j), s in cells.items()
        if s == symbol
        for a, b in MOVES
        if cells.get((i + a, j + b)) == "."
    ]
    field, queue = dict.fromkeys(start, 0), deque(start)
    while queue:
        i, j = queue.popleft()
        for a, b in MOVES:
            cell = (i + a, j + b)
            if cells.get(cell) == "." and cell not in field:
                field[cell] = field[i, j] + 1
                queue.append(cell)
    return field


def act(world: SwarmEpisode, claim: str | None = None) -> None:
    """Do as proposed, or follow a claim."""
    action = world.sense(0, NOTHING).proposal.action if claim is None else FOLLOW
    world.step({0: Act(action, None, None, None, NOTHING, claim)})


def carries(world: SwarmEpisode) -> bool:
    rules = world.scene.world.rules
    assert isinstance(rules, Foraging)
    return rules.carrying[0]


def test_a_window_shows_an_inner_wall_and_where_it_ends() -> None:
    lanes = Lanes(0)
    lanes.note([".....", ".....", "..Y..", "WWW..", "....."], (10, 10))
    assert lanes.axis == 0
    assert lanes.lines[0] == {11}
    assert lanes.inner[0] == {11}
    gap = lanes.gap(11)
    assert gap == Gap(11, 1)
    assert gap.spans(12) and not gap.spans(10)


def test_a_wall_two_cells_away_may_be_the_edge_of_the_map() -> None:
    lanes = Lanes(0)
    lanes.note([".....", ".....", "..Y..", ".....", "WWWWW"], (0, 0))
    assert lanes.axis is None
    lanes.note(["WWWWW", ".....", "..Y..", ".....", "WWWWW"], (0, 5))
    assert lanes.axis == 0


def test_the_edge_is_known_once_the_outside_is_in_sight() -> None:
    lanes = Lanes(0)
    lanes.note(["*****", "WWWWW", "..Y..", ".....", "....."], (0, 0))
    lanes.note(["WWWWW", ".....", "..Y..", ".....", "WWWWW"], (1, 0))
    assert lanes.edge_side(1) == -1


def test_a_lane_wider_than_the_walls_are_apart_is_the_last_one() -> None:
    lanes = Lanes(0)
    lanes.note([".....", "WWWWW", "..Y..", ".....", "....."], (0, 0))
    assert lanes.edge_side(0) is None
    lanes.note([".....", ".....", "..Y..", ".....", "WWWWW"], (3, 0))
    assert lanes.edge_side(3) == 1


def test_passing_a_line_is_remembered() -> None:
    lanes = Lanes(0)
    lanes.note([".....", ".....", "..Y..", "WW...", "....."], (0, 0))
    lanes.note([".....", "..Y..", "..Y..", "WW...", "....."], (0, 1))
    assert lanes.crossed is None
    lanes.note([".....", ".....", "WWY..", ".....", "....."], (1, 1))
    assert lanes.crossed == 1


def test_sites_lie_alike_in_their_lanes() -> None:
    lanes = Lanes(0)
    lanes.axis = 0
    lanes.gaps[0][4] = Gap(17, 1)
    assert lies_at_open_end(lanes, [Site((2, 20), 0, "nest")]) is True
    assert lies_at_open_end(lanes, [Site((2, 3), 0, "nest")]) is False
    assert lies_at_open_end(lanes, [Site((20, 3), 0, "food")]) is None


def test_a_blocked_walker_takes_another_good_step_or_now_and_then_a_side_step() -> None:
    memory = Memory()
    steps = [(1, 0), (0, 1)]
    assert take(memory, steps, frozenset(), 0) == "DOWN"
    assert take(memory, steps, frozenset({(1, 0)}), 0) == "RIGHT"
    memory.blocked = 1
    assert take(memory, steps[:1], frozenset({(1, 0)}), 0) == "DOWN"
    assert take(memory, steps[:1], frozenset({(1, 0)}), 1) in ("LEFT", "RIGHT")
    memory.solid = {(1, 0)}
    assert take(memory, steps[:1], frozenset(), 0) is None


def test_one_who_gives_way_steps_back_or_stands_still() -> None:
    memory, site = Memory(), Site((0, 3), 0, "food")
    assert give_way(memory, site, frozenset({(1, 0), (-1, 0)}), 5) == "LEFT"
    assert give_way(memory, site, frozenset({(1, 0), (-1, 0), (0, -1)}), 5) == "STAY"
    memory.solid = {(0, -1)}
    assert give_way(memory, site, frozenset({(1, 0)}), 5) == "UP"


@pytest.mark.parametrize("seed", range(10_500, 10_512))
def test_a_carrier_walks_to_the_other_end_nearly_without_detour(seed: int) -> None:
    world = alone(seed)
    terrain = world.scene.world.terrain
    for _ in range(300):
        if carries(world):
            break
        act(world)
    shortest = distances(terrain, "N")[world.scene.cells[0]]
    for _ in range(shortest + 9):
        if not carries(world):
            break
        act(world)
    assert not carries(world), f"{shortest} steps would do"
    assert world.score()["score"] == 1


@pytest.mark.parametrize("seed", range(10_500, 10_506))
@pytest.mark.parametrize("kind", ["food", "nest"])
def test_a_report_that_is_followed_leads_to_its_site(seed: int, kind: str) -> None:
    world = alone(seed)
    terrain = world.scene.world.terrain
    symbol, claim = kind[0].upper(), f"{kind}:0"
    site = next((i, row.index(symbol)) for i, row in enumerate(terrain) if symbol in row)
    memory = world.scene.memories[0]
    memory.heard[claim] = Site(world.scene.to_frame(0, site), 0, claim)
    shortest = distances(terrain, symbol)[world.scene.cells[0]]
    for _ in range(shortest + 20):
        if any(symbol in row for row in world.scene.windows[0]):
            break
        act(world, claim)
    assert kind in memory.seen


def test_a_forager_stands_at_what_it_brought_and_the_way_behind_it() -> None:
    """A step on the way counts a little, and a delivery no more than the last step to it."""
    case = Case("swarmbench", "foraging", 1, 3, 120)
    world = SwarmBench().open(case)
    terrain = world.scene.world.terrain
    to_food, to_nest = (distances(list(terrain), symbol) for symbol in "FN")
    between = min(to_nest[cell] for cell, steps in to_food.items() if steps == 0)
    before, seen = world.standing(0), []
    assert before is not None
    while not world.done():
        act(world)
        now = world.standing(0)
        assert now is not None
        seen.append(now - before)
        before = now
    assert world.score()["score"] > 2, "it has brought some"
    assert 0 <= before - world.score()["score"] <= 1
    assert max(map(abs, seen)) <= 0.5 / between + 1e-9


def test_what_foragers_stand_at_moves_with_the_bodies() -> None:
    case = Case("swarmbench", "foraging", 4, 3, 30)
    one, two = SwarmBench().open(case), SwarmBench().open(case, [2, 0, 3, 1])
    for world in (one, two):
        while not world.done():
            world.step(
                {k: Act(world.sense(k, NOTHING).proposal.action, None, None, None, NOTHING)
                 for k in world.active()}
            )  # fmt: skip
    assert [two.standing(node) for node in (1, 3, 0, 2)] == [one.standing(k) for k in range(4)]
    assert len({one.standing(k) for k in range(4)}) > 1
