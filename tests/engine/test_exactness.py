"""Free decoding is greedy decoding, however it is batched, split, drafted or interleaved."""

import threading
from typing import Any

import pytest
import torch

from tests.engine.helpers import NEW, PREFIX, answers, ids, prompts, reference, row_engine
from waggle.core.errors import ConfigError
from waggle.engine.backends.lean import CoreThreads, LeanBackend
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt


@pytest.fixture(scope="module")
def expected(tiny: tuple[Any, Any]) -> list[tuple[int, ...]]:
    model, tokenizer = tiny
    return [reference(model, tokenizer, prompt) for prompt in prompts(tokenizer, 48)]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 16, 33, 48])
def test_batch_size_does_not_show(tiny: Any, expected: Any, size: int) -> None:
    engine = Engine(*tiny, max_rows=size)
    count = min(48, 12 * size)
    assert answers(engine, prompts(tiny[1], count)) == expected[:count]


@pytest.mark.parametrize("speculate", [True, False])
def test_threads_do_not_show(tiny: Any, expected: Any, speculate: bool) -> None:
    """Parts of a pass run side by side give what they give one after the other."""
    engine = Engine(*tiny, max_rows=24, speculate=speculate)
    assert isinstance(engine.backend, LeanBackend)
    engine.backend.cores = CoreThreads(3)
    engine.backend.budget = 40
    assert answers(engine, prompts(tiny[1], 48)) == expected[:48]
    assert engine.backend.cores.map(lambda _: torch.get_num_threads(), range(6)) == [1] * 6


def test_left_padded_generate_agrees(tiny: Any, expected: Any) -> None:
    """Transformers pads batches on the left; the engine pads on the right inside, or not at all."""
    model, tokenizer = tiny
    batch = [[*p.prefix, *p.tail] for p in prompts(tokenizer, 8)]
    longest = max(map(len, batch))
    pad = tokenizer.pad_token_id
    rows = torch.tensor([[pad] * (longest - len(row)) + row for row in batch])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in batch])
    found = model.generate(rows, attention_mask=mask, max_new_tokens=NEW, do_sample=False)
    for row, want in zip(found[:, longest:].tolist(), expected, strict=False):
        assert tuple(row[: len(want)]) == want


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("speculate", [True, False])
def test_prefix_reuse_and_speculation_do_not_show(
    tiny: Any, expected: Any, reuse: bool, speculate: bool
) -> None:
    engine = Engine(*tiny, max_rows=16, reuse_prefix=reuse, speculate=speculate)
    assert answers(engine, prompts(tiny[1], 24)) == expected[:24]
    assert answers(engine, prompts(tiny[1], 24)) == expected[:24], "a second round differs"


def test_split_point_does_not_show(tiny: Any) -> None:
    model, tokenizer = tiny
    whole = ids(tokenizer, PREFIX + "view: abc")
    want = reference(model, tokenizer, Prompt(tail=whole, max_new_tokens=NEW))
    engine = Engine(model, tokenizer, max_rows=4)
    for cut in (0, 1, 17, len(whole) - 1):
        prompt = Prompt(tail=whole[cut:], prefix=whole[:cut], max_new_tokens=NEW)
        assert answers(engine, [prompt]) == [want]


def test_wrong_drafts_never_change_the_answer(
    tiny: Any, expected: Any, record_grammar: Any
) -> None:
    engine = Engine(*tiny, max_rows=8)
    skeleton = engine.constraint(record_grammar)
    done = engine.generate(prompts(tiny[1], 8, skeleton=skeleton))
    assert [completion.tokens for completion in done] == expected[:8]
    assert sum(completion.usage.drafted_tokens for completion in done) > 0


