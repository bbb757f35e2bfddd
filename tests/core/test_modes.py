"""Modes follow the precedence table."""

from __future__ import annotations

import pytest

from tests.core.examples import CHALLENGE, FRESH, GO, RELAY, VIEW
from waggle.core.modes import Mode, mode
from waggle.core.schema import Commitment, Decision, Trace

FORM = Commitment("z1", 2)


@pytest.mark.parametrize(
    ("expected", "decision"),
    [
        (Mode.CHALLENGE, Decision("GO", None, (FRESH, CHALLENGE), FORM)),
        (Mode.CHALLENGE, Decision("GO", None, (Trace("ha", "z4", 2, 1, 3, 3),), None)),
        (Mode.SYNTHESIZE, Decision("GO", None, (FRESH,), FORM)),
        (Mode.SYNTHESIZE, Decision("ANSWER", "42", (RELAY,), None)),
        (Mode.DEPOSIT, Decision("GO", None, (RELAY, FRESH), None)),
        (Mode.RELAY, Decision("GO", None, (RELAY,), None)),
        (Mode.EXPLORE, GO),
        (Mode.ABSTAIN, Decision("WAIT", None, (), None)),
        (Mode.ABSTAIN, Decision("GO", None, (), None, "WAIT")),
    ],
)
def test_precedence(expected: Mode, decision: Decision) -> None:
    assert mode(VIEW, decision) is expected
