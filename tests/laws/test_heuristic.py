"""The fixed heuristic takes the paper's five moves in the paper's order."""

from __future__ import annotations

from tests.laws.views import episode_views, view
from waggle.core.admit import violations
from waggle.core.modes import mode
from waggle.core.schema import Commitment, Contract, Evidence, Port, Proposal, Trace
from waggle.laws.heuristic import Heuristic, decide

AGAINST = Evidence("za", 2, 0, 3)
FOR = Evidence("zb", 4, 2, 0)
STRONG = Trace("ha", "zc", 1, 4, 0, 5)
WEAK = Trace("hb", "zd", 4, 2, 0, 8)
HELD = Commitment("za", 4)


def test_it_challenges_a_refuted_commitment_before_anything_else() -> None:
    decision = decide(view(held=HELD, evidence=(FOR, AGAINST), ready=("zb",), traces=(STRONG,)))
    assert decision.deposits == (Trace("hb", "za", 2, 0, 3, 8),)
    assert decision.commit is None


def test_it_commits_to_the_best_supported_ready_claim_before_relaying() -> None:
    decision = decide(view(ready=("zd", "zc"), evidence=(FOR,), traces=(WEAK, STRONG)))
    assert decision.commit == Commitment("zc", 4)
    assert decision.deposits == ()


def test_it_keeps_a_commitment_that_nothing_refutes() -> None:
    decision = decide(view(held=HELD, ready=("zb",), evidence=(FOR,)))
    assert decision.commit is None


def test_it_never_commits_to_a_ready_claim_it_can_refute() -> None:
    assert decide(view(ready=("za",), evidence=(AGAINST,), ports={})).commit is None


def test_it_relays_the_best_supported_trace_away_from_its_source() -> None:
    decision = decide(view(evidence=(FOR,), traces=(WEAK, STRONG)))
    assert decision.deposits == (Trace("hb", "zc", 1, 4, 0, 4),)


def test_it_does_not_relay_a_trace_that_would_arrive_dead() -> None:
    last = Trace("ha", "zc", 1, 4, 0, 1)
    assert decide(view(traces=(last,))).deposits == ()


def test_it_does_not_relay_hearsay_conflict_or_a_claim_it_can_refute() -> None:
    hearsay = Trace("ha", "zc", 1, 0, 4, 5)
    refuted = Trace("ha", "za", 1, 4, 0, 5)
    assert decide(view(traces=(hearsay,))).deposits == ()
    assert decide(view(traces=(refuted,), evidence=(AGAINST,))).deposits == ()


def test_it_deposits_evidence_when_there_is_nothing_to_relay() -> None:
    weaker = Evidence("ze", 4, 1, 0)
    decision = decide(view(evidence=(weaker, FOR)))
    assert decision.deposits == (Trace("hb", "zb", 4, 2, 0, 8),)


def test_it_broadcasts_where_the_contract_allows() -> None:
    contract = Contract("unknown/task", "Do well.", ("GO", "WAIT"), broadcast=True)
    assert decide(view(evidence=(FOR,), contract=contract)).deposits[0].channel == "*"


def test_it_takes_the_private_proposal_otherwise() -> None:
    decision = decide(view())
    assert (decision.task_action, decision.deposits, decision.commit) == ("GO", (), None)


def test_it_answers_when_the_proposal_is_to_answer() -> None:
    contract = Contract("unknown/task", "Do well.", ("GO", "ANSWER", "WAIT"), response="ANSWER")
    decision = decide(view(contract=contract, proposal=Proposal("ANSWER", "42")))
    assert (decision.task_action, decision.response) == ("ANSWER", "42")


def test_a_wait_writes_nothing() -> None:
    waiting = view(evidence=(FOR,), ready=("zb",), proposal=Proposal("WAIT"))
    assert violations(waiting, decide(waiting)) == ()


def test_shared_lots_are_passed_over_and_a_full_tie_is_silence() -> None:
    tied_at_the_top = view(evidence=(FOR,), ports={"ha": 9, "hb": 9, "hc": 1})
    assert decide(tied_at_the_top).deposits[0].channel == "hc"
    assert decide(view(evidence=(FOR,), ports={"ha": 9, "hb": 9})).deposits == ()


def test_facts_tell_ports_of_one_lot_apart() -> None:
    rows = [Port("ha", 9, {"offer": 1}), Port("hb", 9, {"offer": 2})]
    assert decide(view(evidence=(FOR,), ports=rows)).deposits[0].channel == "hb"


def test_on_real_views_it_is_always_admissible_and_uses_every_mode() -> None:
    views = episode_views()
    decisions = [decide(v) for v in views]
    assert [
        violations(v, d) for v, d in zip(views, decisions, strict=True) if violations(v, d)
    ] == []
    modes = {str(mode(v, d)) for v, d in zip(views, decisions, strict=True)}
    assert modes >= {"Challenge", "Synthesize", "Deposit", "Relay", "Explore"}
    assert Heuristic().name == "heuristic"
