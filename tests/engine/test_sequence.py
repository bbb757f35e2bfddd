"""Constrained decoding equals greedy decoding masked by the same grammar, in fewer steps."""

from typing import Any

import pytest
import torch

from benchmarks.workload import accepts
from tests.engine.helpers import row_engine
from waggle.core.forms import Literal
from waggle.engine.constraint.grammar import Grammar, State
from waggle.engine.constraint.matcher import Matcher
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt
from waggle.models.nano import byte_tokenizer, random_llama

PREFIX = "Answer with one JSON record. " * 4


def masked_greedy(model: Any, prompt: Prompt, matcher: Matcher) -> tuple[int, ...]:
    """One token per step with transformers' forward; the mask leaves only what is allowed.

    Where it leaves one token, that is the greedy one whatever the logits are.
    """
    state: State | None = matcher.grammar.start()
    answer: list[int] = []
    while state is not None and state.edges and len(answer) < prompt.max_new_tokens:
        options = matcher.mask(state)
        token = options[0]
        if len(options) > 1:
            whole = torch.tensor([[*prompt.prefix, *prompt.tail, *answer]])
            with torch.no_grad():
                logits = model(whole).logits[0, -1]
            allowed = torch.full_like(logits, float("-inf"))
            allowed[list(options)] = 0.0
            token = int((logits + allowed).argmax())
        state = matcher.accept_one(state, token)
        answer.append(token)
    return tuple(answer)


def batch(tokenizer: Any, matcher: Matcher, count: int, limit: int = 200) -> list[Prompt]:
    prefix = tuple(tokenizer.encode(PREFIX))
    return [
        Prompt(
            tail=tokenizer.encode(f"view {'z' * i} {i * 37}"),
            prefix=prefix,
            grammar=matcher,
            max_new_tokens=limit,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("merged", [False, True])
def test_equals_masked_greedy(tiny: Any, record_grammar: Grammar, merged: bool) -> None:
    model, tokenizer = tiny
    if merged:
        tokenizer = byte_tokenizer(['{"to":"h1","ttl":12}],"commit":{"claim":"c1"}}'] * 9, 330)
        model = random_llama(
            tokenizer,
            2,
            0.3,
            hidden_size=64,
            intermediate_size=160,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=2048,
        )
    engine = Engine(model, tokenizer, max_rows=16)
    matcher = engine.matcher(record_grammar)
    prompts = batch(tokenizer, matcher, 24)
    done = engine.generate(prompts)
    want = [masked_greedy(model, p, matcher) for p in prompts]
    assert [d.tokens for d in done] == want
    assert all(accepts(record_grammar, d.text) for d in done)
    assert len({d.text for d in done}) > 1, "the model must have made choices"
    assert all(d.finish == "stop" for d in done)
    for d in done:
        assert d.usage.model_steps < len(d.tokens)
    again = engine.generate(prompts)
    assert [d.tokens for d in again] == want
    steps, drafted = (sum(d.usage.model_steps for d in part) for part in (done, again))
    assert drafted < steps, "answers that were given before are drafted"


def test_model_runs_only_where_there_is_a_choice(tiny: Any) -> None:
    engine = Engine(*tiny)
    only = engine.matcher(Grammar(Literal("nothing to choose")))
    done = engine.generate(batch(tiny[1], only, 2))
    assert [d.text for d in done] == ["nothing to choose"] * 2
    assert [d.usage.model_steps for d in done] == [0, 0]


def test_length_limit_cuts_a_constrained_answer(tiny: Any, record_grammar: Grammar) -> None:
    engine = Engine(*tiny)
    done = engine.generate(batch(tiny[1], engine.matcher(record_grammar), 1, limit=20))[0]
    assert (len(done.tokens), done.finish) == (20, "length")


def test_free_and_constrained_rows_share_a_batch(tiny: Any, record_grammar: Grammar) -> None:
    engine = Engine(*tiny, max_rows=16)
    tight = batch(tiny[1], engine.matcher(record_grammar), 8)
    loose = [Prompt(tail=p.tail, prefix=p.prefix, max_new_tokens=16) for p in tight]
    apart = [d.tokens for d in engine.generate(tight)] + [d.tokens for d in engine.generate(loose)]
    mixed = [p for pair in zip(tight, loose, strict=True) for p in pair]
    together = [d.tokens for d in engine.generate(mixed)]
    assert together[::2] + together[1::2] == apart


@pytest.mark.parametrize("rows", [1, 7, 24])
@pytest.mark.parametrize("limit", [200, 30])
def test_wrong_drafts_never_change_a_constrained_answer(
    tiny: Any, record_grammar: Grammar, bound_answers: Any, rows: int, limit: int
) -> None:
    """Recent answers are right, wrong somewhere, too short, too long, or no answer at all."""
    right = bound_answers[: 12 if rows == 1 else 24]  # twice each way of being wrong, or more
    for engine in engines(tiny, rows):
        prompts = batch(tiny[1], engine.matcher(record_grammar), len(right), limit)
        want = [answer[:limit] for answer in right]
        for shift in range(2):
            engine.reset()
            for number, (prompt, answer) in enumerate(zip(prompts, right, strict=True)):
                engine._answers.add(prompt.tail, spoiled(answer, number + shift))
            done = engine.generate(prompts)
            assert [d.tokens for d in done] == want
            assert sum(d.usage.accepted_tokens for d in done) > 0


@pytest.fixture(scope="module")
def bound_answers(tiny: Any, record_grammar: Any) -> list[tuple[int, ...]]:
    matcher = Engine(*tiny).matcher(record_grammar)
    return [masked_greedy(tiny[0], p, matcher) for p in batch(tiny[1], matcher, 24)]


def engines(tiny: Any, rows: int) -> list[Engine]:
    """Engines as on a CPU and as on a GPU."""
    return [
        Engine(*tiny, max_rows=rows),
        row_engine(tiny, rows),
        row_engine(tiny, rows, multi_step=True),
    ]


def spoiled(answer: tuple[int, ...], number: int) -> tuple[int, ...]:
    at = number % max(1, len(answer))
    return (
        answer,
        (*answer[:at], 7, *answer[at + 1 :]),
        answer[:at],
        (*answer, 5, 6),
        (*answer[:at], 9, 9, *answer[at:]),
        (3, 1, 4, 1, 5),
    )[number % 6]


def test_a_prompt_of_one_token_is_answered(tiny: Any, record_grammar: Grammar) -> None:
    engine = Engine(*tiny, max_rows=2)
    matcher = engine.matcher(record_grammar)
    prompt = Prompt((5,), grammar=matcher, max_new_tokens=80)
    want = masked_greedy(tiny[0], prompt, matcher)
    for _ in range(2):
        assert engine.generate([prompt])[0].tokens == want
