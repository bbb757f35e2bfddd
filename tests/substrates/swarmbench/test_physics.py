"""Push physics: the corollaries of the rule, and the rule itself against brute force."""

import itertools
import random
from typing import Any

import networkx as nx
import pytest

from tests.substrates.swarmbench.worlds import drawn, known, play
from waggle.substrates.swarmbench.sim.levels import Box
from waggle.substrates.swarmbench.sim.physics import BOXED, BRACE, FIXED, FREE, IDLE, PUSH, Physics
from waggle.substrates.swarmbench.sim.rules import Pursuit, Transport

ROOM = """
WWWWWWWWWW
W........W
W{}W
W........W
W........W
WWWWWWWWWW
"""


def lane(row: str) -> str:
    return ROOM.format(row.ljust(8, "."))


def columns(picture: str, letters: str) -> list[int]:
    return [j for _, j in play(drawn(picture), letters)]


@pytest.mark.parametrize(
    ("row", "letters", "expected"),
    [
        ("01", "RS", [2, 3]),  # one pusher moves itself and one idle agent
        ("012", "RSS", [1, 2, 3]),  # two idle agents stop it
        ("0123", "RRSS", [2, 3, 4, 5]),  # two pushers in file move two idle ones
        ("012", "RSR", [2, 3, 4]),  # pusher, idle, pusher: all three
        ("01", "SR", [1, 3]),  # the pusher leaves the idle one behind
        ("01", "RL", [1, 2]),  # head-on: nobody moves
        ("012", "RRL", [1, 2, 3]),  # bracing costs three
        ("01234", "RRRRL", [2, 3, 4, 5, 6]),  # four pushers overcome a bracer
        ("012", "RRR", [2, 3, 4]),  # file-following
    ],
)
def test_queues(row: str, letters: str, expected: Any) -> None:
    assert columns(lane(row), letters) == expected


def test_a_queue_against_terrain_does_not_move() -> None:
    assert columns(ROOM.format("......01"), "RR") == [7, 8]


def test_one_free_cell_goes_to_the_earlier_pass() -> None:
    assert columns(lane("0.1"), "RL") == [1, 2]
    vertical = "WWWWWW\nW.0..W\nW....W\nW.1..W\nW....W\nWWWWWW"
    assert play(drawn(vertical), "DU") == [(1, 2), (2, 2)]


def test_vertical_beats_horizontal_and_the_winner_is_shoved_sideways() -> None:
    picture = "WWWWWW\nW....W\nW0...W\nW.1..W\nW....W\nWWWWWW"
    assert play(drawn(picture), "RU") == [(2, 2), (2, 3)]


def test_a_cell_vacated_in_an_earlier_pass_can_be_entered() -> None:
    picture = "WWWWWW\nW....W\nW01..W\nW....W\nW....W\nWWWWWW"
    assert play(drawn(picture), "RU") == [(2, 2), (1, 2)]


def test_only_the_first_prey_can_be_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = "WWWWWWWW\nW0P....W\nW......W\nW......W\nW......W\nWWWWWWWW"
    world = drawn(picture, "Pursuit")
    monkeypatch.setattr(world.rules, "update", lambda *_: None)
    assert play(world, "R") == [(1, 2)]
    assert known(world.rules, Pursuit).prey == (1, 3)
    assert play(drawn(picture, "Pursuit", prey=False), "R") == [(1, 1)]


BOX_ROOM = """
WWWWWWWWWWWW
W..........W
W.{}BBB....W
W.{}BBB....W
W.{}BBB....W
W..........W
W..........W
WWWWWWWWWWWW
"""


@pytest.mark.parametrize(
    ("files", "letters", "moves"),
    [
        (("01", "23", ".4"), "RRRRR", True),
        (("01", "23", ".4"), "RRRRS", False),
        ((".0", ".1", ".2"), "RRR", False),
    ],
)
def test_five_pushers_move_the_box(files: tuple[str, ...], letters: str, moves: bool) -> None:
    world = drawn(BOX_ROOM.format(*files), "Transport")
    play(world, letters)
    assert known(world.rules, Transport).box_pos() == (2, 4 + moves)


@pytest.mark.parametrize(
    ("front", "letters", "moves"),
    [
        ("5", "RRRRRS", False),
        ("5", "RRRRRR", True),
        ("5", "RRRRRL", False),
    ],
)
def test_agents_in_front_of_the_box_raise_what_it_takes(
    front: str, letters: str, moves: bool
) -> None:
    picture = f"""
    WWWWWWWWWWWW
    W..........W
    W.01BBB{front}...W
    W.23BBB....W
    W..4BBB....W
    W..........W
    WWWWWWWWWWWW
    """
    world = drawn(picture, "Transport")
    before = known(world.rules, Transport).box_pos()
    play(world, letters)
    assert known(world.rules, Transport).box_pos() == (before[0], before[1] + moves)


