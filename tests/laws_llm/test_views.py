"""Two thousand views of all substrates: constrained decoding is executable at the first decode."""

from random import Random
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the llm extra")

from tests.laws_llm.conftest import played
from waggle.core.admit import violations
from waggle.core.decode import parse
from waggle.core.protocols import Request
from waggle.core.schema import Decision, View
from waggle.engine.constraint.matcher import Matcher
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.laws.local import LocalLaw
from waggle.laws.spelling import view_grammar
from waggle.models.nano import tiny_random

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


def faults(view: View, text: str | Decision) -> tuple[str, ...]:
    """Return why a decode is not executable as it stands."""
    assert isinstance(text, str)
    parsed = parse(text)
    if parsed.decision is None or parsed.normalized:
        return ("unreadable", *parsed.codes)
    return violations(view, parsed.decision)


def stroll(view: View, vocabulary: Vocabulary, random: Random) -> str:
    """Spell a record by random choices: what the most erratic model could answer."""
    matcher = Matcher(view_grammar(view), vocabulary, end_token=-1)
    state, forced = matcher.start()
    taken = [*forced]
    while state.edges:
        token = random.choice(matcher.mask(state))
        state, forced = matcher.accept(state, token)
        taken += [token, *forced]
    return b"".join(vocabulary.spelling(token) for token in taken if token >= 0).decode()


@pytest.mark.slow
def test_two_thousand_first_decodes_are_executable() -> None:
    model, tokenizer = tiny_random()
    law: Any = LocalLaw.over(model, tokenizer, mode="constrained", max_rows=64)
    views = gather()
    decodes = law.decide([Request(view) for view in views])
    assert len(decodes) == COUNT
    for view, decode in zip(views, decodes, strict=True):
        assert faults(view, decode.output) == ()
    random, vocabulary = Random(7), Vocabulary(tokenizer)
    strolls = [stroll(view, vocabulary, random) for view in views]
    for view, text in zip(views, strolls, strict=True):
        assert faults(view, text) == ()
    assert len(set(strolls)) > COUNT // 4, "random choices must reach many records"
