"""Flocking and Transport: what agents find out, what they tell, and what comes of it."""

from functools import cache

import pytest

from tests.substrates.swarmbench.worlds import NOTHING, known, support
from waggle.core.protocols import Act, Case
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.bearing import Bearing
from waggle.substrates.swarmbench.agent.compass import walls
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.sim.config import MOVE_NAMES
from waggle.substrates.swarmbench.sim.rules import Flocking
from waggle.substrates.swarmbench.tasks import flocking, transport
from waggle.substrates.swarmbench.tasks.base import Landmark, Report


def opened(task: str, n: int, seed: int, **options: object) -> SwarmEpisode:
    return SwarmBench().open(Case("swarmbench", task, n, seed, options=options))


def play(world: SwarmEpisode, rounds: int) -> None:
    for _ in range(rounds):
        if not world.done():
            moves = {k: world.sense(k, NOTHING).proposal.action for k in world.active()}
            world.step({k: Act(move, None, None, "PRIVATE", NOTHING) for k, move in moves.items()})


def true_walls(world: SwarmEpisode, node: int) -> dict[str, int]:
    """The walls of the map in a node's own frame."""
    (i, j), (a, b) = world.scene.cells[node], world.scene.memories[node].here
    last = world.scene.world.config.width - 1
    return {"UP": a - i, "LEFT": b - j, "DOWN": a - i + last, "RIGHT": b - j + last}


def scene_of(world: SwarmEpisode) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(world.scene.world.physics.cell(c) for c in world.scene.world.physics.box))


@cache
def one_seed_per_scene() -> list[int]:
    seeds: dict[object, int] = {}
    seed = 10_020
    while len(seeds) < 8:
        seeds.setdefault(scene_of(opened("transport", 8, seed)), seed)
        seed += 1
    return list(seeds.values())


def test_three_walls_of_a_square_map_give_the_fourth() -> None:
    for missing in MOVE_NAMES:
        full = {"UP": -3, "DOWN": 6, "LEFT": 2, "RIGHT": 11}
        seen = {side: line for side, line in full.items() if side != missing}
        assert flocking.complete(seen) == full
    assert flocking.complete({"UP": 0, "LEFT": 0}) == {"UP": 0, "LEFT": 0}


def test_walls_are_told_from_corners_and_boxes() -> None:
    window = ["WWWWW", "WBB..", "W.Y..", "W..A.", "W...."]
    assert walls(window, (10, 20)) == {"UP": 8, "LEFT": 18}


def test_the_outline_takes_every_side_as_it_contracts() -> None:
    full = {"UP": 0, "LEFT": 0, "DOWN": 23, "RIGHT": 23}
    sides = []
    for clock in range(100):
        shape = flocking.outline(full, *flocking.inset(clock))
        assert shape.bottom - shape.top == shape.right - shape.left
        sides.append(shape.bottom - shape.top + 1)
    assert sorted(set(sides), reverse=True) == list(range(17, 4, -1))


@pytest.mark.parametrize("seed", [10_020, 10_021, 10_022])
def test_what_an_agent_finds_of_the_map_is_true(seed: int) -> None:
    world = opened("flocking", 8, seed)
    play(world, 30)
    behaviour = known(world.behaviour, flocking.FlockingBehaviour)
    found = [node for node in range(8) if behaviour.found(node) is not None]
    assert found
    for node in found:
        walls = true_walls(world, node)
        assert flocking.complete(behaviour.walls[node]) == walls
        middle = (walls["UP"] + walls["DOWN"]) // 2, (walls["LEFT"] + walls["RIGHT"]) // 2
        assert behaviour.found(node) == middle


@pytest.mark.parametrize(("n", "share"), [(8, 0.5), (16, 0.6), (32, 0.5)])
def test_the_flock_comes_most_of_the_way_without_a_word(n: int, share: float) -> None:
    world = opened("flocking", n, 10_021)
    far = known(world.scene.world.rules, Flocking).distance
    play(world, 100)
    assert world.score()["score"] >= share * far


