"""rho has twelve factors with null classes; m has the widths the appendix gives."""

from __future__ import annotations

import msgspec
from hypothesis import given

from tests.core.examples import CHALLENGE, FRESH, GO, RELAY, VIEW
from tests.core.strategies import pairs, views
from waggle.core.schema import Commitment, Decision, View
from waggle.core.summary import FACTORS, Rho, field, rho


def test_twelve_factors_each_with_a_null_class() -> None:
    assert len(FACTORS) == 12 and tuple(FACTORS) == Rho._fields
    assert all(
        classes[0] == "null" and len(set(classes)) == len(classes) for classes in FACTORS.values()
    )


@given(pairs(legal=True))
def test_every_factor_is_in_its_class_list(pair: tuple[View, Decision]) -> None:
    found = rho(*pair)
    assert all(value in FACTORS[name] for name, value in zip(Rho._fields, found, strict=True))
    assert len(found.indices()) == 12


def test_examples() -> None:
    assert rho(VIEW, GO) == Rho("proposal", "null", "Explore", *["null"] * 9)
    onward = msgspec.structs.replace(RELAY, channel="hc")
    relay = rho(VIEW, Decision("MATCH:hb", None, (onward,), None, "FIELD"))
    assert relay == Rho(
        "channel", "FIELD", "Relay", "relay", "trace", "other", "3", "2", "0", "4", "null", "null"
    )  # fmt: skip
    assert rho(VIEW, Decision("TRACK:z1", None, (), None)).task_action == "channel"
    replaced = rho(VIEW, Decision("GO", None, (CHALLENGE,), Commitment("z1", 4)))
    assert replaced.semantic_act == "Challenge" and replaced.commitment_action == "replace"
    assert rho(VIEW, Decision("GO", None, (CHALLENGE,), None)).commitment_action == "clear"
    assert rho(VIEW, Decision("ANSWER", "42", (), None)).task_action == "answer"
    fan = tuple(msgspec.structs.replace(FRESH, channel=c) for c in ("ha", "hb", "hc"))
    assert rho(VIEW, Decision("GO", None, fan, None)).channel_scope == "all"
    back = msgspec.structs.replace(RELAY, channel="ha")
    assert rho(VIEW, Decision("GO", None, (back,), None)).channel_scope == "source"
    assert rho(VIEW, Decision("WAIT", None, (), None)).task_action == "wait"


@given(views())
def test_field_widths_and_mass(view: View) -> None:
    found = field(view)
    assert [len(h) for h in found[:4]] == [6, 6, 6, 10]
    assert all(abs(sum(h) - 1) < 1e-12 for h in found[:4])
    assert all((h[0] == 1.0) == (not view.traces) for h in found[:4])
    assert found.ready in (0, 1) and 0 <= found.commitment <= 5


def test_field_example() -> None:
    found = field(VIEW)
    assert found.novelty == (0, 0, 1 / 3, 1 / 3, 1 / 3, 0)
    assert found.ttl == (0, 0, 1 / 3, 0, 0, 1 / 3, 1 / 3, 0, 0, 0)
    assert (found.ready, found.commitment) == (1, 3)
    empty = field(msgspec.structs.replace(VIEW, traces=(), commitment=None))
    assert empty.support == (1, 0, 0, 0, 0, 0) and empty.commitment == 0
