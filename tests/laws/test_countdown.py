"""A shared countdown: who is out of step says so, all light up and wait, and all start at once."""

from __future__ import annotations

import msgspec
import pytest

from tests.laws.views import CONTRACT, view
from waggle.core.admit import violations
from waggle.core.schema import (
    BROADCAST,
    MAX_TTL,
    ClaimRow,
    Decision,
    Evidence,
    Proposal,
    Trace,
    View,
)
from waggle.laws import countdown

LIGHTS = msgspec.structs.replace(CONTRACT, actions=("UP", "STAY", "SWITCH", "WAIT"), broadcast=True)
APART = "za"
"""The claim that lights differ."""


def lit(light: str, *traces: Trace, apart: bool = False, action: str = "STAY") -> View:
    """Return the view of a node with a light of its own; it may see another light."""
    made = view(
        contract=LIGHTS,
        claims=(ClaimRow(APART, {"kind": "apart"}),),
        traces=traces,
        evidence=(Evidence(APART, 4, 4, 0),) if apart else (),
        proposal=Proposal(action),
    )
    seen = msgspec.structs.replace(made.private, observation={"light": light})
    return msgspec.structs.replace(made, private=seen)


def heard(ttl: int, channel: str = "ha") -> Trace:
    return Trace(channel, APART, 4, 4, 0, ttl)


def decide(shown: View) -> Decision:
    decision = countdown.decide(shown)
    assert violations(shown, decision) == ()
    return decision


def test_only_a_task_of_lights_is_counted() -> None:
    assert countdown.is_counted(lit("on"))
    assert not countdown.is_counted(view(contract=LIGHTS))
    assert not countdown.is_counted(view())


@pytest.mark.parametrize("light", ["on", "off"])
@pytest.mark.parametrize("action", ["STAY", "SWITCH"])
def test_who_hears_of_no_other_light_switches_in_every_round(light: str, action: str) -> None:
    assert decide(lit(light, action=action)) == Decision("SWITCH", None, (), None)


@pytest.mark.parametrize("action", ["STAY", "SWITCH"])
@pytest.mark.parametrize("apart", [True, False])
def test_who_is_out_of_step_turns_its_light_on_and_waits(apart: bool, action: str) -> None:
    traces = () if apart else (heard(3),)
    assert decide(lit("off", *traces, apart=apart, action=action)).task_action == "SWITCH"
    assert decide(lit("on", *traces, apart=apart, action=action)).task_action == "STAY"


def test_own_eyes_start_a_countdown_at_full_length() -> None:
    (deposit,) = decide(lit("on", heard(3), apart=True)).deposits
    assert (deposit.channel, deposit.claim, deposit.ttl) == (BROADCAST, APART, MAX_TTL)


def test_the_youngest_trace_is_passed_on_and_so_all_end_in_one_round() -> None:
    (deposit,) = decide(lit("on", heard(3), heard(6, "hb"))).deposits
    assert deposit.ttl == 5, "a round and a relay take the same"


def test_the_last_trace_is_waited_for_and_not_passed_on() -> None:
    assert decide(lit("on", heard(1))) == Decision("STAY", None, (), None)
    assert decide(lit("on")).task_action == "SWITCH"


def test_who_still_walks_walks_on_and_passes_on_what_it_heard() -> None:
    decision = decide(lit("off", heard(4), action="UP"))
    assert decision.task_action == "UP" and [d.ttl for d in decision.deposits] == [3]
