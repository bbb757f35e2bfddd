"""The way to flash attention, with a plain function in its place: same states, no graph break."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.scd.config import Recipe
from waggle.scd.data import flats
from waggle.scd.forward import varlen
from waggle.scd.forward.flat import Flat
from waggle.scd.forward.forward import decoder_of
from waggle.scd.model import Student
from waggle.scd.train.sprint import nll_of


def plain(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int, most: int, **_: Any
) -> Tensor:
    """What `varlen_attn` promises: causal, the last query sees the last key of its sequence."""
    found = []
    groups = q.shape[1] // k.shape[1]
    edges = zip(
        bounds.tolist(), bounds.tolist()[1:], keys.tolist(), keys.tolist()[1:], strict=False
    )
    for start, end, first, last in edges:
        assert end - start <= longest and last - first <= most
        mask = torch.ones(end - start, last - first, dtype=torch.bool)
        own, told, values = (
            x.transpose(0, 1) for x in (q[start:end], k[first:last], v[first:last])
        )
        seen = F.scaled_dot_product_attention(
            own, told.repeat_interleave(groups, 0), values.repeat_interleave(groups, 0),
            attn_mask=mask.tril(last - first - (end - start)),
        )  # fmt: skip
        found.append(seen.transpose(0, 1))
    return torch.cat(found)


def pass_of(seed: int, *, fixed: bool = False, tree: bool = False) -> Flat:
    """Five sequences with a common beginning of nine tokens; two share some more."""
    drawn = np.random.Generator(np.random.PCG64(seed))
    lengths = drawn.integers(24, 50, 5)
    first = drawn.integers(3, 2000, 9)
    rows = [np.concatenate((first, drawn.integers(3, 2000, n - 9))) for n in lengths]
    rows[3][9:14] = rows[1][9:14]
    prompts = lengths - drawn.integers(2, 10, 5)
    return flats.laid(np.concatenate(rows), lengths, prompts, device="cpu", fixed=fixed, tree=tree)


@pytest.fixture
def student(recipe: Recipe) -> Student:
    data = recipe.model_dump()
    data["adaptation"] |= {"kind": "dense"}
    made = Student(Recipe.model_validate(data), 0)
    made.model.eval()
    return made


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("shared", ["nothing", "prefix", "tree"])
def test_both_ways_of_attention_agree(
    student: Student, monkeypatch: pytest.MonkeyPatch, shared: str, grouped: bool
) -> None:
    monkeypatch.setattr(flats, "SHARED", (4 if shared == "prefix" else 10_000, 4))
    flat = pass_of(1, tree=shared == "tree")
    assert flat.read - flat.filled == {"nothing": 0, "prefix": 4 * 8, "tree": 4 * 9 + 5}[shared]
    weights = list(student.trainable().values())
    grid = nll_of(student.model, flat)
    wanted = torch.autograd.grad(grid.sum(), weights)
    monkeypatch.setattr(varlen, "fits", lambda _kind, _dtype: True)
    monkeypatch.setattr(varlen, "_function", plain)
    monkeypatch.setattr(varlen, "_GROUPED", grouped)
    lying = nll_of(student.model, flat)
    torch.testing.assert_close(lying, grid, atol=1e-5, rtol=1e-4)
    for one, other in zip(torch.autograd.grad(lying.sum(), weights), wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_filler_changes_no_loss(student: Student) -> None:
    plainly, filled = pass_of(0), pass_of(0, fixed=True)
    known = filled.weights > 0
    assert int(known.sum()) == len(plainly.where) < len(filled.where)
    assert bool((filled.record[~known] == filled.records).all())
    with torch.no_grad():
        one, other = (nll_of(student.model, f) for f in (plainly, filled))
    torch.testing.assert_close(one, other[known])


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("tree", [False, True])
def test_a_compiled_layer_is_one_graph_for_passes_of_any_shape(
    student: Student, monkeypatch: pytest.MonkeyPatch, tree: bool
) -> None:
    monkeypatch.setattr(flats, "SHARED", (4, 4))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for layer in decoder_of(student.model).layers:
        layer.compile(dynamic=True, backend="eager")
    found = []
    for seed in range(3, 7):
        nll_of(student.model, pass_of(seed, tree=tree)).sum().backward()
        found.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert not torch._dynamo.utils.counters["graph_break"]
    # The first layer reads frozen embeddings, the others what needs a gradient: two graphs.
    assert found == [2, 2, 2, 2]


@torch.library.custom_op("waggle_test::lying", mutates_args=())
def opaque(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int, most: int
) -> Tensor:
    return plain(q, k, v, bounds, keys, longest, most)


@opaque.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int, most: int
) -> Tensor:
    return torch.empty_like(q)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_kernel_of_its_own_stays_inside_the_graph(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flats, "SHARED", (4, 4))
    grid = [nll_of(student.model, pass_of(seed)).detach() for seed in (3, 4, 5)]
    monkeypatch.setattr(varlen, "fits", lambda _kind, _dtype: True)
    monkeypatch.setattr(varlen, "_function", lambda *states, **_: opaque(*states))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for layer in decoder_of(student.model).layers:
        layer.compile(dynamic=True, backend="eager")
    with torch.no_grad():
        found = [nll_of(student.model, pass_of(seed)) for seed in (3, 4, 5)]
    assert not torch._dynamo.utils.counters["graph_break"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    for one, other in zip(found, grid, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("size", "bits", "wanted"),
    [(1, 4, 1), (17, 4, 17), (33, 4, 34), (24_000, 4, 24_576), (900, 0, 1024), (0, 3, 1)],
)
def test_friendly_sizes_are_few_and_never_smaller(size: int, bits: int, wanted: int) -> None:
    assert flats.friendly(size, bits) == wanted


def test_flash_attention_is_for_half_precision_on_a_gpu() -> None:
    assert not varlen.fits("cpu", torch.bfloat16)
    assert not varlen.fits("cuda", torch.float32)
