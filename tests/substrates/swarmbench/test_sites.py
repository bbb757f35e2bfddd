"""What refutes a claim: a window without the target, and a newer denial."""

import msgspec

from tests.substrates.swarmbench.worlds import NOTHING, known, opened, seeing, support
from waggle.core.protocols import Local, Write
from waggle.substrates.swarmbench.agent.bearing import Bearing
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.sim.rules import Pursuit
from waggle.substrates.swarmbench.tasks.base import Report
from waggle.substrates.swarmbench.tasks.foraging import ForagingBehaviour
from waggle.substrates.swarmbench.tasks.pursuit import PursuitBehaviour


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
    report = Report(Bearing(4, 0), 0)
    world.behaviour.receive(support(1 - min(writer, 1), writer, claim), report)
    memory.clock += known(world.behaviour, PursuitBehaviour).refute_after
    assert claim not in memory.refuted
    world._plan()
    assert conflicts(world, writer, claim) == []


def test_a_prey_in_sight_elsewhere_refutes_at_once() -> None:
    world = opened("pursuit")
    writer = seeing(world, "P")
    assert conflicts(world, writer, "prey:9,9:0") == [4]


def told_forager() -> tuple[SwarmEpisode, int, str]:
    """A forager in its fifth round who saw no food, and a claim of food."""
    world = opened("foraging")
    node = next(i for i in world.active() if "food" not in world.scene.memories[i].seen)
    world.scene.memories[node].clock = 5
    return world, node, "food:3,3:0"


def denied(novelty: int, node: int, claim: str) -> Write:
    return Write(node, node, claim, novelty, 0, 4, 8, None, True)


def test_a_forager_takes_a_denial_that_is_newer_than_all_it_was_told() -> None:
    world, node, claim = told_forager()
    sites, there = world.behaviour, Bearing(4, 4)
    sites.receive(support(node, node, claim), Report(there, 1))
    sites.receive(denied(3, node, claim), None)
    assert conflicts(world, node, claim) == [], "as old as the report"
    sites.receive(denied(4, node, claim), None)
    assert conflicts(world, node, claim) == [4]
    sites.receive(support(node, node, claim), Report(there, 1))
    assert conflicts(world, node, claim) == [4], "older than the denial"
    sites.receive(support(node, node, claim), Report(there, 0))
    assert conflicts(world, node, claim) == []


def test_a_denial_passed_on_is_as_old_as_the_eyes_it_rests_on() -> None:
    world, node, claim = told_forager()
    for novelty in (2, 4):
        world.behaviour.receive(denied(novelty, node, claim), None)
        (row,) = [r for r in world.sense(node, Local((), claim, 4)).evidence if r.conflict]
        assert row.novelty == novelty - 1, "a message is one round under way"


def test_a_hunter_takes_no_denial_from_others() -> None:
    world = opened("pursuit")
    node = next(i for i in world.active() if "prey" not in world.scene.memories[i].seen)
    world.scene.memories[node].clock = 5
    world.behaviour.receive(denied(4, node, "prey:9,9:0"), None)
    assert conflicts(world, node, "prey:9,9:0") == []


def test_a_reported_place_is_coarse_so_its_emptiness_counts_after_a_while() -> None:
    world, node, claim = told_forager()
    sites, memory = known(world.behaviour, ForagingBehaviour), world.scene.memories[node]
    assert not any("F" in row for row in world.scene.windows[node])
    sites.receive(support(node, node, claim), Report(Bearing(1, 1), 0))
    sites.look(node)
    assert claim not in memory.heard and claim in memory.unsure
    for later, expected in ((0, []), (sites.doubt - 1, []), (sites.doubt, [4])):
        memory.clock += later
        assert conflicts(world, node, claim) == expected
        memory.clock -= later


def test_a_coarse_report_refutes_nothing_that_the_node_saw_itself() -> None:
    world = opened("foraging")
    node = seeing(world, "F")
    memory, sites = world.scene.memories[node], world.behaviour
    memory.here = (memory.here[0] + 20, memory.here[1])  # carried out of sight of it
    world.scene.windows[node] = ["....."] * 5
    own = memory.seen["food"]
    sites.receive(support(node, node, own.claim), Report(Bearing(1, 1), 0))
    sites.look(node)
    assert memory.seen["food"] == own and own.claim not in memory.heard
    assert conflicts(world, node, own.claim) == []


def test_a_forager_with_a_route_of_its_own_relays_nothing() -> None:
    world = opened("foraging")
    node = seeing(world, "F")
    other = world.neighbours(node)[0]
    world._plans[node] = world._plans[node]._replace(route=True)
    relay = Write(node, other, "nest:0,0:0", 4, 4, 0, 7, "N", False)
    assert world.withhold(relay) == "route"
    assert world.withhold(msgspec.structs.replace(relay, fresh=True)) is None
