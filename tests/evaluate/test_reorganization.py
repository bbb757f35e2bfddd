"""Reorganization: injection, metrics and course of episodes with late counterevidence.

Counterevidence enters through native views only; metrics are counted by hand on tiny episodes; the
course of an episode agrees with its metrics; the event-driven engine is a fair reference.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.runtime.swarms import Toy
from tests.runtime.swarms import play as toy_play
from waggle import plugins
from waggle.core.protocols import Case, Request, Shock
from waggle.core.record import EpisodeRecord, FieldMass, RoundRecord, UpdateRecord
from waggle.core.schema import Commitment, Decision
from waggle.evaluate.reorganization import (
    activity,
    after,
    around,
    course,
    event_recovery,
    outcome_recovery,
    post_messages,
    recovery,
    remaining,
    resynthesis_latency,
    shares,
    stale_auc,
    takeover,
)
from waggle.laws.heuristic import Heuristic
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import first_difference
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine
from waggle.substrates.beacon import Beacon
from waggle.testing.episodes import play as played


def idle(request: Request) -> Decision:
    return Decision("GO", None, (), None)


def update(node: int, claim: str | None, reopened: str | None = None, commits: bool = False):  # type: ignore[no-untyped-def]
    commit = Commitment("z1", 4) if commits else None
    return UpdateRecord(
        node, msgspec.Raw(b"{}"), 0, (), Decision("GO", None, (), commit), "first", "Explore",
        claim=claim, reopened=reopened,
    )  # fmt: skip


def shocked(*rounds: list[UpdateRecord], new: tuple[str, ...] = ("B",)) -> EpisodeRecord:
    """An episode of two nodes, shocked in round 1."""
    record = toy_play(Toy(rounds=1), idle, case=Case("toy", "toy", 2, 10_000))
    shock = Shock(1, ("A",), new, ())
    entries = tuple(
        RoundRecord(
            t, tuple(updates), {"score": 0.0}, 0, 3, field={"A": FieldMass(1, 2, 0, 1)},
            shock=shock if t == 1 else None,
        )
        for t, updates in enumerate(rounds)
    )  # fmt: skip
    header = msgspec.structs.replace(record.header, case=Case("toy", "toy", 2, 10_000))
    return EpisodeRecord(header, entries, record.footer)


HELD = [update(0, "A"), update(1, "A")]


def test_full_loop_is_recovery() -> None:
    record = shocked(
        HELD,
        [update(0, None, "A"), update(1, "A")],
        [update(0, "B", commits=True), update(1, None, "A")],
        [update(0, "B"), update(1, "B", commits=True)],
    )
    assert recovery(record) == event_recovery(record) == 1.0
    assert outcome_recovery(record) == 1.0
    assert resynthesis_latency(record) == 2.0
    assert stale_auc(record) == 3 * 3 / 2
    assert post_messages(record) == 9 / 2
    assert [(s.old, s.new, s.none) for s in shares(record)] == [
        (1.0, 0.0, 0.0),
        (0.5, 0.0, 0.5),
        (0.0, 0.5, 0.5),
        (0.0, 1.0, 0.0),
    ]


def test_too_few_reopen_or_old_stays_ahead() -> None:
    three = [[*HELD, update(2, "A")], [update(0, None, "A"), update(1, "A"), update(2, "A")]]
    record = shocked(*three, [update(0, "B", commits=True), update(1, "A"), update(2, "A")])
    assert recovery(record) == 0.0
    assert event_recovery(record) == 1.0
    assert outcome_recovery(record) == 0.0


def test_outcome_needs_no_reopening() -> None:
    record = shocked(HELD, [update(0, "B", commits=True), update(1, "B", commits=True)])
    assert outcome_recovery(record) == 1.0
    assert recovery(record) == event_recovery(record) == 0.0


def test_a_commitment_to_something_else_is_no_recovery() -> None:
    record = shocked(HELD, [update(0, "C", "A", True), update(1, "C", "A", True)])
    assert outcome_recovery(record) == 0.0
    assert resynthesis_latency(record) is None


def test_nobody_committed_when_it_came_is_no_recovery_but_may_be_an_outcome() -> None:
    record = shocked([update(0, None), update(1, None)], [update(0, "B", commits=True)])
    assert recovery(record) == event_recovery(record) == 0.0
    assert outcome_recovery(record) == 1.0
    assert resynthesis_latency(record) == 0.5


def test_equal_shares_are_no_recovery_and_half_of_the_holders_is_enough() -> None:
    replaced = [update(0, "B", "A", commits=True), update(1, "A")]
    record = shocked(HELD, replaced)
    assert recovery(record) == outcome_recovery(record) == 0.0
    assert event_recovery(record) == 1.0
    both = shocked(HELD, replaced, [update(1, "B", commits=True)])
    assert recovery(both) == 1.0, "one of two reopened through verified conflict"


def test_injection_in_the_last_round_and_departure_of_everybody() -> None:
    for record in (shocked(HELD, HELD), shocked(HELD, [], [])):
        assert recovery(record) == outcome_recovery(record) == 0.0
        assert resynthesis_latency(record) is None
        assert shares(record)[-1][1:] == (1.0, 0.0, 0.0)


def test_a_cancelled_update_is_no_synthesis_and_no_activity() -> None:
    """The node came to hold the claim otherwise; what it then called for had no effect."""
    called = msgspec.structs.replace(update(0, "B", commits=True), bottom="expiry")
    called = msgspec.structs.replace(called, mode="Synthesize")
    record = shocked(HELD, [called])
    assert resynthesis_latency(record) is None and not event_recovery(record)
    assert activity(record.rounds[-1], "Synthesize") == 0


def test_without_injection_nothing_is_defined() -> None:
    record = toy_play(Toy(rounds=1), idle)
    for name in ("recovery", "event_recovery", "outcome_recovery", "stale_auc", "post_messages"):
        assert plugins.get_metric(name)(record) is None
    assert resynthesis_latency(record) is None and shares(record) == []


def test_beacon_recovers_with_the_whole_runtime_and_not_without_conflict() -> None:
    case = Case("beacon", "beacon", 32, 10_005, shock=True)
    whole = toy_play(Beacon().open(case), Heuristic(), case=case)
    blind = toy_play(Beacon().open(case), Heuristic(), case=case, switches=Switches(conflict=False))
    stuck = toy_play(
        Beacon().open(case), Heuristic(), case=case, switches=Switches(reversible=False)
    )
    assert recovery(whole) == 1.0
    assert recovery(blind) == recovery(stuck) == 0.0
    assert outcome_recovery(stuck) == 0.0


SILO = Case("silo", "III-26", 8, 10_000, None, True)
PURSUIT = Case("swarmbench", "pursuit", 8, 10_001, None, True)


def play(case: Case, engine: type[Engine] = Engine, **given: float) -> EpisodeRecord:
    memory = Memory()
    world = plugins.get_substrate(case.substrate).open(case)
    perturbation = Perturbation(**given)  # type: ignore[arg-type]
    engine(world, plugins.get_law("expert"), case, perturbation=perturbation, sinks=[memory]).play()
    return memory.record()


@pytest.fixture(scope="module", params=[SILO, PURSUIT], ids=["silo", "pursuit"])
def episode(request: pytest.FixtureRequest) -> EpisodeRecord:
    return play(request.param)


def test_course_sums_to_the_metrics(episode: EpisodeRecord) -> None:
    found = course(episode)
    start = int(found["injection"][0])
    assert episode.rounds[start].shock is not None
    assert {len(series) for name, series in found.items() if len(series) > 1} == {
        len(episode.rounds)
    }
    assert after(found, "stale") == pytest.approx(stale_auc(episode), abs=0.01)
    assert after(found, "delivered") == pytest.approx(post_messages(episode), abs=0.01)
    last = shares(episode)[-1]
    assert (found["old"][-1], found["new"][-1]) == pytest.approx((last.old, last.new), abs=1e-4)
    holders, cleared = found["holders"][0], found["cleared"][0]
    assert 0 <= cleared <= holders <= 1
    if recovery(episode):
        assert 2 * cleared >= holders > 0
    reopened = sum(u.reopened is not None for r in episode.rounds for u in r.updates)
    assert sum(found["reopened"]) * episode.header.case.n == pytest.approx(reopened, abs=0.1)


def test_no_course_without_counterevidence() -> None:
    assert course(play(Case("silo", "III-26", 8, 10_000))) == {}
    assert after({}, "stale") is None


def test_takeover_is_the_first_lead() -> None:
    made = {"injection": [1.0], "old": [0.5, 0.5, 0.2, 0.2], "new": [0.9, 0.0, 0.2, 0.3]}
    assert takeover(made) == 2.0
    assert takeover({**made, "new": [0.9, 0.0, 0.0, 0.0]}) is None
    assert takeover({}) is None


def test_remaining_is_read_so_many_rounds_on_or_at_the_end() -> None:
    course = {"injection": [1.0], "old": [0.5, 0.5, 0.25, 0.0]}
    assert [remaining(course, rounds) for rounds in (0, 1, 10)] == [0.5, 0.25, 0.0]
    assert remaining({}, 1) is None


def test_around_averages_what_is_there() -> None:
    short = {"injection": [1.0], "old": [1.0, 0.5]}
    long = {"injection": [2.0], "old": [0.0, 0.0, 0.0, 1.0]}
    assert around([short, long, {}], "old", -2, 2) == [0.0, 0.5, 0.25, 1.0, None]


def test_sums_and_means_round_alike_in_every_python() -> None:
    tenths = {"injection": [0.0], "old": [0.1] * 10}
    assert after(tenths, "old") == 1.0, "from left to right it would be a little less"
    assert around([tenths] * 10, "old", 0, 0) == [0.1]


def test_unperturbed_event_engine_is_the_synchronous_one(episode: EpisodeRecord) -> None:
    one, two = episode, play(episode.header.case, EventEngine)
    assert (one.header.engine, two.header.engine) == ("sync", "event")
    assert one.rounds == two.rounds and one.footer == two.footer


@pytest.mark.parametrize(
    "regime", [{"delay": 1}, {"delay": 2}, {"loss": 0.2}, {"churn": 0.1}, {"delay": 2, "loss": 0.1}]
)
def test_every_regime_perturbs(regime: dict[str, float]) -> None:
    calm, rough = play(SILO, EventEngine), play(SILO, EventEngine, **regime)
    assert first_difference(calm, rough)
    if "loss" in regime:
        counts = rough.footer.counters
        assert counts["messages.delivered"] < counts["messages.attempted"]


def test_churn_starts_with_the_injection_and_lasts_two_rounds() -> None:
    record = play(SILO, EventEngine, churn=0.1)
    shock = record.shock
    assert shock is not None
    away = {entry.round: len(entry.suspended) for entry in record.rounds if entry.suspended}
    assert away == {shock.round: 1, shock.round + 1: 1}
    absent = record.rounds[shock.round].suspended[0]
    assert absent not in {u.node for u in record.rounds[shock.round].updates}


NAMED = [
    Case("beacon", "beacon", 16, 10_007, None, True),
    Case("silo", "III-26", 8, 10_003, 9, True),
]
SEEN = [
    Case("swarmbench", "pursuit", 8, 10_001, 24, True),
    Case("swarmbench", "foraging", 16, 10_002, 52, True),
]


def views(episode: EpisodeRecord, round: int) -> dict[int, dict[str, Any]]:
    return {u.node: json.loads(bytes(u.view)) for u in episode.rounds[round].updates}


def window(view: dict[str, Any]) -> Any:
    return view["private"]["observation"]


def injected(case: Case) -> tuple[EpisodeRecord, dict[int, Any], dict[int, Any]]:
    """Play with and without the injection; return the first, and the views when it came."""
    substrate, law = plugins.get_substrate(case.substrate), plugins.get_law("expert")
    calm = played(substrate, law, msgspec.structs.replace(case, shock=False))
    late = played(substrate, law, case)
    assert late.shock is not None
    start = late.shock.round
    assert late.rounds[:start] == calm.rounds[:start]
    return late, views(late, start), views(calm, start)


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.task)
def test_only_the_named_nodes_see_it_at_once(case: Case) -> None:
    late, with_it, without = injected(case)
    assert late.shock is not None
    assert {node for node in with_it if with_it[node] != without[node]} == set(late.shock.nodes)


@pytest.mark.parametrize("case", SEEN, ids=lambda case: case.task)
def test_a_view_changes_only_with_its_window(case: Case) -> None:
    _, with_it, without = injected(case)
    changed = {node for node in with_it if with_it[node] != without[node]}
    assert changed == {node for node in with_it if window(with_it[node]) != window(without[node])}
    assert 0 < len(changed) < case.n
