"""Two thousand views of all substrates: constrained decoding is executable at the first decode."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the llm extra")

from tests.laws_llm.conftest import played
from waggle.core.admit import violations
from waggle.core.decode import parse
from waggle.core.protocols import Request
from waggle.core.schema import View
from waggle.engine.nano import tiny_random
from waggle.laws.local import LocalLaw

TASKS = (
    "silo/I-01", "silo/II-15", "silo/III-26",
    "swarmbench/pursuit", "swarmbench/foraging", "swarmbench/flocking",
    "agentsnet/coloring", "agentsnet/consensus", "agentsnet/matching",
)  # fmt: skip
COUNT = 2_000


def gather() -> list[View]:
    """Play until every task has given its share of views."""
    share = -(-COUNT // len(TASKS))
    found: list[View] = []
    for task in TASKS:
        mine: list[View] = []
        seed = 10_100
        while len(mine) < share:
            mine.extend(played(task, 16, 8, seed))
            seed += 1
        found.extend(mine[:share])
    return found[:COUNT]


@pytest.mark.slow
def test_two_thousand_first_decodes_are_executable() -> None:
    model, tokenizer = tiny_random()
    law: Any = LocalLaw.over(model, tokenizer, mode="constrained", max_rows=64)
    views = gather()
    decodes = law.decide([Request(view) for view in views])
    bad = []
    for view, decode in zip(views, decodes, strict=True):
        parsed = parse(decode.output)
        if parsed.decision is None or parsed.normalized or violations(view, parsed.decision):
            bad.append(decode.output)
    assert len(decodes) == COUNT
    assert bad == []
    assert len({decode.output for decode in decodes}) > 100
