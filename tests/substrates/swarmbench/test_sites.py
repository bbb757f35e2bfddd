"""What refutes a claim: a window without the target, and a newer denial."""

import msgspec

from tests.substrates.swarmbench.worlds import NOTHING, known, opened, seeing
from waggle.core.protocols import Local, Write
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.sim.rules import Pursuit
from waggle.substrates.swarmbench.tasks.pursuit import PursuitBehaviour
from waggle.substrates.swarmbench.tasks.sites import Sighting


def vanished(world: SwarmEpisode, writer: int) -> str:
    """Take the prey out of the writer's sight and return the claim it was known by."""
    claim = world.sense(writer, NOTHING).evidence[0].claim
    grid = world.scene.world
    prey = known(grid.rules, Pursuit).prey
    far = max(
        ((i, j) for i in range(1, 9) for j in range(1, 9) if grid.is_empty((i, j))),
        key=lambda c: abs(c[0] - prey[0]) + abs(c[1] - prey[1]),
    )
    grid.relocate_prey(far)
    world.scene.look_again()
    world._plan()
    return claim


def conflicts(world: SwarmEpisode, node: int, claim: str) -> list[int]:
    """Return the verified conflict a committed node has against its claim."""
    rows = world.sense(node, Local((), claim, 4)).evidence
    return [row.conflict for row in rows if row.claim == claim and row.conflict]


def test_a_prey_missed_in_its_place_refutes_the_claim_after_a_refresh_period() -> None:
    world = opened("pursuit")
    writer = seeing(world, "P")
    claim = vanished(world, writer)
    memory = world.scene.memories[writer]
    sites = known(world.behaviour, PursuitBehaviour)
    patience, doubt = sites.refute_after, sites.refute_until
    assert patience == sites.refresh and doubt is not None
    for later, expected in ((0, []), (patience - 1, []), (patience, [4]), (doubt + 1, [])):
        memory.clock += later
        assert conflicts(world, writer, claim) == expected
        memory.clock -= later


def test_newer_word_of_a_missed_prey_keeps_the_claim() -> None:
    world = opened("pursuit")
    writer = seeing(world, "P")
    claim = vanished(world, writer)
    memory = world.scene.memories[writer]
    memory.clock += 2
    cue = Sighting(world.scene.to_map(writer, (memory.here[0] + 4, memory.here[1])), memory.clock)
    world.behaviour.receive(Write(1 - min(writer, 1), writer, claim, 4, 4, 0, 8, "S", True), cue)
    memory.clock += known(world.behaviour, PursuitBehaviour).refute_after
    assert claim not in memory.refuted
    world._plan()
    assert conflicts(world, writer, claim) == []


def test_a_prey_in_sight_elsewhere_refutes_at_once() -> None:
    world = opened("pursuit")
    writer = seeing(world, "P")
    assert conflicts(world, writer, "prey:9,9:0") == [4]


def test_a_forager_takes_a_denial_that_is_newer_than_all_it_was_told() -> None:
    world = opened("foraging")
    node = next(i for i in world.active() if "food" not in world.scene.memories[i].seen)
    memory, other, claim = world.scene.memories[node], (node + 1) % world.n, "food:3,3:0"
    memory.clock = 5
    place = Sighting((7, 7), 3)
    world.behaviour.receive(Write(other, node, claim, 4, 4, 0, 8, "S", True), place)
    denial = Write(other, node, claim, 4, 0, 4, 8, None, True)
    world.behaviour.receive(denial, Sighting(None, 2))
    assert conflicts(world, node, claim) == []
    world.behaviour.receive(denial, Sighting(None, 4))
    assert conflicts(world, node, claim) == [4]
    world.behaviour.receive(Write(other, node, claim, 4, 4, 0, 8, "S", True), Sighting((7, 7), 5))
    assert conflicts(world, node, claim) == []


def test_a_denial_passed_on_keeps_the_round_of_the_eyes_it_rests_on() -> None:
    world = opened("foraging")
    node = next(i for i in world.active() if "food" not in world.scene.memories[i].seen)
    memory, other, claim = world.scene.memories[node], (node + 1) % world.n, "food:3,3:0"
    memory.clock = 5
    denial = Write(other, node, claim, 4, 0, 4, 8, None, True)
    world.behaviour.receive(denial, Sighting(None, 2))
    passed = Write(node, other, claim, 1, 0, 4, 8, None, True)
    assert world.behaviour.payload(passed) == Sighting(None, 2)


def test_a_forager_with_a_route_of_its_own_relays_nothing() -> None:
    world = opened("foraging")
    node = seeing(world, "F")
    other = world.neighbours(node)[0]
    world._plans[node] = world._plans[node]._replace(route=True)
    relay = Write(node, other, "nest:0,0:0", 4, 4, 0, 7, "N", False)
    assert world.withhold(relay) == "route"
    assert world.withhold(msgspec.structs.replace(relay, fresh=True)) is None
