"""Stances: what an expert without rules of its own answers beside contacts that state theirs."""

from __future__ import annotations

from waggle.core.schema import (
    ClaimRow,
    Contract,
    Evidence,
    Fact,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.laws import expert_generic, stances


def view(actions: tuple[str, ...], own: tuple[str, int], *contacts: tuple[str, int] | None,
         told: bool = False) -> View:  # fmt: skip
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
        Contract("made/up", "Do it.", (*actions, "WAIT"), broadcast=True),
        Private({"says": own[0], "turn": own[1]}, (Evidence("z0", 4, 4, 0),), (), None, ports,
                tuple(rows)),
        Proposal(actions[0], None, "z0"), tuple(traces), None, 3,
    )  # fmt: skip


def answer(shown: View) -> str:
    return expert_generic.decide(shown).task_action


def test_of_many_actions_a_node_takes_the_next_free_one_where_an_earlier_contact_has_its_own() -> (
    None
):
    colours = ("red", "tan", "sky", "ash")
    assert answer(view(colours, ("tan", 1), ("red", 0), ("sky", 2))) == "tan"
    assert answer(view(colours, ("tan", 0), ("tan", 1), ("sky", 2))) == "tan"
    assert answer(view(colours, ("tan", 1), ("tan", 0), ("sky", 2))) == "ash"
    assert answer(view(colours, ("ash", 1), ("ash", 0), ("red", 2))) == "tan"


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


def test_without_a_stated_answer_or_an_order_the_proposal_stands() -> None:
    assert stances.find(view(("a", "b", "c"), ("none", 0), None, None)) is None
    assert answer(view(("a", "b", "c"), ("none", 0), None, None)) == "a"