def test_drafts_that_are_never_right_are_given_up(
    tiny: Any, expected: Any, record_grammar: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.engine.judge.TRIED", 50)
    engine = Engine(*tiny, max_rows=8)
    monkeypatch.setattr(engine.backend, "least", lambda rows, effort: 0.999)
    batch = prompts(tiny[1], 8, skeleton=engine.constraint(record_grammar))
    assert engine.drafts
    for _ in range(2):
        done = engine.generate(batch)
        assert [completion.tokens for completion in done] == expected[:8]
    assert not engine.drafts
    assert sum(completion.usage.drafted_tokens for completion in done) == 0


def test_right_drafts_save_steps(tiny: Any, expected: Any) -> None:
    from waggle.engine.constraint.grammar import Grammar

    model, tokenizer = tiny
    engine = Engine(model, tokenizer, max_rows=8)
    prompt = prompts(tokenizer, 1)[0]
    text = tokenizer.decode(expected[0])
    if not text.isascii():
        text = "".join(char for char in text if char.isascii())
    skeleton = engine.constraint(Grammar.of(text))
    done = engine.generate(
        [Prompt(tail=prompt.tail, prefix=prompt.prefix, skeleton=skeleton, max_new_tokens=NEW)]
    )[0]
    assert done.tokens == expected[0]
    assert done.usage.model_steps <= NEW


def test_episodes_in_threads_share_batches_and_keep_their_answers(tiny: Any, expected: Any) -> None:
    engine = Engine(*tiny, max_rows=16)
    other = ids(tiny[1], "A different contract altogether. ")
    first = prompts(tiny[1], 24)
    second = [Prompt(tail=p.tail, prefix=other, max_new_tokens=NEW) for p in first]
    want = [reference(*tiny, prompt) for prompt in second[:6]]
    found: dict[str, list[tuple[int, ...]]] = {}

    def episode(name: str, batch: list[Prompt]) -> None:
        found[name] = answers(engine, batch)

    threads = [
        threading.Thread(target=episode, args=(name, batch))
        for name, batch in (("a", first), ("b", second), ("c", first[::-1]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found["a"] == expected[:24]
    assert found["c"] == expected[:24][::-1]
    assert found["b"][:6] == want


def test_rows_of_several_prefixes_share_passes(tiny: Any) -> None:
    heads = [ids(tiny[1], text) for text in (PREFIX, "Short. ", "", "Another one. " * 9)]
    batch = [
        Prompt(tail=p.tail, prefix=heads[i % 4], max_new_tokens=8 + i)
        for i, p in enumerate(prompts(tiny[1], 16))
    ]
    want = [reference(*tiny, prompt) for prompt in batch]
    engine = Engine(*tiny, max_rows=16, speculate=False)
    assert answers(engine, batch) == want
    assert engine.batches == max(len(tokens) for tokens in want), "one pass serves all prefixes"
    assert answers(Engine(*tiny, max_rows=5), batch[::-1]) == want[::-1]


def test_ignoring_the_end_gives_the_full_length(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=4)
    done = engine.generate(prompts(tiny[1], 4, ignore_end=True))
    assert {len(completion.tokens) for completion in done} == {NEW}


def test_a_prompt_that_does_not_fit_is_refused_with_the_fix(tiny: Any) -> None:
    engine = Engine(*tiny)
    with pytest.raises(ConfigError, match="shorten the prompt"):
        engine.generate([Prompt(tail=[5] * 5000)])
    with pytest.raises(ConfigError, match="tail"):
        engine.generate([Prompt(tail=[], prefix=(1, 2))])
    assert engine.generate([Prompt(tail=[5], max_new_tokens=2)])[0].usage.completion_tokens == 2


@pytest.mark.parametrize("on_gpu", [False, True])
def test_rows_that_do_not_fit_into_memory_wait(tiny: Any, on_gpu: bool) -> None:
    """Long prompts leave room for few rows; short ones before and after are not hurt."""
    engine = row_engine(tiny, 8, rolls=True) if on_gpu else Engine(*tiny, max_rows=8)
    assert isinstance(engine.backend, LeanBackend)
    engine.backend.store.limit = 6 * 1024 * 700  # type: ignore[attr-defined]
    short, long = prompts(tiny[1], 12), ids(tiny[1], "view " * 200)
    batch = [*short[:7], Prompt(tail=long, max_new_tokens=NEW), *short[7:]]
    want = [reference(*tiny, prompt) for prompt in batch]
    assert answers(engine, batch) == want
    assert engine.backend.room(0, 100) < 8, "the caches would have grown beyond their limit"
    assert answers(engine, batch) == want
