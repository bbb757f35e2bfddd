"""Metrics on episodes small enough to count by hand."""

from __future__ import annotations

import msgspec
import pytest

from tests.runtime.swarms import SEEN, Toy, play
from waggle import plugins
from waggle.core.protocols import Case, Request, Shock
from waggle.core.record import EpisodeRecord, FieldMass, RoundRecord, UpdateRecord
from waggle.core.schema import BROADCAST, Commitment, Decision, Trace
from waggle.evaluate import metrics, shocks
from waggle.laws.heuristic import Heuristic
from waggle.runtime.switches import Switches
from waggle.substrates.beacon import Beacon


def law(request: Request) -> Decision:
    rows = request.view.private.evidence
    if not rows:
        return Decision("GO", None, (), None)
    return Decision("GO", None, (Trace(BROADCAST, rows[0].claim, 4, 3, 0, 8),), None)


def test_counts_of_a_tiny_episode() -> None:
    record = play(Toy(rounds=3, evidence={(0, 0): [SEEN], (1, 0): [SEEN]}), law)
    assert metrics.score(record) == 3.0
    assert metrics.candidates(record) == 2.0
    assert metrics.executed(record) == 1.0
    assert metrics.messages(record) == pytest.approx(2 / 3)
    assert metrics.executable(record) == 1.0
    assert metrics.recruitment(record) == 1.0
    assert metrics.explore(record) == pytest.approx(7 / 9)
    assert metrics.decay_mass(record) == 2 * (4 + 3) - 2 * (2 + 2)


def update(node: int, claim: str | None, reopened: str | None = None, commits: bool = False):  # type: ignore[no-untyped-def]
    commit = Commitment("z1", 4) if commits else None
    return UpdateRecord(
        node, msgspec.Raw(b"{}"), 0, (), Decision("GO", None, (), commit), "first", "Explore",
        claim=claim, reopened=reopened,
    )  # fmt: skip


def shocked(*rounds: list[UpdateRecord], new: tuple[str, ...] = ("B",)) -> EpisodeRecord:
    """An episode of two nodes, shocked in round 1."""
    record = play(Toy(rounds=1), law, case=Case("toy", "toy", 2, 10_000))
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
    assert shocks.recovery(record) == shocks.event_recovery(record) == 1.0
    assert shocks.outcome_recovery(record) == 1.0
    assert shocks.resynthesis_latency(record) == 2.0
    assert shocks.stale_auc(record) == 3 * 3 / 2
    assert shocks.post_messages(record) == 9 / 2
    assert [(s.old, s.new, s.none) for s in shocks.shares(record)] == [
        (1.0, 0.0, 0.0),
        (0.5, 0.0, 0.5),
        (0.0, 0.5, 0.5),
        (0.0, 1.0, 0.0),
    ]


def test_too_few_reopen_or_old_stays_ahead() -> None:
    three = [[*HELD, update(2, "A")], [update(0, None, "A"), update(1, "A"), update(2, "A")]]
    record = shocked(*three, [update(0, "B", commits=True), update(1, "A"), update(2, "A")])
    assert shocks.recovery(record) == 0.0
    assert shocks.event_recovery(record) == 1.0
    assert shocks.outcome_recovery(record) == 0.0


def test_outcome_needs_no_reopening() -> None:
    record = shocked(HELD, [update(0, "B", commits=True), update(1, "B", commits=True)])
    assert shocks.outcome_recovery(record) == 1.0
    assert shocks.recovery(record) == shocks.event_recovery(record) == 0.0


def test_a_commitment_to_something_else_is_no_recovery() -> None:
    record = shocked(HELD, [update(0, "C", "A", True), update(1, "C", "A", True)])
    assert shocks.outcome_recovery(record) == 0.0
    assert shocks.resynthesis_latency(record) is None


def test_nobody_committed_when_it_came_is_no_recovery_but_may_be_an_outcome() -> None:
    record = shocked([update(0, None), update(1, None)], [update(0, "B", commits=True)])
    assert shocks.recovery(record) == shocks.event_recovery(record) == 0.0
    assert shocks.outcome_recovery(record) == 1.0
    assert shocks.resynthesis_latency(record) == 0.5


def test_equal_shares_are_no_recovery_and_half_of_the_holders_is_enough() -> None:
    replaced = [update(0, "B", "A", commits=True), update(1, "A")]
    record = shocked(HELD, replaced)
    assert shocks.recovery(record) == shocks.outcome_recovery(record) == 0.0
    assert shocks.event_recovery(record) == 1.0
    both = shocked(HELD, replaced, [update(1, "B", commits=True)])
    assert shocks.recovery(both) == 1.0, "one of two reopened through verified conflict"


def test_injection_in_the_last_round_and_departure_of_everybody() -> None:
    for record in (shocked(HELD, HELD), shocked(HELD, [], [])):
        assert shocks.recovery(record) == shocks.outcome_recovery(record) == 0.0
        assert shocks.resynthesis_latency(record) is None
        assert shocks.shares(record)[-1][1:] == (1.0, 0.0, 0.0)


def test_a_cancelled_update_is_no_synthesis_and_no_activity() -> None:
    """The node came to hold the claim otherwise; what it then called for had no effect."""
    called = msgspec.structs.replace(update(0, "B", commits=True), bottom="expiry")
    called = msgspec.structs.replace(called, mode="Synthesize")
    record = shocked(HELD, [called])
    assert shocks.resynthesis_latency(record) is None and not shocks.event_recovery(record)
    assert shocks.activity(record)[-1] == (1, 0, 0)


def test_without_injection_nothing_is_defined() -> None:
    record = play(Toy(rounds=1), law)
    for name in ("recovery", "event_recovery", "outcome_recovery", "stale_auc", "post_messages"):
        assert plugins.get_metric(name)(record) is None
    assert shocks.resynthesis_latency(record) is None and shocks.shares(record) == []


def test_beacon_recovers_with_the_whole_runtime_and_not_without_conflict() -> None:
    case = Case("beacon", "beacon", 32, 10_005, shock=True)
    whole = play(Beacon().open(case), Heuristic(), case=case)
    blind = play(Beacon().open(case), Heuristic(), case=case, switches=Switches(conflict=False))
    stuck = play(Beacon().open(case), Heuristic(), case=case, switches=Switches(reversible=False))
    assert shocks.recovery(whole) == 1.0
    assert shocks.recovery(blind) == shocks.recovery(stuck) == 0.0
    assert shocks.outcome_recovery(stuck) == 0.0


def test_every_registered_metric_is_total_on_a_real_record() -> None:
    case = Case("beacon", "beacon", 8, 10_000)
    record = play(Beacon().open(case), Heuristic(), case=case)
    for name in plugins.names("metric"):
        value = plugins.get_metric(name)(record)
        assert value is None or isinstance(value, float)
