"""Byzantine nodes: who they are, what they do, what the rules leave them, and that it repeats."""

from __future__ import annotations

import msgspec
import pytest

from tests.runtime.swarms import Toy, play
from waggle import plugins
from waggle.core.admit import violations
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Request
from waggle.core.record import EpisodeRecord, UpdateRecord
from waggle.core.schema import WAIT, Decision, Evidence, Trace, private_decision
from waggle.runtime.attacks import ATTACKS, Attack
from waggle.runtime.perturb import Perturbation, Schedule
from waggle.runtime.replay import first_difference, replay, view_of
from waggle.testing import episodes
from waggle.testing.propositions import relabelling

SILO = Case("silo", "II-11", 8, 10_003, 5)
PURSUIT = Case("swarmbench", "pursuit", 8, 10_003, 5)
BEACON = Case("beacon", "beacon", 8, 10_003, 8, shock=True)
MIXED = Evidence("apple", 4, 3, 2)
"""Evidence that supports and contradicts a claim, as a substrate may show it."""


def attacked(
    attack: Attack, case: Case = SILO, engine: episodes.EngineName = "sync", share: float = 0.25
) -> EpisodeRecord:
    substrate, law = plugins.get_substrate(case.substrate), plugins.get_law("expert")
    regime = Perturbation(byzantine=share, attack=attack)
    return episodes.play(substrate, law, case, engine=engine, perturbation=regime)


def of_liars(record: EpisodeRecord) -> list[UpdateRecord]:
    header = record.header
    regime = Perturbation(byzantine=0.25, attack=header.perturbation["attack"])
    liars = Schedule(regime, header.case.seed, header.keys, header.rounds).byzantine
    assert len(liars) == 2
    return [u for entry in record.rounds for u in entry.updates if u.node in liars]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("case", [SILO, BEACON], ids=lambda case: case.substrate)
def test_an_attack_is_admissible_and_replays_on_both_engines(attack: Attack, case: Case) -> None:
    records = [attacked(attack, case, engine) for engine in episodes.ENGINES]
    event = msgspec.structs.replace(records[1], header=records[0].header)
    assert not first_difference(records[0], event)
    for record in records:
        world = plugins.get_substrate(case.substrate).open(case)
        assert replay(record, world).same
    for entry in records[0].rounds:
        for update in entry.updates:
            assert not violations(view_of(records[0].header, update), update.decision)


@pytest.mark.parametrize("attack", ATTACKS)
def test_relabelling_the_swarm_relabels_the_attack(attack: Attack) -> None:
    regime = episodes.Regime(attack, Perturbation(byzantine=0.25, attack=attack, delay=1))
    for case in (SILO, BEACON):
        substrate, law = plugins.get_substrate(case.substrate), plugins.get_law("expert")
        assert relabelling(substrate, law, case, regimes=[regime]) is None


def test_who_attacks_goes_with_the_body_and_not_with_the_number() -> None:
    regime = Perturbation(byzantine=0.1)
    plain, turned = range(40), [*range(20, 40), *range(20)]
    first, second = (Schedule(regime, 7, keys, 10).byzantine for keys in (plain, turned))
    assert len(first) == 4 and first != second
    assert {plain[i] for i in first} == {turned[i] for i in second}
    assert first != Schedule(regime, 8, plain, 10).byzantine


def test_the_silent_write_nothing_and_the_waiting_do_nothing() -> None:
    silent, waiting = of_liars(attacked("silent")), of_liars(attacked("wait"))
    assert not any(u.decision.deposits or u.decision.commit for u in silent)
    assert {u.decision.task_action for u in silent} - {WAIT}
    assert {u.decision.task_action for u in waiting} == {WAIT}


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a not in ("silent", "wait")])
def test_other_attacks_do_something_else_than_the_law_and_speak(attack: Attack) -> None:
    found = of_liars(attacked(attack, BEACON)) + of_liars(attacked(attack))
    assert any(u.decision != u.raw[0] for u in found) or attack == "challenge"
    assert any(u.decision.deposits for u in found)


def test_colluding_nodes_speak_for_one_claim_at_a_time() -> None:
    for update in of_liars(attacked("collude")):
        assert len({d.claim for d in update.decision.deposits}) <= 1


def test_an_unverified_challenge_is_left_out_before_it_is_sent() -> None:
    record = attacked("challenge")
    for update in of_liars(record):
        view = view_of(record.header, update)
        backed = {e.claim for e in view.private.evidence if e.conflict}
        backed |= {t.claim for t in view.traces if t.conflict}
        assert {d.claim for d in update.decision.deposits if d.conflict} <= backed


def test_the_score_of_the_honest_counts_nobody_else() -> None:
    scores = attacked("wait").footer.scores
    assert scores["honest"] * 6 == pytest.approx(scores["score"] * 8)  # who waits never answers
    assert "honest" not in attacked("wait", share=0.0).footer.scores
    assert "honest" not in attacked("wait", PURSUIT).footer.scores  # success is the swarm's alone


def test_an_unknown_attack_is_refused() -> None:
    with pytest.raises(ConfigError, match="attack must be one of silent, wait"):
        Perturbation(attack="shout")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="byzantine must be a share"):
        Perturbation(byzantine=1.5)


@pytest.mark.parametrize(
    ("support", "conflict", "cause"),
    [(3, 0, "hidden_conflict"), (3, 1, "hidden_conflict"), (0, 0, None), (3, 2, None)],
)
def test_a_relay_keeps_support_only_with_all_the_conflict(
    support: int, conflict: int, cause: str | None
) -> None:
    # Both nodes contradict the claim themselves, so that the transport lets conflict pass.
    world = Toy(rounds=3, evidence={(0, 0): (MIXED,), (1, 1): (Evidence("apple", 0, 0, 4),)})

    def law(request: Request) -> Decision:
        view = request.view
        for row in view.private.evidence:
            if row.support:
                deposit = Trace("*", row.claim, 4, 3, 2, 8)
                return Decision("GO", None, (deposit,), None)
        if view.private.evidence and view.traces:
            heard = view.traces[0]
            deposit = Trace("*", heard.claim, 1, support, conflict, heard.ttl - 1)
            return Decision("GO", None, (deposit,), None)
        return private_decision(view)

    record = play(world, law)
    (written,) = (w for u in record.rounds[1].updates for w in u.writes)
    assert not written.fresh and written.cause == cause
