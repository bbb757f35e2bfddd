"""Recorded passes: which shapes are recorded and when, and that replaying them never shows."""

from collections.abc import Sequence
from typing import Any

import torch

from tests.engine.helpers import row_engine
from waggle.engine.backends.base import RowInput
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda.graphs import FINE, MAX_TOKENS, OFTEN, PassGraphs, Size, bucket
from waggle.engine.model.kv_cache import Piece


def captured(tiny: Any, lengths: Sequence[int], rows: int = 8) -> PassGraphs:
    """Run one pass of new rows of some lengths as often as it takes to record it."""
    backend = row_engine(tiny, rows).backend
    assert isinstance(backend, LeanBackend) and backend.graphs is not None
    backend.reserve(0, max(lengths))
    rows_in = [RowInput(i, [1 + i] * n, 0, [n - 1], ()) for i, n in enumerate(lengths)]
    first = backend.run(rows_in)
    for _ in range(OFTEN):
        assert torch.allclose(backend.run(rows_in), first, atol=1e-5)
    return backend.graphs


def test_passes_of_any_kind_are_captured_when_they_come_up_often(tiny: Any) -> None:
    assert list(captured(tiny, [1, 1, 1])._graphs) == [Size(12, True)]
    assert list(captured(tiny, [5, 1, 30])._graphs) == [Size(48, False)]
    prompts_too = captured(tiny, [1, 130, 40])._graphs
    assert list(prompts_too) == [Size(192, False)], "a prompt and steps share a pass"


def test_what_was_found_stays_when_another_pass_is_replayed(tiny: Any) -> None:
    """All graphs write to one outbox: states are taken from it before the next pass."""
    backend = row_engine(tiny, 4).backend
    backend.reserve(0, 64)
    one, other = ([RowInput(0, [token] * 9, 0, [8], ())] for token in (5, 9))
    for _ in range(OFTEN):
        first, second = backend.run(one), backend.run(other)
    assert not torch.allclose(first, second)
    assert torch.allclose(first, backend.run(one), atol=1e-5)


def test_a_shape_that_cannot_be_recorded_runs_all_the_same(tiny: Any) -> None:
    backend = row_engine(tiny, 4).backend
    assert isinstance(backend, LeanBackend) and backend.graphs is not None
    backend.reserve(0, 64)
    tries = []

    def failing(step: Any) -> Any:
        tries.append(step)
        raise torch.OutOfMemoryError("out of memory")

    backend.graphs._record = failing
    rows = [RowInput(0, [3] * 9, 0, [8], ())]
    want = backend.run(rows)
    for _ in range(3 * OFTEN):
        assert torch.equal(backend.run(rows), want)
    assert len(tries) == 1, "it is not tried again at once"


def test_dropped_shapes_are_recorded_again_at_once(tiny: Any) -> None:
    backend = row_engine(tiny, 4).backend
    assert isinstance(backend, LeanBackend) and backend.graphs is not None
    backend.reserve(0, 64)
    rows = [RowInput(0, [3] * 9, 0, [8], ())]
    for _ in range(OFTEN):
        backend.run(rows)
    assert backend.graphs._graphs
    backend.reserve(0, 4 * 64)
    assert not backend.graphs._graphs, "caches have moved"
    backend.run(rows)
    assert backend.graphs._graphs


def test_large_work_is_not_captured(tiny: Any) -> None:
    graphs = captured(tiny, [4, 4])
    piece = [Piece(0, [1, 2], 5)]
    graphs._weights = 10**12
    assert graphs.run(piece, []) is None
    assert bucket(MAX_TOKENS) == MAX_TOKENS


def test_sizes_are_rounded_up_to_few_shapes() -> None:
    assert [bucket(n) for n in (1, 12, 13, 16, 17, 24, 25, 100)] == [
        12,
        12,
        16,
        16,
        24,
        24,
        32,
        128,
    ]
    assert all(n <= bucket(n) < max(16, 1.51 * n) for n in range(1, 5000))
    assert all(n <= bucket(n) < 1.126 * n for n in range(FINE + 1, 40_000))
