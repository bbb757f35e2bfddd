"""Admission: every rule has a code, projection only deletes, and names do not matter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from tests.core import oracle
from tests.core.examples import CHALLENGE, CONTRACT, FRESH, GO, RELAY, VIEW
from tests.core.strategies import ENTROPY, pairs
from waggle.core import decode, orbit
from waggle.core.admit import CODES, fallback, project, violations
from waggle.core.canon import encode_decision, encode_view
from waggle.core.options import actions
from waggle.core.relations import clears, is_fresh, is_relay, is_verified
from waggle.core.schema import WAIT, Commitment, Decision, Proposal, Trace, View

replace = msgspec.structs.replace
UNHELD = replace(VIEW, commitment=None)
STRICT = replace(UNHELD, private=replace(VIEW.private, coverage=None))


def _writing(*deposits: Trace, **changes: Any) -> Decision:
    return replace(GO, deposits=deposits, **changes)


def _committing(claim: str, confidence: int, *deposits: Trace) -> Decision:
    return _writing(*deposits, commit=Commitment(claim, confidence))


ADMISSIBLE: dict[str, tuple[View, Decision]] = {
    "private": (VIEW, GO),
    "wait": (VIEW, Decision(WAIT, None, (), None, "WAIT")),
    "wait by intent": (VIEW, replace(GO, execution_intent="WAIT")),
    "channel": (VIEW, replace(GO, task_action="MATCH:hb")),
    "claim": (VIEW, replace(GO, task_action="TRACK:z1")),
    "answer": (VIEW, Decision("ANSWER", "42", (), None)),
    "fresh": (VIEW, _writing(FRESH)),
    "weaker fresh": (VIEW, _writing(replace(FRESH, novelty=0, support=1, ttl=1))),
    "relay": (VIEW, _writing(RELAY)),
    "two": (VIEW, _writing(RELAY, FRESH)),
    "relayed conflict": (VIEW, _writing(Trace("ha", "z4", 2, 1, 3, 3))),
    "clear": (VIEW, _writing(CHALLENGE)),
    "replace": (VIEW, _committing("z1", 4, CHALLENGE)),
    "renew": (VIEW, _committing("z3", 2)),
    "form ready": (STRICT, _committing("z1", 4)),
    "form provisional": (UNHELD, _committing("z2", 2)),
}

BROKEN: dict[str, list[tuple[View, Decision]]] = {
    "action.unknown": [
        (VIEW, replace(GO, task_action=a)) for a in ("FLY", "", "GO:ha", "MATCH", "TRACK")
    ],
    "action.channel": [
        (VIEW, replace(GO, task_action=f"MATCH:{h}")) for h in ("hx", "z1", "@channel", "")
    ],
    "action.claim": [
        # z2 is hearsay and z3 is held, but neither is in the claim table.
        (VIEW, replace(GO, task_action=f"TRACK:{z}")) for z in ("z2", "z3", "ha", "@claim", "")
    ],
    "intent.unknown": [(VIEW, replace(GO, execution_intent="AUTO"))],
    "response.missing": [(VIEW, replace(GO, task_action="ANSWER"))],
    "response.unexpected": [(VIEW, replace(GO, response="42"))],
    "response.length": [(VIEW, Decision("ANSWER", "x" * 65, (), None))],
    "wait.deposit": [(VIEW, _writing(FRESH, execution_intent="WAIT"))],
    "wait.commit": [(UNHELD, replace(_committing("z1", 1), task_action=WAIT))],
    "wait.response": [(VIEW, Decision("ANSWER", "42", (), None, "WAIT"))],
    "deposits.count": [(VIEW, _writing(FRESH, RELAY, CHALLENGE))],
    "deposits.repeat": [(VIEW, _writing(FRESH, replace(FRESH, ttl=2)))],
    "deposit.channel": [(VIEW, _writing(replace(FRESH, channel=c))) for c in ("hx", "*", "z1", "")],
    "deposit.bins": [
        (VIEW, _writing(replace(FRESH, **{f: b})))
        for f in ("novelty", "support", "conflict") for b in (-1, 5)
    ],
    "deposit.ttl": [(VIEW, _writing(replace(FRESH, ttl=t))) for t in (0, 9)],
    "deposit.direction": [
        (VIEW, _writing(replace(d, direction=x)))
        for d, x in ((FRESH, None), (FRESH, "S"), (FRESH, "UP"), (RELAY, "S"), (RELAY, "UP"))
    ],
    "deposit.claim": [(VIEW, _writing(replace(FRESH, claim="z9")))],
    "deposit.conflict": [(VIEW, _writing(replace(FRESH, conflict=1)))],
    "fresh.exceeds": [(VIEW, _writing(replace(FRESH, support=4)))],
    "relay.amplify": [
        (VIEW, _writing(replace(RELAY, novelty=4))), (VIEW, _writing(replace(RELAY, support=3))),
    ],
    "relay.ttl": [(VIEW, _writing(replace(RELAY, ttl=5)))],
    "commit.bins": [(UNHELD, _committing("z1", 5)), (UNHELD, _committing("z1", -1))],
    "commit.unready": [(STRICT, _committing("z2", 0))],
    "commit.unknown": [(UNHELD, _committing("z9", 0))],
    "commit.coverage": [(UNHELD, _committing("z2", 3))],
    "commit.held": [(VIEW, _committing("z1", 4)), (VIEW, _committing("z1", 4, FRESH))],
    "commit.challenged": [(VIEW, _committing("z3", 1, CHALLENGE))],
    "text.encoding": [(VIEW, Decision("ANSWER", "4\ud8002", (), None))],
    "shape.type": [
        (VIEW, replace(GO, task_action=7)), (VIEW, replace(GO, response=7)),
        (VIEW, _writing(replace(FRESH, ttl=True))), (VIEW, _writing(replace(FRESH, ttl=1.0))),
        (VIEW, replace(GO, deposits=[FRESH])), (VIEW, replace(GO, commit="z1")),
        (VIEW, _writing(replace(FRESH, claim=["z1"]))), (VIEW, replace(GO, execution_intent=1)),
    ],
}  # fmt: skip


def test_every_code_is_triggered() -> None:
    assert set(BROKEN) | set(decode.CODES) == set(CODES)


@pytest.mark.parametrize("name", ADMISSIBLE)
def test_admissible(name: str) -> None:
    view, decision = ADMISSIBLE[name]
    assert violations(view, decision) == ()
    assert project(view, decision) == decision


@pytest.mark.parametrize(
    ("code", "view", "decision"), [(c, v, d) for c, cases in BROKEN.items() for v, d in cases]
)
def test_broken_rule_has_its_code(code: str, view: View, decision: Decision) -> None:
    assert violations(view, decision) == (code,)
    assert violations(view, project(view, decision)) == ()


def test_something_else_is_no_decision() -> None:
    nothing: Any = None
    assert violations(VIEW, nothing) == ("shape.type",)
    assert project(VIEW, nothing) == GO


def test_broadcast_where_the_contract_allows_it() -> None:
    wide = replace(VIEW, contract=replace(CONTRACT, broadcast=True))
    assert violations(wide, _writing(replace(FRESH, channel="*"))) == ()


def test_one_verb_may_take_channels_and_claims() -> None:
    contract = replace(CONTRACT, actions=("GO:@channel", "GO:@claim", WAIT))
    wide = replace(VIEW, contract=replace(contract, response=None))
    listed = actions(wide)
    assert {"GO:hb", "GO:z1"} < {*listed}
    assert all(violations(wide, replace(GO, task_action=a)) == () for a in listed)
    assert violations(wide, replace(GO, task_action="GO:z2")) == ("action.channel",)


def test_relations() -> None:
    assert is_fresh(VIEW, FRESH) and not is_relay(VIEW, FRESH)
    assert is_relay(VIEW, RELAY) and not is_fresh(VIEW, RELAY)
    assert is_verified(VIEW, "z3") and not is_verified(VIEW, "z4")
    assert clears(VIEW, _writing(CHALLENGE)) and not clears(VIEW, _writing(FRESH))
    assert not clears(UNHELD, _writing(CHALLENGE))


def test_unverified_challenge_clears_nothing() -> None:
    holding = replace(VIEW, commitment=Commitment("z4", 1))
    hearsay = _writing(Trace("ha", "z4", 2, 1, 3, 3))
    assert violations(holding, hearsay) == () and not clears(holding, hearsay)


def test_projection_reuses_the_proposal_and_keeps_legal_writes() -> None:
    bad = Decision("FLY", "42", (replace(FRESH, channel="hx"), RELAY), Commitment("z1", 4), "AUTO")
    assert project(VIEW, bad) == _writing(RELAY)


def test_projection_of_a_replacement_without_its_challenge_keeps_what_is_held() -> None:
    bad = _committing("z1", 4, replace(CHALLENGE, channel="hx"))
    assert project(VIEW, bad) == GO


def test_fallback_waits_where_the_proposal_is_illegal() -> None:
    assert fallback(replace(VIEW, proposal=Proposal("FLY"))) == Decision(WAIT, None, (), None)
    silent = replace(VIEW, proposal=Proposal("ANSWER"))
    assert fallback(silent) == Decision(WAIT, None, (), None)


@given(pairs())
def test_agrees_with_an_independent_reading(pair: tuple[View, Decision]) -> None:
    view, decision = pair
    expected = oracle.legal(oracle.read(encode_view(view)), encode_decision(decision))
    assert (violations(view, decision) == ()) == expected


@given(pairs())
def test_projection_is_admissible_and_originates_nothing(pair: tuple[View, Decision]) -> None:
    view, decision = pair
    kept = project(view, decision)
    assert oracle.legal(oracle.read(encode_view(view)), encode_decision(kept))
    assert set(kept.deposits) <= set(decision.deposits)
    assert kept.commit in (None, decision.commit)
    assert kept.task_action in (decision.task_action, view.proposal.action, WAIT)
    assert kept.response in (None, decision.response, view.proposal.response)
    if violations(view, decision) == ():
        assert kept == decision


@given(pairs(), ENTROPY)
def test_admission_commutes_with_the_orbit(pair: tuple[View, Decision], entropy: int) -> None:
    view, decision = pair
    g = orbit.sample(view, entropy)
    seen, done = g.view(view), g.decision(decision)
    assert violations(seen, done) == violations(view, decision)
    assert project(seen, done) == g.decision(project(view, decision))


@given(pairs())
def test_relays_never_amplify(pair: tuple[View, Decision]) -> None:
    view, decision = pair
    for deposit in project(view, decision).deposits:
        if is_fresh(view, deposit):
            continue
        heard = [t for t in view.traces if t.claim == deposit.claim]
        assert deposit.novelty <= max(t.novelty for t in heard)
        assert deposit.support <= max(t.support for t in heard)
        assert deposit.conflict <= max(t.conflict for t in heard)
        assert deposit.ttl < max(t.ttl for t in heard)
