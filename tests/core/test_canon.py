"""One view has one text, the text reads back to the view, and nothing unbounded passes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from tests.core.examples import CONTRACT, GO, VIEW
from tests.core.strategies import pairs, views
from waggle.core.canon import (
    check_view,
    decode_view,
    encode_decision,
    encode_shown,
    encode_view,
    to_decision,
)
from waggle.core.decode import parse
from waggle.core.errors import ContractError
from waggle.core.schema import (
    Commitment,
    Contract,
    Decision,
    Evidence,
    Port,
    Proposal,
    Trace,
    View,
)


@given(views())
def test_decode_inverts_encode(view: View) -> None:
    check_view(view)
    data = encode_view(view)
    assert decode_view(data) == view
    assert encode_view(decode_view(data)) == data


@given(pairs(legal=True))
def test_decisions_read_back(pair: tuple[View, Decision]) -> None:
    data = encode_decision(pair[1])
    assert to_decision(data) == pair[1]
    found = parse(data)
    assert (found.decision, found.codes, found.normalized) == (pair[1], (), False)


@given(views())
def test_a_view_may_carry_its_text(view: View) -> None:
    bare = msgspec.structs.replace(view)
    data = encode_shown(view)
    assert encode_view(view) is data and encode_view(bare) == data
    assert view == bare
    changed = msgspec.structs.replace(view, budget=(view.budget + 1) % 5)
    assert encode_view(changed) != data, "a view that was made from another has its own text"


def test_six_slots_contract_first_and_sorted_content() -> None:
    text = encode_view(VIEW).decode()
    assert list(json.loads(text)) == [
        "contract", "private", "worker_proposal", "traces", "commitment", "budget",
    ]  # fmt: skip
    assert text.startswith('{"contract":{"task":"silo/III-26"')
    assert '"observation":{"cell":{"energy":3},"window"' in text
    assert '{"channel":"ha","lot":3,"offer":2}' in text
    assert '"direction":null' not in text and ": " not in text


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"\xff", b'{"contract":1}', encode_view(VIEW) + b" ",
        encode_view(VIEW).replace(b'"budget":3', b'"budget":3,"budget":3'),
        encode_view(VIEW).replace(b'"budget":3', b'"agent":1,"budget":3'),
        encode_view(VIEW).replace(b'"lot":3', b'"lot":"3"'), b"[" * 100_000,
        encode_view(VIEW)[:200],
    ],
)  # fmt: skip
def test_foreign_text_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(ContractError) as error:
        decode_view(data)
    assert "\n" not in str(error.value)


def test_noncanonical_decision_is_refused() -> None:
    with pytest.raises(ContractError, match="canonical"):
        to_decision(encode_decision(GO) + b"\n")


def _private(**changes: Any) -> View:
    return msgspec.structs.replace(VIEW, private=msgspec.structs.replace(VIEW.private, **changes))


def _view(**changes: Any) -> View:
    return msgspec.structs.replace(VIEW, **changes)


def _contract(**changes: Any) -> View:
    return _view(contract=msgspec.structs.replace(CONTRACT, **changes))


_DEEP: Any = 1
for _ in range(40):
    _DEEP = {"a": _DEEP}
UNBOUNDED = {
    "traces": _view(traces=VIEW.traces * 5),
    "trace off channel": _view(traces=(Trace("hx", "z1", 1, 1, 1, 1),)),
    "trace bin": _view(traces=(Trace("ha", "z1", 5, 1, 1, 1),)),
    "trace bool": _view(traces=(Trace("ha", "z1", True, 1, 1, 1),)),
    "trace ttl": _view(traces=(Trace("ha", "z1", 1, 1, 1, 9),)),
    "trace dead": _view(traces=(Trace("ha", "z1", 1, 1, 1, 0),)),
    "trace claim": _view(traces=(Trace("ha", "prey:3,2", 1, 1, 1, 1),)),
    "trace direction": _view(traces=(Trace("ha", "z1", 1, 1, 1, 1, "UP"),)),
    "budget": _view(budget=5),
    "commitment bin": _view(commitment=Commitment("z1", 5)),
    "commitment claim": _view(commitment=Commitment("Z1", 4)),
    "proposal length": _view(proposal=Proposal("G" * 49)),
    "proposal response": _view(proposal=Proposal("GO", "x" * 65)),
    "proposal claim": _view(proposal=Proposal("GO", None, "claim")),
    "coverage": _private(coverage=9),
    "evidence bin": _private(evidence=(Evidence("z1", -1, 0, 0),)),
    "evidence direction": _private(evidence=(Evidence("z1", 0, 0, 0, "up"),)),
    "evidence rows": _private(evidence=VIEW.private.evidence * 40),
    "ready twice": _private(ready=("z1", "z1")),
    "ready name": _private(ready=("node7",)),
    "handle syntax": _private(channels=(*VIEW.private.channels, Port("node3", 1))),
    "handle twice": _private(channels=VIEW.private.channels * 2),
    "lot": _private(channels=(*VIEW.private.channels, Port("hd", 16))),
    "fact length": _private(channels=(*VIEW.private.channels, Port("hd", 1, {"a": "x" * 41}))),
    "fact type": _private(channels=(*VIEW.private.channels, Port("hd", 1, {"a": 0.5}))),  # type: ignore[dict-item]
    "fact name": _private(channels=(*VIEW.private.channels, Port("hd", 1, {"lot": 1}))),
    "facts many": _private(
        channels=(*VIEW.private.channels, Port("hd", 1, {f"f{i}": 1 for i in range(17)}))
    ),
    "claim twice": _private(claims=VIEW.private.claims * 2),
    "bytes": _private(observation={"text": "x" * 20_000}),
    "nan": _private(observation={"value": float("nan")}),
    "huge integer": _private(observation={"value": 2**60}),
    "not JSON": _private(observation={"value": {1, 2}}),
    "key not text": _private(observation={1: 2}),
    "too deep": _private(observation=_DEEP),
    "too deep lists": _private(observation={"a": json.loads("[" * 40 + "]" * 40)}),
    "lone surrogate": _private(observation={"value": "\ud800"}),
    "no wait": _contract(actions=("GO", "ANSWER")),
    "action length": _contract(actions=("WAIT", "ANSWER", "G" * 49)),
    "action argument": _contract(actions=("WAIT", "ANSWER", "GO:@node")),
    "action like a handle": _contract(actions=("WAIT", "ANSWER", "GO:h1")),
    "action like a claim": _contract(actions=("WAIT", "ANSWER", "GO:z1")),
    "deposits": _contract(deposits=9),
    "answer": _contract(response="SAY"),
    "goal": _contract(goal="x" * 3000),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded_view_is_refused(name: str) -> None:
    with pytest.raises(ContractError) as error:
        check_view(UNBOUNDED[name])
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


def test_example_passes() -> None:
    check_view(VIEW)
    check_view(VIEW, encode_view(VIEW))
    check_view(_contract(actions=Contract("a", "b", ("WAIT", "ANSWER", "GO:NORTH")).actions))