@pytest.mark.parametrize("scene", range(8))
def test_eight_agents_get_the_box_out_of_every_exit(scene: int) -> None:
    world = opened("transport", 8, one_seed_per_scene()[scene])
    play(world, 100)
    assert world.done()
    assert world.score()["score"] > 3


@pytest.mark.parametrize("scene", range(8))
def test_an_exit_is_found_rightly_and_its_box_is_where_it_is_thought_to_be(scene: int) -> None:
    world = opened("transport", 8, one_seed_per_scene()[scene])
    behaviour = known(world.behaviour, transport.TransportBehaviour)
    found = 0
    for _ in range(60):
        physics = world.scene.world.physics
        box = {physics.cell(c) for c in physics.box}
        for node in world.active():
            notes = behaviour.notes[node]
            if behaviour.found(node) is not None and "B" in "".join(world.scene.windows[node]):
                found += 1
                cells = {notes.exits[0].cell(place) for place in transport.BOX[notes.stage]}
                assert {world.scene.to_map(node, cell) for cell in cells} == box
                assert behaviour.found(node) == notes.exits[0].cell((2, 2))
        play(world, 1)
    assert found > 10


def finder_and_other(task: str) -> tuple[SwarmEpisode, Landmark, int, int]:
    """Play until somebody found the landmark; return the finder and one who did not."""
    world = opened(task, 8, 10_023)
    behaviour = known(world.behaviour, Landmark)
    while all(behaviour.found(node) is None for node in range(8)):
        play(world, 1)
    writer = next(node for node in range(8) if behaviour.found(node) is not None)
    reader = next(node for node in range(8) if behaviour.found(node) is None)
    return world, behaviour, writer, reader


@pytest.mark.parametrize(("task", "claim"), [("flocking", "middle"), ("transport", "exit")])
def test_a_reported_landmark_is_shown_and_leaves_the_private_move_alone(
    task: str, claim: str
) -> None:
    world, behaviour, writer, reader = finder_and_other(task)
    (row,) = world.sense(writer, NOTHING).evidence
    assert row.claim == claim
    assert world.sense(reader, NOTHING).evidence == ()
    assert behaviour.walk(reader, claim) is None
    before = behaviour.look(reader)
    write = support(writer, reader, claim)
    behaviour.receive(write, behaviour.payload(write))
    sensed = world.sense(reader, NOTHING)
    assert sensed.claims[claim]["source"] == "told"
    assert sensed.evidence == () and sensed.proposal.action == before.move


@pytest.mark.parametrize(("task", "claim"), [("flocking", "middle"), ("transport", "exit")])
def test_the_nearest_report_is_kept_whichever_comes_first(task: str, claim: str) -> None:
    world, behaviour, _, reader = finder_and_other(task)
    near, far = Report(Bearing(3, -1), 0), Report(Bearing(5, 6), 0)
    for order in ((near, far), (far, near)):
        behaviour.heard[reader] = None
        for report in order:
            behaviour.receive(support(reader, reader, claim), report)
        facts = world.sense(reader, NOTHING).claims[claim]
        assert (facts["down"], facts["right"]) == near.place


@pytest.mark.parametrize(("task", "claim"), [("flocking", "middle"), ("transport", "exit")])
def test_one_who_follows_a_landmark_comes_near_and_then_is_on_its_own(
    task: str, claim: str
) -> None:
    _, behaviour, _, reader = finder_and_other(task)
    behaviour.receive(support(reader, reader, claim), Report(Bearing(3, 0), 0))
    assert behaviour.walk(reader, claim) is not None
    assert behaviour.walk(reader, "somewhere else") is None
    behaviour.receive(support(reader, reader, claim), Report(Bearing(1, -1), 0))
    assert behaviour.walk(reader, claim) is None
