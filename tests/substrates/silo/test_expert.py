"""The expert's port rule, and its scores beside the ceilings."""

from itertools import permutations
from statistics import fmean

import msgspec
import pytest

from benchmarks.silo import silo_speed
from waggle.core.admit import violations
from waggle.core.protocols import Case
from waggle.core.schema import (
    Commitment,
    Contract,
    Decision,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.evaluate.stats import paired
from waggle.laws.exchange import standing
from waggle.laws.expert.silo import decide
from waggle.plugins import get_law
from waggle.runtime.sync import play
from waggle.substrates.silo.adapter import Silo
from waggle.substrates.silo.ceilings import ceiling_row

CONTRACT = Contract("silo/I-05", "goal", ("WAIT", "GATHER", "ANSWER"), 1, response="ANSWER")


def port(channel: str, lot: int = 0, offer: int = 8, sent: int = 9, heard: int = 9) -> Port:
    return Port(channel, lot, {"offer": offer, "sent": sent, "heard": heard, "intent": "NONE"})


def view(*ports: Port, ready: bool = False, held: str | None = None, budget: int = 3) -> View:
    own = Evidence("z1", 4, 2, 0)
    evidence = (own,) if held in (None, "z1") else (own, Evidence(held, 4, 0, 4))
    return View(
        CONTRACT,
        Private({}, evidence, ("z1",) if ready else (), 4 if ready else 2, ports),
        Proposal("ANSWER" if ready or budget == 0 else "GATHER", "42", "z1"),
        (),
        None if held is None else Commitment(held, 4),
        budget,
    )


def channel(decision: Decision) -> str:
    (deposit,) = decision.deposits
    return deposit.channel


def test_an_appointment_is_kept() -> None:
    met, told, other = port("h1", 0, 8, 3, 3), port("h2", 9, 8, 1, 2), port("h3", 9, 8, 2, 1)
    assert channel(decide(view(met, told, other))) == "h1"


def test_a_port_that_comes_next_round_is_left_alone() -> None:
    booked, due = port("h1", 0, 8, 2, 2), port("h2", 0, 8, 3, 3)
    assert standing(booked) < standing(due)


def test_offers_decide_between_equal_histories_and_lots_between_equal_offers() -> None:
    assert channel(decide(view(port("h1", 0, 9), port("h2", 5, 8), port("h3", 9, 7)))) == "h1"
    assert channel(decide(view(port("h1", 3), port("h2", 5), port("h3", 4)))) == "h2"


def test_writes_on_every_port_come_by_lot_however_the_view_is_listed() -> None:
    ports = (port("h1", 3), port("h2", 9), port("h3", 6, 5))
    every = msgspec.structs.replace(CONTRACT, deposits=3)
    for listed in permutations(ports):
        shown = msgspec.structs.replace(view(*listed), contract=every)
        assert [d.channel for d in decide(shown).deposits] == ["h2", "h3", "h1"]


def test_nothing_is_said_to_those_who_know_it() -> None:
    assert decide(view(port("h1", 1, 0), port("h2", 2, 0), port("h3", 3, 0))).deposits == ()


def test_ready_proposals_are_committed_and_answered() -> None:
    decision = decide(view(port("h1"), ready=True))
    assert decision.commit == Commitment("z1", 4)
    assert (decision.task_action, decision.response) == ("ANSWER", "42")


def test_partial_proposals_are_answered_late_and_not_committed() -> None:
    early, late = decide(view(port("h1"))), decide(view(port("h1"), budget=0))
    assert early.task_action == "GATHER" and early.commit is None
    assert late.task_action == "ANSWER" and late.commit is None


def nearly(shown: View, deposits: int = 1) -> View:
    """The same view with three quarters of the data known."""
    private = msgspec.structs.replace(shown.private, coverage=3)
    contract = msgspec.structs.replace(CONTRACT, deposits=deposits)
    return msgspec.structs.replace(shown, private=private, contract=contract)


def test_a_proposal_that_lacks_little_is_held_where_data_travels_whole() -> None:
    assert decide(nearly(view(port("h1")))).commit == Commitment("z1", 3)
    assert decide(nearly(view(port("h1")), deposits=3)).commit is None
    assert decide(nearly(view(port("h1"), held="z1"))).commit is None


def test_what_arrives_later_reopens_it_and_the_challenge_goes_where_it_is_news() -> None:
    shown = nearly(view(port("h1", 9, 0, 4, 4), port("h2", 0, 1), held="z9"))
    decision = decide(shown)
    (challenge,) = decision.deposits
    assert (challenge.channel, challenge.claim, challenge.conflict) == ("h2", "z9", 4)
    assert decision.commit == Commitment("z1", 3) and violations(shown, decision) == ()


def test_a_held_proposal_is_firmed_up_once_it_is_ready() -> None:
    shown = view(port("h1"), ready=True, held="z1")
    weak = msgspec.structs.replace(shown, commitment=Commitment("z1", 3))
    assert decide(weak).commit == Commitment("z1", 4) and decide(shown).commit is None


def test_refuted_commitment_is_reopened_and_replaced_even_where_all_is_known() -> None:
    shown = view(port("h1", 1, 0), port("h2", 2, 0), ready=True, held="z9")
    decision = decide(shown)
    assert decision.deposits[0].claim == "z9" and decision.deposits[0].conflict == 4
    assert decision.commit == Commitment("z1", 4)
    assert violations(shown, decision) == ()


def told(support: int, answer: str = "common", budget: int = 3) -> View:
    shown = view(port("h1"), port("h2", 5), budget=budget)
    private = msgspec.structs.replace(shown.private, observation={"answer": answer})
    trace = Trace("h1", "z7", 3, support, 0, 7)
    return msgspec.structs.replace(shown, private=private, traces=(trace,))


def test_an_answer_vouched_for_by_full_coverage_is_taken_over_and_passed_on() -> None:
    shown = told(4, budget=1)
    decision = decide(shown)
    assert decision.commit == Commitment("z7", 2) and decision.execution_intent == "FIELD"
    assert [d.claim for d in decision.deposits] == ["z7"] and decision.deposits[0].ttl == 6
    assert violations(shown, decision) == ()


@pytest.mark.parametrize("shown", [told(3), told(4, "own")])
def test_partial_answers_and_answers_of_others_are_not_taken_over(shown: View) -> None:
    decision = decide(shown)
    assert decision.commit is None and decision.deposits[0].claim == "z1"


def test_expert_beats_round_robin_and_stays_under_the_ceiling() -> None:
    tasks, seeds = ("I-01", "I-05", "II-11", "III-26"), range(10_000, 10_002)

    def scores(law: str) -> list[float]:
        cases = [Case("silo", task, 32, seed) for task in tasks for seed in seeds]
        return [play(Silo().open(c), get_law(law), c).scores["score"] for c in cases]

    expert, control = scores("expert"), scores("round-robin")
    assert paired([a - b for a, b in zip(expert, control, strict=True)]).above_zero
    assert fmean(expert) <= ceiling_row("flooding", tasks, 32, seeds, 9).success


def test_speed_is_measured_per_task() -> None:
    speed = silo_speed(n=8, tasks=("I-01", "III-30"))
    assert set(speed.seconds) == {"I-01", "III-30"} and speed.mean > 0


@pytest.mark.slow
def test_speed_limit() -> None:
    assert silo_speed().mean <= 0.25
