"""Which kernels are used, how wrong ones are found out, and steps over a stand-in for them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engine.helpers import TorchKernels, prompts, references, rotation, row_engine
from waggle.core.errors import ConfigError
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda import kernels, selfcheck
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_rows import RowStore


@pytest.mark.parametrize("normed", [True, False])
def test_kernels_that_read_other_keys_are_found_out(normed: bool) -> None:
    given = (rotation(6, 2, 16, torch.float32, normed), torch.device("cpu"), torch.float32)
    assert selfcheck.steps_agree(TorchKernels(), *given)

    class Late(TorchKernels):
        def step(self, *given: Any) -> Tensor:
            qkv, turns, positions, rows, cache, scale = given
            moved = rows._replace(lengths=rows.lengths + 100)
            return super().step(qkv, turns, positions, moved, cache, scale)

        def attend(self, *given: Any) -> Tensor:
            q, k, v, rows, scale = given
            return super().attend(q, k, v, rows._replace(lengths=rows.lengths + 30), scale)

    assert selfcheck.attention_agrees(TorchKernels(), *given)
    assert not selfcheck.steps_agree(Late(), *given), (
        "another row's keys were read and nobody noticed"
    )
    assert not selfcheck.attention_agrees(Late(), *given), "and here"


@pytest.mark.parametrize("rows", [1, 3, 24])
def test_fused_steps_are_greedy(tiny: Any, rows: int) -> None:
    engine = row_engine(tiny, rows, multi_step=True, speculate=False)
    backend = engine.backend
    assert isinstance(backend, LeanBackend) and isinstance(backend.store, RowStore)
    made = backend.store.kernels
    assert isinstance(made, TorchKernels)
    batch = prompts(tiny[1], min(24, 4 + 2 * rows))
    want = references(*tiny, batch)
    assert [done.tokens for done in engine.generate(batch)] == want
    assert made.steps and made.placed > made.steps
    assert "fused steps" in backend.describe()


@pytest.mark.parametrize("speculate", [True, False])
def test_fused_passes_are_greedy(tiny: Any, speculate: bool) -> None:
    engine = row_engine(tiny, 5, speculate=speculate)
    backend = engine.backend
    assert isinstance(backend, LeanBackend) and isinstance(backend.store, RowStore)
    made = backend.store.kernels
    assert isinstance(made, TorchKernels)
    batch = prompts(tiny[1], 12)
    want = references(*tiny, batch)
    for _ in range(2):
        assert [done.tokens for done in engine.generate(batch)] == want
    assert made.spans > 0 or not speculate


def test_rows_of_one_prefix_read_one_copy(tiny: Any) -> None:
    engine = row_engine(tiny, 6, multi_step=True, speculate=False)
    engine.generate(prompts(tiny[1], 6))
    assert isinstance(engine.backend, LeanBackend)
    store = engine.backend.store
    assert isinstance(store, RowStore)
    bases, lengths = store.shared(range(6))
    held = [store._held[slot] for slot in range(6)]
    for slot, kept in enumerate(held):
        assert kept is not None and lengths[slot] == kept.length
        assert held[bases[slot] // store.capacity] is kept
    assert len(set(bases)) < 6


def test_no_kernels_away_from_cuda() -> None:
    shape = Shape(2, 64, 160, 6, 2, 16, 1e-5)
    turns = rotation(6, 2, 16, torch.bfloat16, False)
    cpu = torch.device("cpu")
    assert kernels.triton_kernels(cpu, torch.bfloat16, turns, shape) is None


def test_kernels_can_be_left_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, may in (("plain", False), ("auto", True)):
        monkeypatch.setenv(kernels.VARIABLE, kind)
        assert kernels.allowed() is may
    monkeypatch.setenv(kernels.VARIABLE, "fast")
    with pytest.raises(ConfigError, match="set it to plain or auto"):
        kernels.allowed()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_near_is_a_few_roundings(dtype: torch.dtype) -> None:
    exact = torch.linspace(-4, 4, 1000)
    assert selfcheck.near(exact.to(dtype), exact)
    assert not selfcheck.near((exact * (1 + 24 * torch.finfo(dtype).eps) + 1e-3).to(dtype), exact)
