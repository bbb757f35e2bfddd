"""Running out of memory costs time, never an answer; the GPU that runs out is made up here."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.engine.helpers import long_prompts, prompts, references, row_engine
from waggle.engine.backends.lean import CoreThreads, LeanBackend
from waggle.engine.cuda.greedy_loop import GreedyLoop
from waggle.engine.engine import Engine
from waggle.engine.model import kv_rows as row_store
from waggle.engine.model.decoder import Decoder
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.request import Prompt


class Short:
    """Lets a call fail where something is too large, and counts how often it did."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str, size: Any, most: int):
        self.failed = 0
        plenty = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            if size(*args) > most:
                self.failed += 1
                raise torch.OutOfMemoryError("no memory left")
            return plenty(*args, **options)

        patch.setattr(owner, name, call)


def tokens(decoder: Decoder, chunk: Any, *_: Any) -> int:
    """How many tokens a pass has."""
    return int(chunk.tokens.numel())


def laned(tiny: Any) -> Engine:
    """An engine that runs parts of a pass side by side."""
    engine = Engine(*tiny, max_rows=12)
    assert isinstance(engine.backend, LeanBackend)
    engine.backend.cores = CoreThreads(2)
    return engine


ENGINES: dict[str, Callable[[Any], Engine]] = {
    "shared": lambda tiny: Engine(*tiny, max_rows=12),
    "lanes": laned,
    "rows": lambda tiny: row_engine(tiny, 12),
    "eager": lambda tiny: row_engine(tiny, 12, static=False),
}


def mixture(tokenizer: Any, engine: Engine, grammar: Any) -> list[Prompt]:
    """Free and constrained prompts of several prefixes and lengths; more than there are slots."""
    free, bound = prompts(tokenizer, 6), prompts(tokenizer, 6, grammar=engine.matcher(grammar))
    both = [prompt for pair in zip(free, bound, strict=True) for prompt in pair]
    return both + long_prompts(tokenizer, 3, new=20)


@pytest.fixture(scope="module")
def alone(tiny: Any, record_grammar: Any) -> list[tuple[int, ...]]:
    """What each prompt is answered when nothing shares its passes and memory is plenty."""
    engine = Engine(*tiny, max_rows=1)
    return [engine.generate([p])[0].tokens for p in mixture(tiny[1], engine, record_grammar)]


def longest(batch: list[Prompt]) -> int:
    return max(len(prompt.tail) for prompt in batch)


@pytest.fixture(scope="module")
def plain(tiny: Any) -> tuple[list[Prompt], list[tuple[int, ...]]]:
    """Free prompts, more than there are slots, and what each is answered with alone."""
    batch = long_prompts(tiny[1], 14, new=20)
    return batch, references(*tiny, batch)


@pytest.mark.parametrize("kind", ENGINES)
def test_passes_that_do_not_fit_are_cut(
    tiny: Any, record_grammar: Any, alone: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts and steps: one prompt fits, two do not, and no step of all rows does."""
    engine = ENGINES[kind](tiny)
    batch = mixture(tiny[1], engine, record_grammar)[::-1]  # so that the long ones enter at once
    prefix = max(len(prompt.prefix) for prompt in batch)
    short = Short(monkeypatch, Decoder, "forward", tokens, max(longest(batch), prefix))
    for _ in range(2):
        assert [done.tokens for done in engine.generate(batch)] == alone[::-1]
    assert short.failed
    assert engine._scheduler.free == 12


@pytest.mark.parametrize("kind", ENGINES)
def test_logits_that_do_not_fit_are_cut(
    tiny: Any, record_grammar: Any, alone: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ENGINES[kind](tiny)
    assert isinstance(engine.backend, LeanBackend)
    batch = mixture(tiny[1], engine, record_grammar)
    head = engine.backend.decoder.head
    short = Short(monkeypatch, type(head), "__call__", lambda layer, x: len(x) * (layer is head), 2)
    assert [done.tokens for done in engine.generate(batch)] == alone
    assert short.failed


def test_steps_that_do_not_fit_are_decoded_with_fewer_rows(
    tiny: Any, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = row_engine(tiny, 12, multi_step=True, speculate=False)
    batch, want = plain
    short = Short(monkeypatch, GreedyLoop, "run", lambda loop, rows, *_: len(rows), 4)
    assert [done.tokens for done in engine.generate(batch)] == want and short.failed


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("number", [1, 2, 4])
def test_caches_that_do_not_fit_are_made_again(
    tiny: Any, record_grammar: Any, alone: Any, kind: str, number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """While rows are under way, which lose what they had."""
    monkeypatch.setattr(row_store, "STACK", 1)  # so that a part of them was made before
    engine = ENGINES[kind](tiny)
    batch = mixture(tiny[1], engine, record_grammar)
    engine.generate(batch[:3])
    made = 0

    def size(*_: Any) -> int:
        nonlocal made
        made += 1
        return int(made == number)

    short = Short(monkeypatch, torch, "zeros", size, 0)
    assert [done.tokens for done in engine.generate(batch)] == alone
    assert short.failed == 1


@pytest.mark.parametrize("static", [True, False])
def test_a_prefix_that_is_copied_in_part_is_copied_again(
    tiny: Any, plain: Any, static: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = row_engine(tiny, 12, static)
    batch, want = (part[:12] for part in plain)
    short = Short(monkeypatch, RowStore, "_copy", lambda store, prefix, slots: len(slots), 2)
    assert [done.tokens for done in engine.generate(batch)] == want and short.failed


@pytest.mark.parametrize("kind", ENGINES)
def test_a_row_that_does_not_fit_is_an_error_and_nothing_else_is(
    tiny: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ENGINES[kind](tiny)
    batch = prompts(tiny[1], 8)
    want = [done.tokens for done in engine.generate(batch)]
    with monkeypatch.context() as patch:
        Short(patch, Decoder, "forward", tokens, 0)
        with pytest.raises(torch.OutOfMemoryError):
            engine.generate(batch)
    assert [done.tokens for done in engine.generate(batch)] == want
    assert engine._scheduler._limit == 12
