"""The interface-matched controls: their traffic, their silence, their strength."""

from __future__ import annotations

import pytest

from waggle import plugins
from waggle.core.order import Order
from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine
from waggle.testing.episodes import REGIMES
from waggle.testing.propositions import relabelling


def play(task: str, n: int, law: str, seed: int = 10_000) -> EpisodeRecord:
    found = plugins.find_task(task)
    case = Case(found.substrate, found.task, n, seed)
    memory = Memory()
    world = plugins.get_substrate(found.substrate).open(case)
    Engine(world, plugins.get_law(law), case, sinks=[memory]).play()
    return memory.record()


@pytest.mark.parametrize("law", ["nativemsg", "fixedswarm"])
@pytest.mark.parametrize("task", ["silo/I-05", "silo/II-11", "silo/III-26"])
def test_silo_controls_send_exactly_one_frame_a_round(law: str, task: str) -> None:
    record = play(task, 16, law)
    assert record.footer.counters["messages.delivered"] == 9 * 16


@pytest.mark.parametrize("law", ["nativemsg", "fixedswarm"])
def test_they_do_where_a_node_has_drawn_one_lot_for_all_its_ports(law: str) -> None:
    """Such a node cannot tell its ports apart in the first round, and the swarm stays anonymous."""
    case = Case("silo", "I-01", 16, 10_050)
    substrate = plugins.get_substrate("silo")
    memory = Memory()
    Engine(substrate.open(case), plugins.get_law(law), case, sinks=[memory]).play()
    sent = memory.record().footer.counters
    assert sent["messages.attempted"] == sent["messages.delivered"] == 9 * 16
    orders: tuple[Order, ...] = ("shuffled", "canonical")
    for order in orders:
        found = relabelling(substrate, plugins.get_law(law), case, order=order, regimes=REGIMES[:1])
        assert found is None


@pytest.mark.parametrize("task", ["silo/I-05", "swarmbench/pursuit", "agentsnet/coloring"])
def test_nocomm_is_silent_but_acts(task: str) -> None:
    record = play(task, 8, "nocomm")
    assert record.footer.counters["messages.attempted"] == 0
    assert record.footer.counters.get("writes.candidate", 0) == 0
    assert any(u.native not in (None, "WAIT") for r in record.rounds for u in r.updates)


def test_nativemsg_keeps_no_field_and_no_commitment() -> None:
    record = play("beacon", 16, "nativemsg")
    assert all(u.claim is None for r in record.rounds for u in r.updates)
    assert record.footer.counters["messages.delivered"] > 0
    quiet = record.rounds[-1]
    assert sum(m.traces for m in quiet.field.values()) == quiet.delivered


def test_fixedswarm_commits_and_reopens() -> None:
    case = Case("beacon", "beacon", 16, 10_000, shock=True)
    memory = Memory()
    world = plugins.get_substrate("beacon").open(case)
    Engine(world, plugins.get_law("fixedswarm"), case, sinks=[memory]).play()
    assert memory.record().footer.counters["reopened"] > 0
    assert memory.record().footer.scores["score"] == 1.0


def frames(record: EpisodeRecord, round: int) -> set[tuple[int, tuple[int, ...]]]:
    """Return who wrote to whom in one round."""
    updates = record.rounds[round].updates
    return {(u.node, w.receivers) for u in updates for w in u.writes if w.cause is None}


def test_the_controls_share_the_experts_port_rule() -> None:
    """The first frames are the same; the expert alone is silent where its ports are all alike."""
    for seed in (10_000, 10_001):
        expert, native, fixed = (
            play("silo/III-26", 32, law, seed) for law in ("expert", "nativemsg", "fixedswarm")
        )
        assert frames(expert, 0) <= frames(native, 0) == frames(fixed, 0)
        shared = [len(frames(expert, r) & frames(native, r)) for r in range(9)]
        assert sum(shared) >= 0.75 * 9 * 32


def test_the_controls_differ_from_one_another_on_silo() -> None:
    def scores(law: str) -> list[float]:
        tasks = ("silo/I-02", "silo/II-11", "silo/III-26")
        played = [play(task, 32, law, seed) for task in tasks for seed in (10_000, 10_001)]
        return [record.footer.scores["score"] for record in played]

    assert scores("nativemsg") != scores("fixedswarm")


def test_only_fixedswarm_commits_on_silo_and_it_reopens_what_is_refuted() -> None:
    native, fixed = (play("silo/III-26", 16, law) for law in ("nativemsg", "fixedswarm"))
    assert all(u.claim is None for r in native.rounds for u in r.updates)
    assert any(u.claim is not None for r in fixed.rounds for u in r.updates)
    assert fixed.footer.counters["reopened"] > 0


@pytest.mark.parametrize("law", ["nativemsg", "fixedswarm"])
def test_silo_controls_are_at_least_round_robin(law: str) -> None:
    tasks = ("silo/I-08", "silo/III-26", "silo/III-23")

    def mean(name: str) -> float:
        return sum(
            play(t, 32, name, s).footer.scores["score"] for t in tasks for s in (10_000, 10_001)
        )

    assert mean(law) >= mean("round-robin")


@pytest.mark.parametrize("law", ["nocomm", "nativemsg", "fixedswarm"])
@pytest.mark.parametrize(
    "task", ["silo/II-15", "swarmbench/foraging", "agentsnet/matching", "beacon"]
)
def test_every_record_is_executable_as_emitted(law: str, task: str) -> None:
    counters = play(task, 8, law).footer.counters
    assert counters["stage.first"] == counters["updates"]


def strict(task: str, law: str, seeds: range = range(10_000, 10_006)) -> float:
    """Return the strict solved fraction over the three graph families at N = 8."""
    substrate = plugins.get_substrate("agentsnet")
    solved = []
    for seed in seeds:
        for family in ("ws", "ba", "dt"):
            case = Case("agentsnet", task, 8, seed, options={"family": family})
            footer = Engine(substrate.open(case), plugins.get_law(law), case).play()
            solved.append(footer.scores["strict"])
    return sum(solved) / len(solved)


@pytest.mark.parametrize(
    ("task", "native", "fixed"),
    [
        ("coloring", 0.9, 0.9),
        ("consensus", 1.0, 1.0),
        ("leader_election", 0.1, 0.9),
        ("matching", 0.8, 0.8),
        ("vertex_cover", 0.9, 0.9),
    ],
)
def test_controls_are_strong_on_graphs(task: str, native: float, fixed: float) -> None:
    assert strict(task, "nativemsg") >= native
    assert strict(task, "fixedswarm") >= fixed
