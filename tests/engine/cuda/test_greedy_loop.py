"""Drafts that are looked up on the device: what texts say that are most alike, never an answer."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.helpers import PREFIX, ids, prompts, row_engine
from waggle.engine.backends.base import MultiStepOutput
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda import greedy_loop as loop
from waggle.engine.cuda import selfcheck
from waggle.engine.cuda.greedy_loop import ORDER, propose
from waggle.engine.engine import Engine
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.request import Prompt
from waggle.engine.speculation import GAP


def alike(text: list[int], end: int, recent: list[int]) -> tuple[int, ...]:
    """Whether each of the last tokens is the one at a place, the last first."""
    return tuple(int(text[end - back] == recent[-1 - back]) for back in range(ORDER))


def expected(own: list[int], answers: list[int], count: int) -> list[int]:
    """What recall means, said slowly."""
    recent = [own[max(0, len(own) - 1 - back)] for back in reversed(range(ORDER))]
    text = [*own, *answers]
    places = [
        place for place in range(ORDER - 1, len(text)) if place < len(own) - 1 or place >= len(own)
    ]
    best = max(places, key=lambda place: (alike(text, place, recent), place))
    if best < len(own):
        behind = own[best + 1 :]
        return [behind[i % len(behind)] for i in range(count)]
    return [max(0, text[min(best + 1 + i, len(text) - 1)]) for i in range(count)]


@given(
    st.lists(st.integers(0, 3), min_size=ORDER + 2, max_size=30),
    st.lists(st.integers(-1, 3), min_size=1, max_size=20),
    st.integers(1, 9),
)
@settings(max_examples=80, deadline=None)
def test_what_follows_the_place_that_is_most_alike_is_recalled(
    own: list[int], answers: list[int], count: int
) -> None:
    texts = torch.tensor([own, own[::-1]], dtype=torch.int32)
    slots, places = torch.tensor([0]), torch.tensor([len(own) - 1])
    found = propose(texts, slots, places, torch.tensor(answers, dtype=torch.int32), count)
    assert found.tolist() == [expected(own, answers, count)]


def test_a_kernel_that_recalls_something_else_is_found_out() -> None:
    device = torch.device("cpu")
    assert selfcheck.proposals_agree(propose, device)
    for back in range(1, 3):

        def wrong(*given: Any, back: int = back) -> torch.Tensor:
            texts, slots, places, answers, count = given
            return propose(texts, slots, (places - back).clamp_min(0), answers, count)

        assert not selfcheck.proposals_agree(wrong, device)


def test_what_lies_behind_a_row_is_not_read() -> None:
    text = [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 6, 7, 8]
    noise = [*text, 8, 5, 6, 7, 8, 77, 77]
    answers = torch.full((8,), GAP, dtype=torch.int32)
    found = propose(
        torch.tensor([noise], dtype=torch.int32),
        torch.tensor([0, 0]), torch.tensor([len(text) - 1, len(text) - 2]), answers, 3,
    )  # fmt: skip
    assert found.tolist() == [[9, 5, 6], [8, 9, 5]]


def test_a_loop_goes_on() -> None:
    text = torch.tensor([[1, 2, 3, 1, 2, 3, *[9, 4, 5] * 4]], dtype=torch.int32)
    answers = torch.full((8,), GAP, dtype=torch.int32)
    found = propose(text, torch.tensor([0]), torch.tensor([17]), answers, 7)
    assert found.tolist() == [[9, 4, 5, 9, 4, 5, 9]]


def stepped(tiny: Any, rows: int) -> Engine:
    """An engine that decodes many steps at a time, with drafts of its own."""
    return row_engine(tiny, rows, multi_step=True)


@pytest.mark.parametrize("rows", [1, 3, 24])
def test_rows_that_try_what_they_recall_are_greedy(tiny: Any, rows: int) -> None:
    """Several prefixes, answers of every length, some forced; slots are reused."""
    engine = stepped(tiny, rows)
    heads = [ids(tiny[1], text) for text in (PREFIX, "Short. ", "")]
    lengths = [1, 2, loop.DRAFT_STEPS, 17, 40, 70] * {1: 1, 3: 1, 24: 4}[rows]
    batch = [
        Prompt(p.tail, heads[i % 3], max_new_tokens=length, ignore_end=i % 4 == 3)
        for i, (p, length) in enumerate(zip(prompts(tiny[1], len(lengths)), lengths, strict=True))
    ]
    want = [done.tokens for done in Engine(*tiny, max_rows=4, speculate=False).generate(batch)]
    first, again = engine.generate(batch), engine.generate(batch)
    assert [done.tokens for done in first] == want
    assert [done.tokens for done in again] == want
    passes = [sum(done.usage.model_steps for done in part) for part in (first, again)]
    said = sum(map(len, want))
    assert passes[1] < passes[0] < said, "answers that were given before are recalled"
    assert passes[1] < said / 4
    for done in again:
        usage = done.usage
        drafted = usage.model_steps - 1 + usage.accepted_tokens
        assert drafted + 1 in (len(done.tokens), len(done.tokens) + 1)


def test_rows_that_recall_end_where_the_model_says(tiny: Any) -> None:
    """Any token may be an end, and stand anywhere in what is tried."""
    batch = [Prompt(p.tail, p.prefix, max_new_tokens=40) for p in prompts(tiny[1], 12)]
    plain = Engine(*tiny, max_rows=12, speculate=False)
    engine = stepped(tiny, 12)
    said = [done.tokens for done in plain.generate(batch)]
    engine.generate([Prompt(p.tail, p.prefix, max_new_tokens=40) for p in batch])
    for count in (1, 3, 7):
        for each in (plain, engine):
            each.eos = frozenset(tokens[2 * i + 3] for i, tokens in enumerate(said[:count]))
        want, found = plain.generate(batch), engine.generate(batch)
        assert [(d.tokens, d.finish) for d in found] == [(d.tokens, d.finish) for d in want]
        assert any(done.finish == "stop" for done in found)


def test_texts_are_those_whose_keys_are_kept(tiny: Any) -> None:
    """After prompts, steps, growth of the caches and prefixes of which one begins another."""
    engine = stepped(tiny, 4)
    prefix = ids(tiny[1], PREFIX)
    for tail in ("one view", "view " * 60, "another view"):
        for head in (prefix, prefix[: len(prefix) // 2]):
            prompt = Prompt(ids(tiny[1], tail), head, max_new_tokens=9)
            done = engine.generate([prompt])[0]
            assert isinstance(engine.backend, LeanBackend)
            store = engine.backend.store
            assert isinstance(store, RowStore)
            whole = [*prompt.prefix, *prompt.tail, *done.tokens]
            texts = store.texts[:, : len(whole)].tolist()
            assert whole in texts


def test_what_was_recalled_is_forgotten_with_the_rest(tiny: Any) -> None:
    engine = stepped(tiny, 12)
    batch = prompts(tiny[1], 12)
    steps = []
    for _ in range(2):
        engine.reset()
        steps.append([done.usage.model_steps for done in engine.generate(batch)])
    assert steps[0] == steps[1]


def test_what_is_read_is_what_counts() -> None:
    told = np.array([[[5, 6, 7, 2], [1, 1, 1, 0]], [[8, 9, 9, 1], [3, 1, 1, 1]]])
    assert loop._read(told) == [MultiStepOutput([5, 6, 8], 2, 4), MultiStepOutput([3], 1, 2)]