def test_walking_through_the_gap_leaves_the_map_for_good() -> None:
    picture = "WWWWWWWW\nW......W\nW......W\n0......W\nW..BB..W\nW......W\nWWWWWWWW"
    world = drawn(picture, "Transport")
    assert play(world, "L") == [(3, -1)]
    assert world.escaped == [True]
    assert world.score == 1.0
    assert play(world, "R") == [(3, -1)]
    assert world.grid()[3] == ".......W"


def test_an_agent_pushed_off_the_map_does_not_move_again_in_that_round() -> None:
    picture = "W0WWWWWW\nW1.....W\nW......W\nW..BB..W\nW......W\nWWWWWWWW"
    assert play(drawn(picture, "Transport"), "LU") == [(-1, 1), (0, 1)]


def brute_force(physics: Physics, step: int, strength: list[int]) -> set[int]:
    """Largest set that may move by the definition: closed forward, unblocked, enough force.

    Body -1 is the box. All subsets are tried; forces are checked by a maximum flow.
    """
    bodies = {b: [c] for b, c in enumerate(physics.pos)}
    if physics.box:
        bodies[-1] = physics.box
    owner = {c: b for b, cells in bodies.items() for c in cells}
    ahead = {
        b: {owner[c + step] for c in cells if c + step in owner} - {b}
        for b, cells in bodies.items()
    }
    stuck = {
        b for b, cells in bodies.items() if any(physics.cells[c + step] == FIXED for c in cells)
    }
    surplus = {b: -physics.box_mass if b < 0 else strength[b] for b in bodies}
    best: set[int] = set()
    for size in range(len(bodies), 0, -1):
        for chosen in itertools.combinations(bodies, size):
            members = set(chosen)
            if members & stuck or any(ahead[b] - members for b in members):
                continue
            if feasible(members, ahead, surplus):
                best |= members
    return best


def feasible(members: set[int], ahead: dict[int, set[int]], surplus: dict[int, int]) -> bool:
    graph: nx.DiGraph[int | str] = nx.DiGraph()
    graph.add_nodes_from(["source", "sink"])
    for b in members:
        if surplus[b] > 0:
            graph.add_edge("source", b, capacity=surplus[b])
        elif surplus[b] < 0:
            graph.add_edge(b, "sink", capacity=-surplus[b])
        for w in ahead[b]:
            graph.add_edge(b, w)
    need = -sum(min(surplus[b], 0) for b in members)
    return nx.maximum_flow_value(graph, "source", "sink") == need


def test_the_pass_moves_exactly_the_largest_admissible_set() -> None:
    for seed in range(150):
        check_pass(random.Random(seed), f"seed {seed}")


def check_pass(rng: random.Random, where: str) -> None:
    """Draw a small crowded map and compare one pass with the definition."""
    side = rng.choice([3, 4, 5])
    cells = [(i, j) for i in range(side) for j in range(side)]
    rng.shuffle(cells)
    box = Box((1, 1), ((0, 0), (0, 1)), mass=rng.choice([1, 2, 3])) if rng.random() < 0.5 else None
    if box:
        cells = [c for c in cells if c not in [(1, 1), (1, 2)]]
    frame = [
        (i, j)
        for i in range(-1, side + 1)
        for j in range(-1, side + 1)
        if not (0 <= i < side and 0 <= j < side)
    ]
    walls = [*(rng.sample(cells, 1)), *(w for w in frame if rng.random() < 0.5)]
    agents = [c for c in cells if c not in walls][: rng.randint(2, 8)]
    physics = Physics(side, side, walls, agents)
    if box:
        physics.add_box(box)
    direction = rng.randrange(4)
    roles = [rng.choice([PUSH, PUSH, PUSH, IDLE, BRACE]) for _ in agents]
    expected = brute_force(physics, physics.steps[direction], roles)
    before, box_before = list(physics.pos), list(physics.box)
    physics.push(
        direction,
        [b for b, r in enumerate(roles) if r == PUSH],
        [b for b, r in enumerate(roles) if r == BRACE],
    )
    moved = {b for b, c in enumerate(before) if physics.pos[b] != c}
    if physics.box != box_before:
        moved.add(-1)
    assert moved == expected, where
    for b, c in enumerate(physics.pos):
        assert physics.cells[c] == (b + 1 if physics.inside[c] else FREE) or not physics.inside[c]
    assert all(physics.cells[c] == BOXED for c in physics.box)
