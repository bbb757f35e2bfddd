"""The tokenizer of nano: short prompts, whole names, and choices that are single tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from waggle import plugins
from waggle.core import prompt
from waggle.core.admit import violations
from waggle.core.canon import encode_decision
from waggle.core.order import canonical
from waggle.core.protocols import Case, Request
from waggle.core.schema import Decision, View
from waggle.corpus.harvest import Listener
from waggle.corpus.views.frames import made_up_frame
from waggle.corpus.views.native import open_case
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import SITUATIONS, make
from waggle.engine.constraint.matcher import Matcher
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.laws.spelling import view_grammar
from waggle.models.nano import nano_tokenizer
from waggle.runtime.sync import Engine


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return nano_tokenizer()


@lru_cache(maxsize=8)
def heard(substrate: str, task: str, order: str) -> list[tuple[View, Decision]]:
    case, world = open_case(Case(substrate, task, 8, 11, rounds=9))
    law = Listener(plugins.get_law("expert"))
    Engine(world, law, case, order=order).play()  # type: ignore[arg-type]
    return law.pairs


def made_up() -> Iterator[tuple[View, Decision]]:
    expert = plugins.get_law("expert")
    for number, situation in enumerate(SITUATIONS):
        draw = Draw(1, "test", number)
        view, _ = canonical(make(situation, made_up_frame(draw, "ports"), draw))
        (decode,) = expert.decide([Request(view)])
        assert isinstance(decode.output, Decision)
        yield view, decode.output


def count(tokenizer: Any, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    ("substrate", "task", "contract", "bound"),
    # The tokenizer knows the contracts of 0.1.0 by heart; trained anew it takes 48 tokens for each.
    [("swarmbench", "pursuit", 130, 130), ("swarmbench", "foraging", 130, 130),
     ("silo", "III-26", 80, 150)],
)  # fmt: skip
def test_prompts_are_short(
    tokenizer: Any, substrate: str, task: str, contract: int, bound: int
) -> None:
    views = heard(substrate, task, "canonical")
    tails = [count(tokenizer, prompt.tail(view)) for view, _ in views]
    records = [count(tokenizer, encode_decision(d).decode()) for _, d in views]
    assert sum(tails) / len(tails) <= bound
    assert sum(records) / len(records) <= 25
    assert count(tokenizer, prompt.system() + prompt.prefix(views[0][0].contract)) <= contract


def test_no_token_straddles_a_number_or_a_name(tokenizer: Any) -> None:
    mixed = [t for t in tokenizer.get_vocab() if any(c.isdigit() for c in t) and len(t) > 1]
    assert all(t in (prompt.INSTRUCTION, prompt.SCHEMA) for t in mixed)
    pieces = tokenizer.tokenize('{"channel":"hk7","claim":"zab1q","novelty":4}')
    assert all(set(p) <= set("kzabq71") or "k7" not in p for p in pieces)
    assert not any("k" in p and '"' in p for p in pieces if "claim" not in p)


@pytest.mark.parametrize("order", ["canonical", "shuffled"])
def test_constrained_answers_spell_the_tokenizers_own_encoding(tokenizer: Any, order: str) -> None:
    vocabulary = Vocabulary(tokenizer)
    pairs = [*heard("silo", "III-26", order)[::9], *heard("swarmbench", "foraging", order)[::9]]
    for view, decision in (*pairs, *made_up()):
        if violations(view, decision):
            continue
        wanted = tokenizer.encode(encode_decision(decision).decode(), add_special_tokens=False)
        matcher = Matcher(view_grammar(view), vocabulary, tokenizer.eos_token_id)
        state, forced = matcher.start()
        spelled = [*forced]
        while state.edges:
            assert spelled == wanted[: len(spelled)]
            token = wanted[len(spelled)]
            assert token in matcher.mask(state)
            state, forced = matcher.accept(state, token)
            spelled += [token, *forced]
        assert [t for t in spelled if t != tokenizer.eos_token_id] == wanted
