"""Stances: what an expert without rules of its own answers beside contacts that state theirs."""

from __future__ import annotations

import msgspec
import pytest

from waggle.core.schema import (
    ClaimRow,
    Contract,
    Decision,
    Evidence,
    Fact,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.laws.expert import generic as expert_generic
from waggle.laws.expert import stances


def view(actions: tuple[str, ...], own: tuple[str, int], *contacts: tuple[str, int] | None,
         told: bool = False, goal: str = "Do it.") -> View:  # fmt: skip
    ports = tuple(
        Port(f"h{i}", i, {} if c is None else {"says": c[0], "turn": c[1]})
        for i, c in enumerate(contacts)
    )
    rows = [ClaimRow("z0", {"turn": own[1]})]
    traces: list[Trace] = []
    for i, contact in enumerate(contacts):
        if contact is not None:
            facts: dict[str, Fact] = {"turn": contact[1]}
            facts |= {"says": contact[0]} if told else {}
            rows.append(ClaimRow(f"z{i + 1}", facts))
            traces.append(Trace(f"h{i}", f"z{i + 1}", 4, 4, 0, 8))
    return View(
        Contract("made/up", goal, (*actions, "WAIT"), broadcast=True),
        Private({"says": own[0], "turn": own[1]}, (Evidence("z0", 4, 4, 0),), (), None, ports,
                tuple(rows)),
        Proposal(actions[0], None, "z0"), tuple(traces), None, 3,
    )  # fmt: skip


def answer(shown: View) -> str:
    return expert_generic.decide(shown).task_action


def test_of_many_actions_a_node_takes_the_next_one_where_an_earlier_contact_has_its_own() -> None:
    colours = ("red", "tan", "sky", "ash")
    assert answer(view(colours, ("tan", 1), ("red", 0), ("sky", 2))) == "tan"
    assert answer(view(colours, ("tan", 0), ("tan", 1), ("sky", 2))) == "tan"
    assert answer(view(colours, ("tan", 1), ("tan", 0), ("sky", 2))) == "sky"
    assert answer(view(colours, ("ash", 1), ("ash", 0), ("red", 2))) == "red"


def test_of_two_actions_the_second_is_for_whoever_finds_it_free() -> None:
    pair = ("in", "out")
    assert answer(view(pair, ("in", 1), ("in", 0), ("out", 2))) == "out"
    assert answer(view(pair, ("out", 1), ("out", 0), None)) == "in"
    assert answer(view(pair, ("out", 0), ("out", 1))) == "out"


def test_where_claims_carry_stances_the_first_of_all_is_singled_out_and_passed_on() -> None:
    pair = ("in", "out")
    first = view(pair, ("out", 0), ("in", 1), told=True)
    assert answer(first) == "in" and expert_generic.decide(first).deposits[0].claim == "z0"
    later = expert_generic.decide(view(pair, ("in", 2), ("in", 1), ("out", 0), told=True))
    assert later.task_action == "out"
    assert [(d.channel, d.claim, d.ttl) for d in later.deposits] == [("*", "z2", 7)]


def test_of_several_traces_the_first_in_canonical_order_is_passed_on() -> None:
    shown = view(("in", "out"), ("in", 2), ("in", 1), ("out", 0), ("out", 3), told=True)
    word = [("h2", "z2", 2, 4, 0, 7), ("h1", "z2", 3, 3, 0, 6), ("h0", "z1", 4, 4, 0, 8),
            ("h0", "z2", 3, 4, 0, 5), ("h1", "z3", 4, 4, 0, 8)]  # fmt: skip
    traces = tuple(Trace(*row) for row in word)
    (told,) = expert_generic.decide(msgspec.structs.replace(shown, traces=traces)).deposits
    assert told == Trace("*", "z2", 3, 4, 0, 4)
    dying = tuple(msgspec.structs.replace(trace, ttl=1) for trace in traces)
    (told,) = expert_generic.decide(msgspec.structs.replace(shown, traces=dying)).deposits
    assert told == Trace("*", "z0", 4, 4, 0, 8)


def test_the_holder_of_the_first_claim_tells_it_afresh_however_old_its_echoes_are() -> None:
    shown = view(("in", "out"), ("in", 0), ("in", 1), told=True)
    echo = (Trace("h0", "z0", 2, 3, 0, 5),)
    (told,) = expert_generic.decide(msgspec.structs.replace(shown, traces=echo)).deposits
    assert told == Trace("*", "z0", 4, 4, 0, 8)


@pytest.mark.parametrize("told", [False, True])
def test_where_all_should_answer_alike_they_take_the_first_action_and_tell_nobody(
    told: bool,
) -> None:
    for goal in ("Say the same word as everybody.", "It ends. All of you must agree on one sign."):
        for own in (0, 1):
            shown = view(("in", "out"), ("out", own), ("out", 1 - own), told=told, goal=goal)
            assert expert_generic.decide(shown) == Decision("in", None, (), None)


@pytest.mark.parametrize(
    "goal",
    [
        "No two neighbours may say the same word.",
        "Exactly one of all says in, everyone besides says out.",
        "All but one take the same sign.",
        "Everyone may speak; take the same road as before.",
        "Agree locally on which word is right, and act on it.",
        "Every edge needs a sign on one of its sides.",
    ],
)
def test_near_misses_of_agreement_are_answered_by_stances(goal: str) -> None:
    shown = view(("in", "out"), ("in", 1), ("in", 0), goal=goal)
    plain = view(("in", "out"), ("in", 1), ("in", 0))
    assert not stances.alike(goal)
    assert expert_generic.decide(shown) == expert_generic.decide(plain)
    assert answer(shown) == "out"


def test_without_a_stated_answer_or_an_order_the_proposal_stands() -> None:
    assert stances.find(view(("a", "b", "c"), ("none", 0), None, None)) is None
    assert answer(view(("a", "b", "c"), ("none", 0), None, None)) == "a"
