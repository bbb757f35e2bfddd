"""Rotations of queries and keys as complex products, in place: for CPUs, in float32.

The two numbers that turn together lie half a head apart. Here the weights that make queries and
keys are reordered once, so that they lie side by side and are one complex number each. Invariant:
queries and keys are in the same order, so that their products are what they were.
"""

from __future__ import annotations

import torch
from torch import Tensor


def suits(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether rotations are computed this way: complex numbers are made of float32."""
    return device.type == "cpu" and dtype == torch.float32


def paired(weight: Tensor, width: int) -> Tensor:
    """Reorder what makes heads of a width, along its first dimension."""
    halves = weight.view(-1, 2, width // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)


def table(cos: Tensor, signed_sin: Tensor) -> Tensor:
    """Return the turns of each position from the tables of `pointwise.rotate`, [L, 1, D / 2]."""
    half = cos.shape[-1] // 2
    return torch.complex(cos[..., half:], signed_sin[..., half:])


def rotate(fused: Tensor, turns: Tensor, heads: int, kv: int) -> tuple[Tensor, Tensor]:
    """Rotate the queries and keys of [N, heads + 2 kv, D] where they are.

    Returns queries, and keys with values, as `pointwise.rotate` does.
    """
    turning = fused[:, : heads + kv]
    torch.view_as_complex(turning.view(*turning.shape[:2], -1, 2)).mul_(turns)
    return fused[:, :heads], fused[:, heads:]
