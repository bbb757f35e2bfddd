"""The path to flash attention, with a plain function in its place: same states, no graph break."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.scd.runs import changed
from waggle.core.errors import ConfigError
from waggle.scd.config import Recipe
from waggle.scd.forward import prefix_tree, varlen
from waggle.scd.forward.ragged import Ragged, lay_out
from waggle.scd.forward.run import decoder_of, run
from waggle.scd.model import Student


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
        own, seen, values = (
            x.transpose(0, 1) for x in (q[start:end], k[first:last], v[first:last])
        )
        one = F.scaled_dot_product_attention(
            own, seen.repeat_interleave(groups, 0), values.repeat_interleave(groups, 0),
            attn_mask=mask.tril(last - first - (end - start)),
        )  # fmt: skip
        found.append(one.transpose(0, 1))
    return torch.cat(found)


def batch_of(seed: int, *, tree: bool = False) -> Ragged:
    """Return five sequences with a common beginning of nine tokens; two share some more."""
    drawn = np.random.Generator(np.random.PCG64(seed))
    lengths = drawn.integers(24, 50, 5)
    first = drawn.integers(3, 2000, 9)
    rows = [np.concatenate((first, drawn.integers(3, 2000, n - 9))) for n in lengths]
    rows[3][9:14] = rows[1][9:14]
    prompts = lengths - drawn.integers(2, 10, 5)
    return lay_out(np.concatenate(rows), lengths, prompts, device="cpu", tree=tree)


def nll_of(student: Student, batch: Ragged) -> Tensor:
    return run(student.model, batch).nll


@pytest.fixture
def student(recipe: Recipe) -> Student:
    made = Student(changed(recipe, adaptation={"kind": "dense"}), 0)
    made.model.eval()
    return made


@pytest.mark.parametrize(
    ("shared", "grouped"), [("nothing", True), ("prefix", False), ("tree", True), ("tree", False)]
)
def test_flash_attention_agrees_with_one_sequence_after_another(
    student: Student, monkeypatch: pytest.MonkeyPatch, shared: str, grouped: bool
) -> None:
    monkeypatch.setattr(prefix_tree, "COMMON", (4 if shared == "prefix" else 10_000, 4))
    batch = batch_of(1, tree=shared == "tree")
    assert batch.read - batch.filled == {"nothing": 0, "prefix": 4 * 8, "tree": 4 * 9 + 5}[shared]
    weights = list(student.trainable().values())
    known = nll_of(student, batch)
    wanted = torch.autograd.grad(known.sum(), weights)
    monkeypatch.setattr(varlen, "usable", lambda _kind, _dtype: True)
    monkeypatch.setattr(varlen, "_function", plain)
    monkeypatch.setattr(varlen, "_GROUPED", grouped)
    found = nll_of(student, batch)
    torch.testing.assert_close(found, known, atol=1e-5, rtol=1e-4)
    for one, other in zip(torch.autograd.grad(found.sum(), weights), wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


@torch.library.custom_op("waggle_test::varlen", mutates_args=())
def opaque(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int, most: int
) -> Tensor:
    return plain(q, k, v, bounds, keys, longest, most)


@opaque.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int, most: int
) -> Tensor:
    return torch.empty_like(q)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.sizes = inputs[5:]


def _back(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    *states, bounds, keys = ctx.saved_tensors
    with torch.enable_grad():
        inputs = [each.detach().requires_grad_() for each in states]
        found = plain(*inputs, bounds, keys, *ctx.sizes)
    return (*torch.autograd.grad(found, inputs, gradient), None, None, None, None)


opaque.register_autograd(_back, setup_context=_remember)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_a_compiled_layer_is_one_graph_for_passes_of_any_shape(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nine shared tokens: no size of a pass is by chance one of the backbone's.
    monkeypatch.setattr(prefix_tree, "COMMON", (3, 3))
    wanted = [nll_of(student, batch_of(seed)).detach() for seed in (3, 4, 5)]
    monkeypatch.setattr(varlen, "usable", lambda _kind, _dtype: True)
    monkeypatch.setattr(varlen, "_function", lambda *states, **_: opaque(*states))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for layer in decoder_of(student.model).layers:
        layer.compile(dynamic=True, backend="eager")
    for seed, known in zip((3, 4, 5), wanted, strict=True):
        found = nll_of(student, batch_of(seed, tree=seed == 5))
        found.sum().backward()
        torch.testing.assert_close(found.detach(), known, atol=1e-5, rtol=1e-4)
        # The first layer reads frozen embeddings, the others what needs a gradient: two graphs.
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
    assert not torch._dynamo.utils.counters["graph_break"]
    assert all(p.grad is not None for p in student.trainable().values())


def test_one_sequence_after_another_costs_no_gradient_of_the_whole_row_each(
    student: Student,
) -> None:
    """A slice of the row for each sequence did: a pass of 300 took ten times as long."""
    seen, names = [nll_of(student, batch_of(6)).sum().grad_fn], set()
    while seen:
        node = seen.pop()
        if node is not None and node not in names:
            names.add(node)
            seen.extend(before for before, _ in node.next_functions)
    slices = [node for node in names if type(node).__name__ == "SliceBackward0"]
    assert len(slices) <= 4 * len(decoder_of(student.model).layers)


def test_flash_attention_is_for_half_precision_on_a_gpu() -> None:
    assert not varlen.usable("cpu", torch.bfloat16)
    assert not varlen.usable("cuda", torch.float32)


def test_a_sliding_window_is_passed_on_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    states, bounds = torch.zeros(6, 1, 8), torch.tensor([0, 6], dtype=torch.int32)
    monkeypatch.setattr(varlen, "_function", lambda *_, **options: asked.append(options) or states)
    monkeypatch.setattr(varlen, "_WINDOWED", True)
    for window in (None, 4):
        varlen.attend(states, states, states, bounds, bounds, 6, None, window)
    assert [options["window_size"] for options in asked] == [(-1, 0), (3, 0)]
    monkeypatch.setattr(varlen, "_WINDOWED", False)
    with pytest.raises(ConfigError, match="no sliding window"):
        varlen.attend(states, states, states, bounds, bounds, 6, None, 4)
