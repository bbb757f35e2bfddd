"""What a deposit may say is one rule: admission, templates, grammar and laws follow it alike."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given

from tests.core import oracle
from tests.core.containment import contains
from tests.core.examples import FRESH, GO, RELAY, VIEW
from tests.core.grammars import accepts
from tests.core.strategies import fresh_views
from waggle.core import relations
from waggle.core.admit import violations
from waggle.core.canon import encode_decision, encode_view
from waggle.core.grammar import grammar
from waggle.core.relations import strongest
from waggle.core.schema import MAX_TTL, Decision, Evidence, Trace, View
from waggle.laws import moves

replace = msgspec.structs.replace
COMPONENTS = ("novelty", "support", "conflict", "ttl")


def verdicts(view: View, deposit: Trace) -> set[bool]:
    """Return what admission, templates, grammar and the oracle say to one deposit."""
    decision = Decision(view.proposal.action, None, (deposit,), None)
    text = encode_decision(decision)
    return {
        violations(view, decision) == (),
        contains(view, decision),
        accepts(grammar(view), text.decode()),
        oracle.legal(oracle.read(encode_view(view)), text),
    }


@given(fresh_views(handles=3, traces=4))
def test_the_strongest_deposit_of_every_row_is_legal_and_nothing_beyond_it(view: View) -> None:
    ports = view.private.channels
    contract = replace(view.contract, actions=("GO", "WAIT"), deposits=1, response=None)
    view = replace(view, contract=contract, proposal=replace(view.proposal, action="GO"))
    for row in relations.rows(view) if ports else ():
        # Without the other rows, nothing else can back a stronger deposit.
        own = (row,) if isinstance(row, Evidence) else ()
        private = replace(view.private, evidence=own)
        shown = replace(view, private=private, traces=() if own else (row,))
        deposit = strongest(row, ports[0].channel)
        assert verdicts(shown, deposit) == {deposit.ttl > 0}
        for name in COMPONENTS:
            stronger = replace(deposit, **{name: getattr(deposit, name) + 1})
            assert verdicts(shown, stronger) == {False}


def test_laws_write_the_strongest_deposit() -> None:
    trace, row = VIEW.traces[0], VIEW.private.evidence[0]
    assert moves.relay(trace, "hb") == RELAY and RELAY.ttl == trace.ttl - 1
    assert moves.fresh(row, "ha") == FRESH and FRESH.ttl == MAX_TTL


def forgets_the_step(trace: Trace) -> int:
    return trace.ttl


def amplifies(row: Evidence | Trace, channel: str) -> Trace:
    ttl = MAX_TTL if isinstance(row, Evidence) else relay_ttl(row)  # type: ignore[name-defined] # noqa: F821
    return Trace(channel, row.claim, row.novelty, row.support + 1, row.conflict, ttl, row.direction)


@pytest.mark.parametrize(
    ("rule", "planted", "allowed"),
    [
        (relations.relay_ttl, forgets_the_step, replace(RELAY, ttl=RELAY.ttl + 1)),
        (relations.strongest, amplifies, replace(RELAY, support=RELAY.support + 1)),
    ],
)
def test_a_planted_bug_in_the_rule_reaches_every_user_and_the_oracle_catches_it(
    rule: Callable[..., object],
    planted: Callable[..., object],
    allowed: Trace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verdicts(VIEW, allowed) == {False}
    monkeypatch.setattr(rule, "__code__", planted.__code__)
    decision = replace(GO, deposits=(allowed,))
    text = encode_decision(decision)
    assert violations(VIEW, decision) == () and contains(VIEW, decision)
    assert accepts(grammar(VIEW), text.decode())
    assert moves.relay(VIEW.traces[0], "hb") == allowed
    assert not oracle.legal(oracle.read(encode_view(VIEW)), text)
