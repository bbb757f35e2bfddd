"""Fused kernels and their stand-in: queries turned, keys kept, one copy of a prefix for all."""

import itertools
import os
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engine.helpers import prompts, reference, row_engine
from waggle.core.errors import ConfigError
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda import choice, flash, fused
from waggle.engine.cuda import selfcheck as fused_trial
from waggle.engine.model import mixing
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.model.mixing import Spans, Spin


class Plainly:
    """The fused kernels in torch, prefixes read where the rows say."""

    def __init__(self) -> None:
        self.steps = self.placed = self.spans = 0

    def place(
        self, fused: Tensor, spin: Spin, angles: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        q, kv = mixing.plain(fused, spin, angles)
        cache.index_copy_(0, flat, kv)
        self.placed += 1
        return q

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rows: Spans, scale: float) -> Tensor:
        self.spans += 1
        out = torch.zeros_like(q)
        starts = rows.starts.tolist()
        for row, (first, last) in enumerate(itertools.pairwise(starts)):
            base, used, lead, length = (int(part[row]) for part in rows[1:])
            if first == last or not 0 < last - first <= used:
                continue
            length = min(length, used - (last - first))
            held = [torch.cat((x[lead : lead + length], x[base + length : base + used]))
                    for x in (k, v)]  # fmt: skip
            one = torch.tensor([0, last - first]), torch.tensor([0, 0]), torch.tensor([used])
            out[first:last] = flash.reference(q[first:last], *held, *one, (last, used), scale)
        return out

    def step(
        self, fused: Tensor, spin: Spin, angles: Tensor, rows: Spans, cache: Tensor, scale: float
    ) -> Tensor:
        q = self.place(fused, spin, angles, rows.bases[:-1] + angles, cache)
        self.steps += 1
        starts = torch.arange(len(angles) + 1)
        return self.attend(q, *cache.chunk(2, dim=1), rows._replace(starts=starts), scale)


def spin(heads: int, kv: int, width: int, dtype: torch.dtype, normed: bool) -> Spin:
    """Turns by position, and norms that are not all alike."""
    angles = torch.arange(256)[:, None] * (10_000.0 ** (-torch.arange(0, width, 2) / width))
    both = torch.cat((angles, angles), -1)
    sin = both.sin()
    sin[:, : width // 2].neg_()
    norms = [torch.linspace(a, 2 - a, width).to(dtype) if normed else None for a in (0.5, 1.5)]
    tables = (table.to(dtype).unsqueeze(1) for table in (both.cos(), sin))
    return Spin(*tables, *norms, 1e-6, heads, kv)


@pytest.mark.parametrize("normed", [True, False])
def test_what_agrees_is_found_out(normed: bool) -> None:
    given = (spin(6, 2, 16, torch.float32, normed), torch.device("cpu"), torch.float32)
    assert fused_trial.agrees(Plainly(), *given)

    class Late(Plainly):
        def step(self, *given: Any) -> Tensor:
            fused, turns, angles, rows, cache, scale = given
            moved = rows._replace(lengths=rows.lengths + 100)
            return super().step(fused, turns, angles, moved, cache, scale)

        def attend(self, *given: Any) -> Tensor:
            q, k, v, rows, scale = given
            return super().attend(q, k, v, rows._replace(lengths=rows.lengths + 30), scale)

    assert fused_trial.attends(Plainly(), *given)
    assert not fused_trial.agrees(Late(), *given), "another row's keys were read and nobody noticed"
    assert not fused_trial.attends(Late(), *given), "and here"


@pytest.mark.parametrize("rows", [1, 3, 24])
def test_fused_steps_are_greedy(tiny: Any, rows: int) -> None:
    engine = row_engine(tiny, rows, rolls=True, speculate=False)
    backend = engine.backend
    assert isinstance(backend, LeanBackend) and isinstance(backend.store, RowStore)
    backend.store.mixer = made = Plainly()
    batch = prompts(tiny[1], min(24, 4 + 2 * rows))
    want = [reference(*tiny, prompt) for prompt in batch]
    assert [done.tokens for done in engine.generate(batch)] == want
    assert made.steps and made.placed > made.steps
    assert "fused steps" in backend.describe()


@pytest.mark.parametrize("speculate", [True, False])
def test_fused_passes_are_greedy(tiny: Any, speculate: bool) -> None:
    engine = row_engine(tiny, 5, speculate=speculate)
    backend = engine.backend
    assert isinstance(backend, LeanBackend) and isinstance(backend.store, RowStore)
    backend.store.mixer = made = Plainly()
    batch = prompts(tiny[1], 12)
    want = [reference(*tiny, prompt) for prompt in batch]
    for _ in range(2):
        assert [done.tokens for done in engine.generate(batch)] == want
    assert made.spans > 0 or not speculate


def test_rows_of_one_prefix_read_one_copy(tiny: Any) -> None:
    engine = row_engine(tiny, 6, rolls=True, speculate=False)
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
    given = spin(6, 2, 16, torch.bfloat16, False)
    assert fused.kernels(torch.device("cpu"), torch.bfloat16, given, (64, 160)) is None


def test_plain_kernels_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for wish, may in (("plain", ()), ("torch", ("torch",)), ("auto", ("torch", "auto"))):
        monkeypatch.setenv(choice.VARIABLE, wish)
        assert tuple(kind for kind in ("torch", "auto") if choice.allowed(kind)) == may
    monkeypatch.setenv(choice.VARIABLE, "fast")
    with pytest.raises(ConfigError, match="set it to plain, torch, auto"):
        choice.allowed("torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_near_is_a_few_roundings(dtype: torch.dtype) -> None:
    exact = torch.linspace(-4, 4, 1000)
    assert choice.near(exact.to(dtype), exact)
    assert not choice.near((exact * (1 + 24 * torch.finfo(dtype).eps) + 1e-3).to(dtype), exact)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("sizes", [(9, 3, 64, False), (4, 2, 16, True), (4, 4, 32, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_kernels_compute_what_they_must(
    sizes: tuple[int, int, int, bool], dtype: torch.dtype
) -> None:
    # Not in bfloat16: the interpreter multiplies matrices of it by their bits (kernels without a
    # product agree in it), so a GPU's own check at load decides there.
    if find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("needs triton and its interpreter (TRITON_INTERPRET=1)")
    heads, kv, width, normed = sizes
    given = spin(heads, kv, width, dtype, normed)
    assert fused_trial.agrees(fused.Kernels(), given, torch.device("cpu"), dtype)
    assert fused_trial.smooth(fused.Kernels(), torch.device("cpu"), dtype)
    assert fused_trial.attends(fused.Kernels(), given, torch.device("cpu"), dtype)
