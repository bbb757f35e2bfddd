"""Whole-context rows and static-shape steps: padding, scratch rows and mixtures never show.

The kernel and the capture need CUDA; everything around them is run here with the references
attention and a replay that is eager.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tests.engine.helpers import PREFIX, ids, prompts, references, row_engine
from waggle.engine.backends.base import RowInput
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda.greedy_loop import STEPS
from waggle.engine.cuda.selfcheck import varlen_reference
from waggle.engine.engine import Engine
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.request import Prompt


@pytest.mark.parametrize(
    ("rows", "speculate", "static"),
    [(1, True, True), (3, True, False), (3, False, True), (24, True, True), (24, False, False)],
)
def test_steps_are_greedy(tiny: Any, rows: int, speculate: bool, static: bool) -> None:
    engine = row_engine(tiny, rows, static, speculate=speculate)
    batch = prompts(tiny[1], min(24, 4 + 2 * rows))
    want = references(*tiny, batch)
    for _ in range(2):
        assert [done.tokens for done in engine.generate(batch)] == want
    assert isinstance(engine.backend, LeanBackend)
    if static:
        assert engine.backend.graphs is not None
        assert engine.backend.graphs._graphs, "no step went through a static shape"


@pytest.mark.parametrize("rows", [1, 3, 24])
def test_multi_step_rows_are_greedy(tiny: Any, rows: int) -> None:
    """Answers that end early, at once, within a stretch and beyond several; slots are reused."""
    engine = row_engine(tiny, rows, multi_step=True, speculate=False)
    model, tokenizer = tiny
    lengths = [1, 2, STEPS, STEPS + 1, 40, 2 * STEPS + 3] * (4 if rows > 3 else 1)
    free = [
        Prompt(p.tail, p.prefix, max_new_tokens=length)
        for p, length in zip(prompts(tokenizer, len(lengths)), lengths, strict=True)
    ]
    forced = [Prompt(p.tail, p.prefix, max_new_tokens=20, ignore_end=True) for p in free[:5]]
    want = references(model, tokenizer, free)
    usual = [done.tokens for done in Engine(*tiny, max_rows=4).generate(forced)]
    for _ in range(2 if rows == 3 else 1):
        done = engine.generate([*free, *forced])
        assert [d.tokens for d in done] == [*want, *usual]
    assert isinstance(engine.backend, LeanBackend)
    assert engine.backend.loop is not None
    assert engine.backend.loop._captured, "nothing was captured"
    assert all(d.usage.drafted_tokens == 0 for d in done)
    ended = [len(d.tokens) + (d.finish == "stop") for d in done]
    assert [d.usage.model_steps for d in done] == ended


def test_multi_step_rows_end_where_the_model_says(tiny: Any) -> None:
    """Any token may be an end: those that a model says early on are."""
    batch = [Prompt(p.tail, p.prefix, max_new_tokens=40) for p in prompts(tiny[1], 12)]
    plain = Engine(*tiny, max_rows=12, speculate=False)
    stepped = row_engine(tiny, 12, multi_step=True, speculate=False)
    said = [done.tokens for done in plain.generate(batch)]
    for count in (1, 3):
        for engine in (plain, stepped):
            engine.eos = frozenset(tokens[5 * i + 3] for i, tokens in enumerate(said[:count]))
        want, found = plain.generate(batch), stepped.generate(batch)
        assert found == want
        assert any(done.finish == "stop" for done in found)


def test_multi_step_and_constrained_rows_share_an_engine(tiny: Any, record_grammar: Any) -> None:
    mixed = row_engine(tiny, 8, multi_step=True)
    free = prompts(tiny[1], 10)
    bound = prompts(tiny[1], 10, grammar=mixed.matcher(record_grammar))
    alone = Engine(*tiny, max_rows=8)
    want = [done.tokens for done in alone.generate([*free, *bound])]
    found = mixed.generate([p for pair in zip(free, bound, strict=True) for p in pair])
    assert [done.tokens for done in (*found[::2], *found[1::2])] == want


def test_rows_of_several_prefixes_share_steps_and_slots(tiny: Any) -> None:
    engine = row_engine(tiny, 6)
    heads = [ids(tiny[1], text) for text in (PREFIX, "Short. ", "")]
    batch = [
        Prompt(tail=p.tail, prefix=heads[i % 3], max_new_tokens=12 + i)
        for i, p in enumerate(prompts(tiny[1], 20))
    ]
    want = references(*tiny, batch)
    assert [done.tokens for done in engine.generate(batch)] == want
    assert [done.tokens for done in engine.generate(batch[::-1])] == want[::-1]


def test_growing_caches_keep_what_rows_hold(tiny: Any) -> None:
    engine = row_engine(tiny, 4)
    short = prompts(tiny[1], 3)
    long = Prompt(tail=ids(tiny[1], "view " * 80), max_new_tokens=12)
    batch = [*short, long, *short]
    want = references(*tiny, batch)
    assert [done.tokens for done in engine.generate(batch)] == want


def test_steps_are_constrained(tiny: Any, record_grammar: Any) -> None:
    plain = Engine(*tiny, max_rows=8)
    static = row_engine(tiny, 8)
    answers = []
    for engine in (plain, static):
        batch = prompts(tiny[1], 20, grammar=engine.matcher(record_grammar))
        answers.append([done.text for done in engine.generate(batch)])
    assert answers[0] == answers[1]


def test_the_reference_attention_is_causal_attention() -> None:
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(5, 4, 8, generator=generator)
    kv = torch.randn(40, 4, 8, generator=generator)
    rows = [torch.tensor(v, dtype=torch.int32) for v in ((0, 5, 5), (20, 0, 0), (9, 0))]
    found = varlen_reference(q, kv[:, :2], kv[:, 2:], *rows, (8, 20), 8**-0.5)
    keys, values = (part.repeat_interleave(2, dim=1) for part in (kv[20:29, :2], kv[20:29, 2:]))
    mask = torch.ones(5, 9).tril(4).bool()
    want = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1), attn_mask=mask
    )
    assert torch.allclose(found, want.transpose(0, 1), atol=1e-5)


@pytest.mark.gpu
def test_cuda_agrees_with_the_cpu(tiny: Any) -> None:
    import copy

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model, tokenizer = tiny
    batch = prompts(tokenizer, 24)
    want = [done.tokens for done in Engine(model, tokenizer, max_rows=8).generate(batch)]
    engine = Engine(copy.deepcopy(model).to("cuda"), tokenizer, max_rows=8)
    for _ in range(2):
        assert [done.tokens for done in engine.generate(batch)] == want


def test_rows_share_passes_and_keep_their_answers(tiny: Any, record_grammar: Any) -> None:
    """Two halves, one read while the other runs; rows leave and enter, drafts, grammars mixed."""
    engine = row_engine(tiny, 40)
    batch = [
        Prompt(p.tail, p.prefix, grammar=engine.matcher(record_grammar) if i % 3 else None,
               max_new_tokens=100 if i % 3 else 5 + i % 30)
        for i, p in enumerate(prompts(tiny[1], 48))
    ]  # fmt: skip
    alone = Engine(*tiny, max_rows=1)
    want = [alone.generate([prompt])[0].tokens for prompt in batch]
    sent: list[tuple[bool, int]] = []
    run = engine.backend.run

    def watched(rows: Sequence[RowInput]) -> Any:
        sent.append((rows[0].start == 0, len(rows)))
        return run(rows)

    engine.backend.run = watched  # type: ignore[method-assign]
    assert [done.tokens for done in engine.generate(batch)] == want
    assert sent[:4] == [(True, 20), (True, 20), (False, 20), (False, 20)], "halves wait for another"
    assert engine._scheduler.free == 40


def test_rows_go_where_their_prefix_lies(tiny: Any) -> None:
    engine = row_engine(tiny, 6)
    heads = [ids(tiny[1], text) for text in (PREFIX, "Another beginning. " * 3)]
    batch = [
        Prompt(p.tail, heads[i % 2], max_new_tokens=3) for i, p in enumerate(prompts(tiny[1], 6))
    ]
    assert isinstance(engine.backend, LeanBackend)
    store = engine.backend.store
    assert isinstance(store, RowStore)
    want = [done.tokens for done in engine.generate(batch)]
    held = list(store._held)
    assert [done.tokens for done in engine.generate(batch[::-1])] == want[::-1]
    assert all(a is b for a, b in zip(held, store._held, strict=True)), "a prefix was copied again"
