"""Constrained decoding equals greedy decoding masked by the same grammar, in fewer steps."""

from typing import Any

import pytest
import torch

from benchmarks import workload
from waggle.engine.constraint.grammar import Grammar
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt
from waggle.models.nano import byte_tokenizer, random_llama

PREFIX = "Answer with one JSON record. " * 4


def masked_greedy(model: Any, prompt: Prompt, constraint: Constraint) -> tuple[int, ...]:
    """One token per step with transformers' forward; the mask leaves only what is allowed.

    Where it leaves one token, that is the greedy one whatever the logits are.
    """
    walk = constraint.walk()
    answer: list[int] = []
    while not walk.finished and len(answer) < prompt.max_new_tokens:
        options = walk.options().tokens
        token = options[0]
        if len(options) > 1:
            whole = torch.tensor([[*prompt.prefix, *prompt.tail, *answer]])
            with torch.no_grad():
                logits = model(whole).logits[0, -1]
            allowed = torch.full_like(logits, float("-inf"))
            allowed[list(options)] = 0.0
            token = int((logits + allowed).argmax())
        walk.take(token)
        answer.append(token)
    return tuple(answer)


def batch(tokenizer: Any, constraint: Constraint, count: int, limit: int = 200) -> list[Prompt]:
    prefix = tuple(tokenizer.encode(PREFIX))
    return [
        Prompt(
            tail=tokenizer.encode(f"view {'z' * i} {i * 37}"),
            prefix=prefix,
            grammar=constraint,
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
    constraint = engine.constraint(record_grammar)
    prompts = batch(tokenizer, constraint, 24)
    done = engine.generate(prompts)
    assert [d.tokens for d in done] == [masked_greedy(model, p, constraint) for p in prompts]
    assert all(record_grammar.accepts(d.text) for d in done)
    assert len({d.text for d in done}) > 1, "the model must have made choices"
    assert all(d.finish == "stop" for d in done)
    for d in done:
        assert d.usage.model_steps < len(d.tokens)


def test_model_runs_only_where_there_is_a_choice(tiny: Any) -> None:
    engine = Engine(*tiny)
    only = engine.constraint(Grammar.of("nothing to choose"))
    done = engine.generate(batch(tiny[1], only, 2))
    assert [d.text for d in done] == ["nothing to choose"] * 2
    assert [d.usage.model_steps for d in done] == [0, 0]


def test_length_limit_cuts_a_constrained_answer(tiny: Any, record_grammar: Grammar) -> None:
    engine = Engine(*tiny)
    done = engine.generate(batch(tiny[1], engine.constraint(record_grammar), 1, limit=20))[0]
    assert (len(done.tokens), done.finish) == (20, "length")


def test_free_and_constrained_rows_share_a_batch(tiny: Any, record_grammar: Grammar) -> None:
    engine = Engine(*tiny, max_rows=16)
    constraint = engine.constraint(record_grammar)
    tight = batch(tiny[1], constraint, 8)
    loose = [Prompt(tail=p.tail, prefix=p.prefix, max_new_tokens=16) for p in tight]
    apart = [d.tokens for d in engine.generate(tight)] + [d.tokens for d in engine.generate(loose)]
    mixed = [p for pair in zip(tight, loose, strict=True) for p in pair]
    together = [d.tokens for d in engine.generate(mixed)]
    assert together[::2] + together[1::2] == apart


def test_what_other_walks_found_out_does_not_show(tiny: Any) -> None:
    """States are shared between the ways that lead to them; what they offer is not changed."""
    from random import Random

    _, tokenizer = tiny
    vocabulary = Vocabulary(tokenizer)

    def walk(constraint: Constraint, random: Random) -> list[object]:
        state, run = constraint.jump(constraint.grammar.start())
        seen: list[object] = [run]
        while state.items:
            offered = constraint.options(state).tokens
            token = random.choice(offered)
            state, run = constraint.leap(state, token)
            seen += [offered, token, run]
        return seen

    for task in workload.tasks(4, 3):
        used = Constraint(workload.named(task.handles, task.claims), vocabulary, 2)
        for seed in range(20):
            fresh = Constraint(workload.named(task.handles, task.claims), vocabulary, 2)
            assert walk(used, Random(seed)) == walk(fresh, Random(seed))
