"""Static-shape steps: padding, idle rows and buckets never show in the answers.

The capture itself needs CUDA; everything around it is run here with a replay that is eager.
"""

from typing import Any

import pytest
import torch

from tests.engine.test_exactness import prompts, reference
from waggle.engine.backend import LeanBackend
from waggle.engine.engine import Engine
from waggle.engine.graphs import StepGraphs


def static_engine(tiny: Any, rows: int, **options: Any) -> Engine:
    engine = Engine(*tiny, max_rows=rows, **options)
    assert isinstance(engine.backend, LeanBackend)
    engine.backend._graphs = StepGraphs(engine.backend.decoder, capture=warmed)
    return engine


def warmed(step: Any) -> Any:
    """Run a step once before it is replayed, as recording a CUDA graph does."""
    step()
    return step


@pytest.mark.parametrize("rows", [1, 3, 8, 24])
@pytest.mark.parametrize("speculate", [True, False])
def test_padded_steps_are_greedy(tiny: Any, rows: int, speculate: bool) -> None:
    engine = static_engine(tiny, rows, speculate=speculate)
    batch = prompts(tiny[1], 24)
    for _ in range(2):
        done = engine.generate(batch)
        assert [d.tokens for d in done] == [reference(*tiny, prompt) for prompt in batch]
    assert isinstance(engine.backend, LeanBackend)
    assert engine.backend._graphs._graphs, "no step went through a static shape"


def test_warm_up_reaches_the_end_of_the_cache(tiny: Any) -> None:
    """Recording runs at the last cache position, which lies behind the prefix."""
    engine = static_engine(tiny, 4)
    decoder = engine.backend.decoder  # type: ignore[union-attr]
    decoder._cos, decoder._sin = decoder._tables(8)
    batch = prompts(tiny[1], 8)
    want = [reference(*tiny, prompt) for prompt in batch]
    assert [done.tokens for done in engine.generate(batch)] == want


def test_padded_steps_are_constrained(tiny: Any, record_grammar: Any) -> None:
    plain = Engine(*tiny, max_rows=8)
    static = static_engine(tiny, 8)
    answers = []
    for engine in (plain, static):
        batch = prompts(tiny[1], 20, grammar=engine.constraint(record_grammar))
        answers.append([done.text for done in engine.generate(batch)])
    assert answers[0] == answers[1]


def test_work_that_dwarfs_its_launches_is_packed(tiny: Any) -> None:
    engine = static_engine(tiny, 8)
    assert isinstance(engine.backend, LeanBackend)
    graphs = engine.backend._graphs
    assert graphs.fits([0, 1], [[1, 2], [3]], [5, 5])
    assert not graphs.fits([0, 1], [[1, 2], [3]], [5, 0]), "a prefill is no step"
    assert not graphs.fits([0], [[1] * 33], [5]), "a long chunk is no step"
    graphs._weights = 10**12
    assert not graphs.fits([0, 1], [[1, 2], [3]], [5, 5])


@pytest.mark.gpu
def test_cuda_graphs_agree_with_the_cpu(tiny: Any) -> None:
    import copy

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model, tokenizer = tiny
    batch = prompts(tokenizer, 24)
    want = [done.tokens for done in Engine(model, tokenizer, max_rows=8).generate(batch)]
    engine = Engine(copy.deepcopy(model).to("cuda"), tokenizer, max_rows=8)
    for _ in range(2):
        assert [done.tokens for done in engine.generate(batch)] == want
