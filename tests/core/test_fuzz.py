"""No text crashes the decoder or validator and no illegal record is admitted (`--fuzz N`)."""

from __future__ import annotations

import pytest

from tests.core.fuzzing import ILLEGAL, fuzz
from waggle.core import admit
from waggle.core.schema import Decision, View


def test_fuzz(pytestconfig: pytest.Config) -> None:
    count: int = pytestconfig.getoption("--fuzz")
    found = fuzz(count, seed=20_26)
    assert sum(n for name, n in found.items() if not name.startswith("broken: pro")) == count
    assert not [name for name in found if name.startswith("broken")], found
    assert min(found["refused"], found["admitted"], found["invalid"]) > count // 20, found


@pytest.mark.parametrize("lost", ["relay.ttl", "relay.amplify", "deposit.channel", "commit.held"])
def test_fuzz_catches_a_planted_hole(lost: str) -> None:
    def holed(view: View, decision: Decision) -> tuple[str, ...]:
        return tuple(code for code in admit.violations(view, decision) if code != lost)

    assert fuzz(6_000, seed=1, validate=holed, until=ILLEGAL)[ILLEGAL] > 0
