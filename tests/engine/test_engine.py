"""Free decoding is greedy decoding, however it is batched, split, drafted or interleaved.

A failure loses its batch and nothing else, and output that is not a number is an error.
"""

import copy
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch

from tests.engine.helpers import (
    NEW,
    PREFIX,
    answers,
    ids,
    long_prompts,
    prompts,
    references,
    row_engine,
)
from waggle.core.errors import ConfigError
from waggle.engine.backends.lean import CoreThreads, LeanBackend
from waggle.engine.backends.transformers import TransformersBackend
from waggle.engine.engine import Engine, NotNumbers
from waggle.engine.request import Prompt


@pytest.fixture(scope="module")
def expected(tiny: tuple[Any, Any]) -> list[tuple[int, ...]]:
    model, tokenizer = tiny
    return references(model, tokenizer, prompts(tokenizer, 48))


@pytest.mark.parametrize("size", [1, 3, 16, 48])
def test_batch_size_does_not_show(tiny: Any, expected: Any, size: int) -> None:
    engine = Engine(*tiny, max_rows=size)
    number = min(48, 12 * size)
    assert answers(engine, prompts(tiny[1], number)) == expected[:number]


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
    (want,) = references(model, tokenizer, [Prompt(tail=whole, max_new_tokens=NEW)])
    engine = Engine(model, tokenizer, max_rows=4)
    for cut in (0, 1, 17, len(whole) - 1):
        prompt = Prompt(tail=whole[cut:], prefix=whole[:cut], max_new_tokens=NEW)
        assert answers(engine, [prompt]) == [want]


def test_drafts_save_steps_and_never_change_the_answer(tiny: Any, expected: Any) -> None:
    """Right ones, wrong ones, and ones that are right for a while: recent answers are spoiled."""
    engine = Engine(*tiny, max_rows=8)
    batch = prompts(tiny[1], 24)
    first, again = engine.generate(batch), engine.generate(batch)
    assert [completion.tokens for completion in (*first, *again)] == expected[:24] * 2
    steps = [sum(completion.usage.model_steps for completion in done) for done in (first, again)]
    assert steps[1] < 0.6 * sum(map(len, expected[:24]))
    engine.reset()
    for number, (prompt, answer) in enumerate(zip(batch, expected[:24], strict=True)):
        at = number % NEW
        engine._answers.add(prompt.tail, (*answer[:at], 7, *answer[at + 1 :]))
    done = engine.generate(batch)
    assert [completion.tokens for completion in done] == expected[:24]
    usages = [completion.usage for completion in done]
    accepted = [usage.accepted_tokens for usage in usages]
    assert 0 < sum(accepted) < sum(usage.drafted_tokens for usage in usages)


def test_what_answers_have_taught_is_forgotten_with_a_reset(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=12)
    batch, steps = prompts(tiny[1], 12), []
    for _ in range(2):
        engine.reset()
        steps.append([completion.usage.model_steps for completion in engine.generate(batch)])
    assert steps[0] == steps[1]


def test_episodes_in_threads_share_batches_and_keep_their_answers(tiny: Any, expected: Any) -> None:
    engine = Engine(*tiny, max_rows=16)
    other = ids(tiny[1], "A different contract altogether. ")
    first = prompts(tiny[1], 24)
    second = [Prompt(tail=p.tail, prefix=other, max_new_tokens=NEW) for p in first]
    want = references(*tiny, second[:6])
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
    want = references(*tiny, batch)
    engine = Engine(*tiny, max_rows=16, speculate=False)
    assert answers(engine, batch) == want
    assert engine.passes == max(len(tokens) for tokens in want), "one pass serves all prefixes"
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
    engine = row_engine(tiny, 8, multi_step=True) if on_gpu else Engine(*tiny, max_rows=8)
    assert isinstance(engine.backend, LeanBackend)
    engine.backend.store.limit = 6 * 1024 * 700  # type: ignore[attr-defined]
    short, long = prompts(tiny[1], 12), ids(tiny[1], "view " * 200)
    batch = [*short[:7], Prompt(tail=long, max_new_tokens=NEW), *short[7:]]
    want = references(*tiny, batch)
    assert answers(engine, batch) == want
    assert engine.backend.room(0, 100) < 8, "the caches would have grown beyond their limit"
    assert answers(engine, batch) == want


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_long_prompt_takes_rows_only_while_it_runs(tiny: Any, on_gpu: bool) -> None:
    engine = row_engine(tiny, 8, speculate=False) if on_gpu else Engine(*tiny, max_rows=8)
    assert isinstance(engine.backend, LeanBackend)
    engine.speculate, store = False, engine.backend.store
    store.limit = 8 * 512 * 400
    short, long = prompts(tiny[1], 16, new=8), Prompt(ids(tiny[1], "view " * 200), max_new_tokens=8)
    want, passes = references(*tiny, short), []
    for _ in range(3):
        before = engine.passes
        assert answers(engine, short) == want
        passes.append(engine.passes - before)
        assert answers(engine, [long]) == references(*tiny, [long])
        assert store.rows < 4, "a long prompt leaves room for as many rows"
    assert len(set(passes)) == 1


