"""Task rules that the recorded vectors exercise only in passing."""

import itertools
import random
from collections.abc import Sequence

from scipy.optimize import linear_sum_assignment

from conformance.observations import Spoken
from tests.substrates.swarmbench.worlds import drawn, known, play
from waggle.substrates.swarmbench.sim.config import Action, Cell, WorldConfig
from waggle.substrates.swarmbench.sim.rules import FlockDistance, Flocking, Pursuit, outline
from waggle.substrates.swarmbench.sim.world import GridWorld


def distance_by_definition(agents: Sequence[Cell], target: Sequence[Cell]) -> int | None:
    touching = {(a - i, b - j) for a, b in agents for i, j in target}
    best = None
    for dy, dx in touching:
        costs = [[abs(a - i - dy) + abs(b - j - dx) for i, j in target] for a, b in agents]
        rows, columns = linear_sum_assignment(costs)
        cost = sum(costs[r][c] for r, c in zip(rows, columns, strict=True))
        best = cost if best is None else min(best, cost)
    return best


def test_a_flock_that_starts_in_shape_is_done_before_its_first_round() -> None:
    few, many = (GridWorld.from_seed(WorldConfig("Flocking", n, 10, 10, 1)) for n in (3, 8))
    assert few.finished and not many.finished


def test_the_flock_distance_is_the_minimum_over_all_translations() -> None:
    cells = list(itertools.product(range(1, 9), range(1, 9)))
    for n in (1, 2, 3, 4, 5, 7, 8, 10, 11, 13, 16):
        for seed in range(3):
            agents = random.Random(seed).sample(cells, n)
            expected = distance_by_definition(agents, outline(n))
            assert FlockDistance(outline(n))(agents) == expected, (n, seed)


def test_a_flock_in_shape_ends_the_episode() -> None:
    world = drawn("WWWWWW\nW01..W\nW2.3.W\nW....W\nW....W\nWWWWWW")
    play(world, "SSSL")
    assert known(world.rules, Flocking).distance == 0
    assert world.finished


def test_unison_must_alternate() -> None:
    world = drawn("WWWWWW\nW01..W\nW....W\nW....W\nW....W\nWWWWWW", "Synchronization")
    scores = []
    for letters in ("SS", "SS", "XS", "SX", "XX", "XX"):
        play(world, letters)
        scores.append(world.score)
    assert scores == [1, 1, 1, 2, 3, 4]


def test_food_is_picked_up_and_delivered_by_standing_next_to_it() -> None:
    world = drawn("WWWWWWW\nWF0..NW\nW.....W\nW.....W\nW.....W\nWWWWWWW", "Foraging")
    assert world.grid()[1] == "WFa..NW"
    play(world, "S")
    assert world.grid()[1] == "WFA..NW"
    play(world, "R")
    assert world.score == 0
    play(world, "R")
    assert (world.score, world.grid()[1]) == (1, "WF..aNW")


def test_a_captured_prey_is_replaced_by_an_immovable_one() -> None:
    world = drawn("WWWWWWWW\nWP0....W\nW1.....W\nW......W\nW......W\nWWWWWWWW", "Pursuit")
    play(world, "SS")
    assert world.score == 1
    rules = known(world.rules, Pursuit)
    assert rules.static and rules.prey != (1, 1)


def test_messages_are_heard_after_the_move_by_those_in_reach_and_the_sender() -> None:
    world = drawn("WWWWWWWWW\nW0.1..2.W\nW.......W\nW.......W\nW.......W\nWWWWWWWWW")
    spoken = Spoken(world)
    spoken.say({0: "hi", 2: "yo", 1: ""})
    world.step([Action.STAY, Action.LEFT, Action.STAY])
    assert [spoken.heard(agent) for agent in range(3)] == [[(0, "hi")], [(0, "hi")], [(2, "yo")]]
    spoken.say({})
    assert spoken.heard(0) == []


def test_moving_food_needs_empty_cells_and_changes_who_touches_it() -> None:
    world = drawn("WWWWWWW\nWF0..NW\nW.....W\nW.....W\nW1....W\nWWWWWWW", "Foraging")
    terrain = ["WWWWWWW", "W....NW", "W.....W", "WF....W", "W.....W", "WWWWWWW"]
    world.relocate_food(terrain)
    play(world, "SS")
    assert world.state()["carrying"] == [0, 1]
    assert world.is_empty((1, 1))


def test_an_episode_ends_after_max_round() -> None:
    world = GridWorld.from_seed(WorldConfig("Pursuit", 4, 10, 10, seed=3, max_round=2))
    for _ in range(2):
        assert not world.finished
        play(world, "SSSS")
    assert world.finished
