"""What travels with a write, and what it may change: the bins of a view, never a private plan."""

import msgspec
import pytest

from tests.substrates.swarmbench.worlds import (
    NOTHING,
    opened,
    private_round,
    seeing,
    support,
    told,
)
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.bearing import Bearing, bearing, estimate
from waggle.substrates.swarmbench.agent.compass import add, octant, sub
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.tasks.base import MOST_AGE, Plan, Report
from waggle.substrates.swarmbench.tasks.pursuit import PursuitBehaviour

TASKS = SwarmBench.tasks
PLACED = {"pursuit": "prey", "foraging": "food", "flocking": "middle", "transport": "exit"}
"""Task -> a kind of claim that has a place in it."""


def shown(world: SwarmEpisode, node: int, claim: str) -> Report | None:
    """Return the place and age of a claim as a node's view shows them."""
    facts = world.sense(node, NOTHING).claims.get(claim, {})
    if "down" not in facts:
        return None
    down, right, age = (int(facts.get(name, 0)) for name in ("down", "right", "age"))
    return Report(Bearing(down, right), age)


def told_where_it_is(task: str, seed: int) -> tuple[SwarmEpisode, int, int, str]:
    """Play until a node knows a place and has a contact that does not; return both, and the claim.

    The contact sees nothing that could contradict the report.
    """
    world = opened(task, 8, seed)
    for _ in range(80):
        for writer in world.active():
            claims = [e.claim for e in world.sense(writer, NOTHING).evidence]
            placed = [c for c in claims if c.partition(":")[0] == PLACED[task]]
            for reader in world.neighbours(writer) if placed else ():
                if not world.sense(reader, NOTHING).evidence:
                    return world, writer, reader, placed[0]
        private_round(world)
    raise AssertionError("everybody knows it at once")


@pytest.mark.parametrize("task", PLACED)
def test_what_travels_is_what_the_writers_view_shows(task: str) -> None:
    sent = 0
    world = opened(task, 8, 10_004)
    for _ in range(40):
        for write in told(world):
            assert world.payload(write) == shown(world, write.sender, write.claim)
            sent += 1
        private_round(world)
    assert sent > 20


@pytest.mark.parametrize("seed", [10_002, 10_004])
@pytest.mark.parametrize("task", PLACED)
def test_a_reader_sees_the_same_bins_counted_from_its_own_cell(task: str, seed: int) -> None:
    world, writer, reader, claim = told_where_it_is(task, seed)
    before = shown(world, writer, claim)
    assert before is not None and shown(world, reader, claim) is None
    write = support(writer, reader, claim)
    payload = world.payload(write)
    world.step({})
    delivered = world.receive(write, payload)
    offset = sub(world.scene.cells[writer], world.scene.cells[reader])
    there = add(offset, estimate(before.place))
    after = shown(world, reader, claim)
    assert after is not None and after.place == bearing(there)
    if task in ("pursuit", "foraging"):
        assert after.age == before.age + 1, "a message is one round under way"
    assert delivered is not None and delivered.direction == octant(there)
    assert world.sense(reader, NOTHING).claims[claim]["source"] == "told"


def test_a_place_passed_on_is_as_old_as_the_rounds_it_was_under_way() -> None:
    world = opened("pursuit", n=16)
    blind = [i for i in world.active() if not world.sense(i, NOTHING).evidence]
    writer, reader = next((a, b) for a in blind for b in world.neighbours(a) if b in blind)
    claim = "prey:9,9:0"
    world.behaviour.receive(support(reader, writer, claim), Report(Bearing(5, 0), 0))
    for rounds in (2, 3, 4):
        write = support(writer, reader, claim)
        payload = world.payload(write)
        world.step({})
        world.scene.memories[writer].heard.clear()
        world.receive(write, payload)
        writer, reader = reader, writer
        report = shown(world, writer, claim)
        assert report is not None and report.age == rounds and report.place.down > 0


def test_an_age_is_shown_and_travels_up_to_a_limit() -> None:
    world = opened("foraging")
    node = seeing(world, "F")
    claim = next(c for c in world.sense(node, NOTHING).claims if c.startswith("food"))
    world.scene.memories[node].clock += 50
    assert world.payload(support(node, world.neighbours(node)[0], claim)) == shown(
        world, node, claim
    )
    report = shown(world, node, claim)
    assert report is not None and report.age == MOST_AGE


def test_a_denial_and_a_claim_without_a_place_carry_nothing() -> None:
    world = opened("pursuit")
    writer = seeing(world, "P")
    reader = world.neighbours(writer)[0]
    claim = world.sense(writer, NOTHING).evidence[0].claim
    write = support(writer, reader, claim)
    assert world.payload(write) is not None
    assert world.payload(msgspec.structs.replace(write, support=0, conflict=4)) is None
    assert world.payload(support(writer, reader, "prey:9,9:7")) is None


@pytest.mark.parametrize("task", PLACED)
def test_a_write_without_a_report_teaches_no_place(task: str) -> None:
    world, writer, reader, claim = told_where_it_is(task, 10_002)
    write = support(writer, reader, claim)
    assert world.receive(write, None) == write
    assert shown(world, reader, claim) is None


def follows_private_rules(task: str, rounds: int = 40) -> bool:
    """Whether proposals stay the same when everybody is told everything that is seen."""
    silent, loud = opened(task, 8, 10_002), opened(task, 8, 10_002)
    heard = 0
    for _ in range(rounds):
        sent = [(write, loud.payload(write)) for write in told(loud)]
        if private_round(silent) != private_round(loud):
            return False
        heard += sum(loud.receive(write, payload) is not None for write, payload in sent)
    assert heard > 20
    return silent.scene.cells == loud.scene.cells


@pytest.mark.parametrize("task", TASKS)
def test_the_private_proposal_is_the_same_whatever_was_told(task: str) -> None:
    assert follows_private_rules(task)


def test_a_plan_that_reads_reports_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    private = PursuitBehaviour.plan

    def plan(self: PursuitBehaviour, node: int) -> Plan:
        heard = list(self.scene.memories[node].heard)
        step = self.walk(node, heard[0]) if heard else None
        return private(self, node) if step is None else Plan(step, False)

    monkeypatch.setattr(PursuitBehaviour, "plan", plan)
    assert not follows_private_rules("pursuit")