def test_few_rows_hold_few_caches(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=64)
    batch = long_prompts(tiny[1], 24)
    want = references(*tiny, batch)
    held = []
    for size in (3, 24, 5):
        assert answers(engine, batch[:size]) == want[:size]
        held.append(len(engine.backend.store._cache[0][0]))  # type: ignore[attr-defined]
    assert held == [4, 32, 32]


def test_rows_that_go_on_keep_their_caches_when_others_come(tiny: Any) -> None:
    """A second caller makes the caches of the first move in the midst of its answers."""
    engine = Engine(*tiny, max_rows=64, speculate=False)
    first, second = prompts(tiny[1], 3, new=40), prompts(tiny[1], 20)[3:]
    found: list[Any] = []
    run, backend = engine.backend.run, engine.backend

    def called(rows: Any) -> Any:
        if len(found) == 0 and engine.passes == 5:
            found.append(engine._scheduler.submit([engine._sequence(p) for p in second]))
        return run(rows)

    backend.run = called  # type: ignore[method-assign]
    assert answers(engine, first) == references(*tiny, first)
    while not found[0].done:
        engine._step()
    assert [done.tokens for done in found[0].result()] == references(*tiny, second)


def failing(number: int) -> Callable[..., Any]:
    """Return a maker of tensors that breaks down when it is asked for the n-th."""
    plenty, asked = torch.zeros, count(1)

    def zeros(*args: Any, **options: Any) -> Any:
        if next(asked) == number:
            raise RuntimeError("broken")
        return plenty(*args, **options)

    return zeros


@pytest.mark.parametrize("kind", ["shared", "rows", "multi-step"])
def test_what_follows_a_failure_is_right(
    tiny: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = (
        Engine(*tiny, max_rows=8)
        if kind == "shared"
        else row_engine(tiny, 8, multi_step=kind == "multi-step", speculate=kind != "multi-step")
    )
    # One more than there are rows.
    short, longer = prompts(tiny[1], 9), long_prompts(tiny[1], 9)
    batches = [longer, short, long_prompts(tiny[1], 1, 50), longer]
    wanted = [references(*tiny, batch) for batch in batches]

    def found(some: list[Prompt]) -> list[tuple[int, ...]]:
        return [done.tokens for done in engine.generate(some)]

    found(short)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", failing(2))
        with pytest.raises(RuntimeError, match="broken"):
            found(longer)
    for batch, want in zip(batches, wanted, strict=True):
        assert found(batch) == want


@pytest.mark.parametrize("multi_step", [True, False])
@pytest.mark.parametrize("bound", [True, False])
def test_what_is_no_number_is_no_answer(
    tiny: Any, record_grammar: Any, multi_step: bool, bound: bool
) -> None:
    model = copy.deepcopy(tiny[0])
    engine = row_engine((model, tiny[1]), 6, multi_step=multi_step)
    options = {"grammar": engine.matcher(record_grammar)} if bound else {}
    batch = prompts(tiny[1], 9, **options)
    want = [done.tokens for done in engine.generate(batch)]
    norm: torch.Tensor = engine.backend.decoder.norm  # type: ignore[attr-defined]
    kept = norm.clone()
    norm.fill_(float("nan"))
    with pytest.raises(NotNumbers, match="WAGGLE_KERNELS"):
        engine.generate(batch)
    norm.copy_(kept)
    assert [done.tokens for done in engine.generate(batch)] == want


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("bound", [True, False])
def test_a_cpu_says_what_is_no_number(
    tiny: Any, record_grammar: Any, lean: bool, bound: bool
) -> None:
    model = copy.deepcopy(tiny[0])
    model.model.norm.weight.data.fill_(float("nan"))
    engine = Engine(model, tiny[1])
    if not lean:
        engine.backend = TransformersBackend(model)
    options = {"grammar": engine.matcher(record_grammar)} if bound else {}
    with pytest.raises(NotNumbers):
        engine.generate(prompts(tiny[1], 2, **options))


def test_an_interrupt_leaves_nothing_in_flight(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, batch = Engine(*tiny, max_rows=2), prompts(tiny[1], 3)
    want = answers(engine, batch)

    def interrupted() -> list[int]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine.backend, "argmax", lambda *_: interrupted)
        engine.generate(batch)
    assert engine._scheduler.idle and engine._scheduler.free == 2
    assert answers(engine, batch) == want


def test_a_multi_step_row_that_turns_into_no_number_is_no_answer(tiny: Any) -> None:
    engine = row_engine(tiny, 4, multi_step=True, speculate=False)
    backend: Any = engine.backend
    loop, calls = backend.loop.run, []

    def run(*given: Any) -> Any:
        calls.append(1)
        found = loop(*given)
        if len(calls) == 1:
            found[1].tokens[3] = -1
        return found

    backend.loop.run = run
    with pytest.raises(NotNumbers):
        engine.generate(prompts(tiny[1], 4))
    assert engine.generate(prompts(tiny[1], 4)) == Engine(*tiny, speculate=False).generate(
        prompts(tiny[1], 4)
    )
