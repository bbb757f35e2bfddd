"""The self-check of the kernels: a few rows compared with float32 in plain torch."""

from __future__ import annotations

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.cuda.greedy_loop import Propose, propose
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_rows import RowKernels, Spans
from waggle.engine.model.linear import Operations, TorchOperations
from waggle.engine.model.rope import Rotation

IDLE = 600
"""The number of rows without tokens that test a launch of many programs."""


class FusedKernels(RowKernels, Operations, Protocol):
    """All operations of our kernels."""

    def propose(
        self, texts: Tensor, slots: Tensor, places: Tensor, history: Tensor, count: int
    ) -> Tensor:
        """Compute the same as `greedy_loop.propose`."""
        ...


def passed(
    kernels: FusedKernels,
    rotation: Rotation,
    device: torch.device,
    dtype: torch.dtype,
    shape: Shape,
) -> bool:
    """Return whether all kernels agree with float32, on the dimensions of a model."""
    return (
        steps_agree(kernels, rotation, device, dtype)
        and attention_agrees(kernels, rotation, device, dtype)
        and operations_agree(kernels, device, dtype, shape.hidden, shape.inner)
        and proposals_agree(kernels.propose, device)
    )


def steps_agree(
    kernels: RowKernels, rotation: Rotation, device: torch.device, dtype: torch.dtype
) -> bool:
    """Return whether steps agree with float32: several rows, one shared prefix, gaps."""
    width, lanes = rotation.cos.shape[-1], rotation.heads + 2 * rotation.kv_heads
    qkv = wave((3, lanes, width), 0.731, device, dtype)
    cache = wave((3 * 160, 2 * rotation.kv_heads, width), 0.317, device, dtype)
    cache[160:200] = cache[:40]  # the first two rows begin with the same keys
    places = torch.tensor([150, 130, 0], device=device)
    bases = torch.tensor([0, 160, 320], device=device)
    exact = _float32(rotation)
    wanted, kept = step_reference(qkv.float(), exact, places, bases, cache.float())
    more = torch.arange(4, device=device), F.pad(bases, (0, 1)), places + 1
    rows = Spans(*more, torch.zeros_like(bases), torch.tensor([40, 40, 0], device=device))
    held = cache.clone()
    found = kernels.step(qkv, rotation, places, rows, held, width**-0.5)
    rotated, _ = exact.at(places).apply(qkv.float())
    apart = cache.clone()
    asked = kernels.place(qkv, rotation, places, bases + places, apart)
    pairs = ((found, wanted), (held, kept), (asked, rotated), (apart, kept))
    return all(near(a, b) for a, b in pairs)


def attention_agrees(
    kernels: RowKernels, rotation: Rotation, device: torch.device, dtype: torch.dtype
) -> bool:
    """Return whether attention agrees with float32: long, short and empty rows, out of order.

    They are run alone, and followed by enough empty rows that the kernel uses other settings.
    """

    def integers(*values: int) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    width, scale = rotation.cos.shape[-1], rotation.cos.shape[-1] ** -0.5
    q = wave((120, rotation.heads, width), 0.731, device, dtype)
    cache = wave((4 * 240, 2 * rotation.kv_heads, width), 0.317, device, dtype)
    cache[240:390] = cache[480:630]  # two rows begin with the same keys
    keys, values = cache.chunk(2, dim=1)
    starts = integers(0, 90, 90, 117, 119, 120)
    seen = starts, integers(480, 0, 240, 0, 720), integers(230, 0, 190, 2, 131)
    exact = varlen_reference(q.float(), keys.float(), values.float(), *seen, (120, 240), scale)
    others = *seen[1:], integers(480, 0, 480, 0, 720), integers(150, 0, 150, 0, 70)
    for more in (0, IDLE):
        rows = Spans(
            torch.cat((starts, starts[-1:].expand(more))),
            *(torch.cat((part, part.new_zeros(more))) for part in others),
        )
        if not near(kernels.attend(q, keys, values, rows, scale), exact):
            return False
    return True


