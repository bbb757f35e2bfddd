"""The element-wise parts of a decoder block, fused by the compiler where one is at hand.

On CUDA each part is one generated kernel instead of several that read and write everything; the
products between them stay the library's. Compiled parts are tried against the plain ones when a
decoder is made, and left aside where they fail or differ. Invariant: same function, fewer passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.cuda.choice import allowed

Rotate = Callable[[Tensor, Tensor, Tensor, int, int], tuple[Tensor, Tensor]]
Gate = Callable[[Tensor], Tensor]


class Pointwise(NamedTuple):
    """The two fused parts."""

    rotate: Rotate
    gate: Gate
    compiled: bool = False


def rotate(
    fused: Tensor, cos: Tensor, signed_sin: Tensor, heads: int, kv: int
) -> tuple[Tensor, Tensor]:
    """Rotate the queries and keys of [N, heads + 2 kv, D]; return queries, and keys with values.

    Half-split pairs; the sign of the first half is folded into the sine table.
    """
    turning = fused[:, : heads + kv]
    half = turning.shape[-1] // 2
    turned = (turning * cos).addcmul_(turning.roll(half, -1), signed_sin)
    return turned[:, :heads], torch.cat((turned[:, heads:], fused[:, heads + kv :]), dim=1)


def gate(gate_up: Tensor) -> Tensor:
    """Return silu of the first half times the second."""
    first, second = gate_up.chunk(2, dim=-1)
    return F.silu(first).mul_(second)


PLAIN = Pointwise(rotate, gate)
WORTH_COMPILING = 50_000_000
"""Weights of a model below which compiling takes longer than it will save."""


def pointwise(device: torch.device, dtype: torch.dtype, weights: int) -> Pointwise:
    """Return the parts for a device, compiled on CUDA if it pays and the compiler works there."""
    if device.type != "cuda" or weights < WORTH_COMPILING or not allowed("auto"):
        return PLAIN
    try:
        fast = compiled()
        return fast if agrees(fast, device, dtype) else PLAIN
    except Exception:  # no compiler, no Triton, an unknown card: the plain parts work everywhere
        return PLAIN


def compiled() -> Pointwise:
    """Return the parts as compiled functions, for any number of tokens."""
    make: Any = torch.compile
    return Pointwise(make(rotate, dynamic=True), make(gate, dynamic=True), True)


def agrees(fast: Pointwise, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether compiled parts give what the plain ones give, on two sizes of batch."""
    with torch.inference_mode():
        for count in (5, 48):
            values = torch.arange(count * 4 * 16, device=device, dtype=torch.float32)
            fused = (values * 0.37).sin().to(dtype).view(count, 4, 16)
            cos, sin = fused[:, :1].cos(), fused[:, :1].sin()
            for one, other in zip(fast.rotate(fused, cos, sin, 2, 1),
                                  rotate(fused, cos, sin, 2, 1), strict=True):  # fmt: skip
                if not torch.allclose(one.float(), other.float(), atol=0.03):
                    return False
            flat = fused.view(count, -1)
            if not torch.allclose(fast.gate(flat).float(), gate(flat).float(), atol=0.03):
                return False
    return True
