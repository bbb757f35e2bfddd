"""A shared countdown: one who sees agreement starts it, all relay it, and all act in one round."""

from __future__ import annotations

import msgspec
import pytest

from tests.laws.views import CONTRACT, view
from waggle.core.admit import violations
from waggle.core.schema import BROADCAST, ClaimRow, Decision, Evidence, Proposal, Trace, View
from waggle.laws import countdown

LIGHTS = msgspec.structs.replace(CONTRACT, actions=("STAY", "SWITCH", "WAIT"), broadcast=True)
ON, OFF = (
    ClaimRow("zn", {"kind": "turn", "to": "on"}),
    ClaimRow("zf", {"kind": "turn", "to": "off"}),
)


def lit(light: str, *traces: Trace, agrees: str | None = None, action: str = "STAY") -> View:
    """Return the view of a node with a light of its own; it may see that everyone agrees."""
    evidence = () if agrees is None else (Evidence(agrees, 4, 4, 0),)
    named = {trace.claim for trace in traces} | {agrees}
    rows = tuple(row for row in (ON, OFF) if row.claim in named)
    made = view(contract=LIGHTS, claims=rows, traces=traces, evidence=evidence,
                proposal=Proposal(action))  # fmt: skip
    seen = msgspec.structs.replace(made.private, observation={"light": light})
    return msgspec.structs.replace(made, private=seen)


def heard(claim: str, ttl: int, channel: str = "ha") -> Trace:
    return Trace(channel, claim, 4, 4, 0, ttl)


def decide(shown: View) -> Decision:
    decision = countdown.decide(shown)
    assert violations(shown, decision) == ()
    return decision


def test_only_a_task_of_lights_is_counted() -> None:
    assert countdown.is_counted(lit("on"))
    assert not countdown.is_counted(view(contract=LIGHTS))
    assert not countdown.is_counted(view())


def test_one_who_sees_agreement_starts_a_countdown_and_waits_for_it() -> None:
    for action in ("STAY", "SWITCH"):
        decision = decide(lit("off", agrees="zn", action=action))
        assert decision.task_action == "STAY"
        (deposit,) = decision.deposits
        assert (deposit.channel, deposit.claim, deposit.ttl) == (
            BROADCAST, "zn", countdown.LENGTH
        )  # fmt: skip


def test_one_who_sees_no_agreement_does_as_proposed() -> None:
    assert decide(lit("off", action="SWITCH")) == Decision("SWITCH", None, (), None)


def test_the_oldest_countdown_is_relayed_and_no_other_started() -> None:
    decision = decide(lit("off", heard("zn", 3), heard("zn", 2, "hb"), agrees="zn"))
    assert decision.task_action == "STAY"
    assert [(d.claim, d.ttl) for d in decision.deposits] == [("zn", 1)]


@pytest.mark.parametrize(("light", "claim"), [("off", "zn"), ("on", "zf")])
def test_everyone_acts_when_it_runs_out(light: str, claim: str) -> None:
    shown = lit(light, heard(claim, 3), heard(claim, countdown.LAST, "hb"))
    assert decide(shown) == Decision("SWITCH", None, (), None)


@pytest.mark.parametrize(("light", "claim"), [("on", "zn"), ("off", "zf")])
def test_one_who_has_turned_already_does_not_turn_back(light: str, claim: str) -> None:
    assert decide(lit(light, heard(claim, countdown.LAST))).task_action == "STAY"


def test_of_two_halves_in_opposite_phase_the_one_that_turns_on_goes_on() -> None:
    both = heard("zn", 2), heard("zf", countdown.LAST, "hb")
    waiting = decide(lit("on", *both))
    assert waiting.task_action == "STAY", "its own turn is over, and it waits for the others"
    assert [d.claim for d in waiting.deposits] == ["zn"]
    both = heard("zn", countdown.LAST), heard("zf", 2, "hb")
    assert decide(lit("off", *both)).task_action == "SWITCH"