def operations_agree(
    operations: Operations, device: torch.device, dtype: torch.dtype, hidden: int, inner: int
) -> bool:
    """Return whether norms and gates agree with float32."""
    x, weight = wave((5, hidden), 0.37, device, dtype), wave((hidden,), 0.11, device, dtype)
    wide = wave((3, 2 * inner), 0.7, device, dtype)
    exact = TorchOperations()
    return near(
        operations.norm(x, weight, 1e-5), exact.norm(x.float(), weight.float(), 1e-5)
    ) and near(operations.gate(wide), exact.gate(wide.float()))


def proposals_agree(found: Propose, device: torch.device) -> bool:
    """Return whether proposals are right, from a row's own looping text and from the history."""
    steps = torch.arange(3 * 300, device=device)
    texts = (steps * steps // 7 % 23).int().view(3, 300)
    history = (steps[:700] * 5 % 19 - 1).int()
    slots, places = (torch.tensor(rows, device=device) for rows in ([2, 0, 2, 1], [290, 30, 5, 0]))
    texts[0, 20:31] = texts[0, 9:20]
    wanted = propose(texts, slots, places, history, 7)
    return found(texts, slots, places, history, 7).tolist() == wanted.tolist()


def varlen_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts_q: Tensor,
    starts_k: Tensor,
    used: Tensor,
    longest: tuple[int, int],
    scale: float,
) -> Tensor:
    """Attend ragged rows one by one, on any device."""
    out = torch.zeros_like(q)
    firsts, keys, lengths = starts_q.tolist(), starts_k.tolist(), used.tolist()
    for row, length in enumerate(lengths):
        count = min(firsts[row + 1] - firsts[row], longest[0])
        if count <= 0:
            continue
        chosen = slice(firsts[row], firsts[row] + count)
        span = slice(keys[row], keys[row] + length)
        groups = q.shape[1] // k.shape[1]
        seen, values = (part[span].repeat_interleave(groups, dim=1).float() for part in (k, v))
        weights = torch.einsum("qhd,khd->hqk", q[chosen].float(), seen) * scale
        ahead = torch.ones_like(weights[0], dtype=torch.bool).triu(length - count + 1)
        weights = weights.masked_fill(ahead, float("-inf")).softmax(-1)
        out[chosen] = torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)
    return out


def step_reference(
    qkv: Tensor, rotation: Rotation, places: Tensor, bases: Tensor, cache: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the attention output of one new token per row, and the updated cache."""
    q, kv = rotation.at(places).apply(qkv)
    cache.index_copy_(0, bases + places, kv)
    one = torch.arange(len(q) + 1)
    used, longest = places + 1, (1, int(places.max()) + 1)
    keys, values = cache.chunk(2, dim=1)
    return varlen_reference(q, keys, values, one, bases, used, longest, q.shape[-1] ** -0.5), cache


def _float32(rotation: Rotation) -> Rotation:
    """Return the same rotation and norms in float32."""
    norms = rotation.q_norm, rotation.k_norm
    q_norm, k_norm = (None if norm is None else norm.float() for norm in norms)
    wide = rotation._replace(cos=rotation.cos.float(), sin=rotation.sin.float())
    return wide._replace(q_norm=q_norm, k_norm=k_norm)


def near(found: Tensor, exact: Tensor) -> bool:
    """Return whether values equal those of float32, up to a few roundings of their own dtype."""
    slack = max(1e-5, 4 * torch.finfo(found.dtype).eps)
    return torch.allclose(found.float(), exact.float(), atol=slack, rtol=slack)


def wave(shape: tuple[int, ...], step: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return test values for kernels: all different, between -1 and 1, the same every time."""
    values = torch.arange(math.prod(shape), device=device, dtype=torch.float32)
    return (values * step).sin().to(dtype).view(shape)
