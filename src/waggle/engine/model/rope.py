"""Rotary position embedding (RoPE): tables by position, and the rotation of queries and keys.

The two values that rotate together lie half a head apart, as in transformers' Llama. The sign of
the rotation is folded into the sine table, so that rotating is one product and one roll.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from waggle.engine.model.linear import rms_norm


class Rotation(NamedTuple):
    """The transformation of queries and keys before attention: optional norms, then RoPE."""

    cos: Tensor
    sin: Tensor
    """By position or by token, [L, 1, D]; the first half of the sines is negated."""
    q_norm: Tensor | None
    k_norm: Tensor | None
    epsilon: float
    heads: int
    kv_heads: int

    def at(self, positions: Tensor) -> Rotation:
        """Return the rotation of tokens at these positions."""
        return self._replace(cos=self.cos[positions], sin=self.sin[positions])

    def apply(self, qkv: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate [N, heads + 2 kv_heads, D]; return the queries, and the keys with the values."""
        heads, kv_heads = self.heads, self.kv_heads
        if self.q_norm is not None and self.k_norm is not None:
            q, k, v = torch.split(qkv, [heads, kv_heads, kv_heads], dim=1)
            q = rms_norm(q, self.q_norm, self.epsilon)
            k = rms_norm(k, self.k_norm, self.epsilon)
            qkv = torch.cat((q, k, v), dim=1)
        both = qkv[:, : heads + kv_heads]
        rotated = (both * self.cos).addcmul_(both.roll(both.shape[-1] // 2, -1), self.sin)
        values = qkv[:, heads + kv_heads :]
        return rotated[:, :heads], torch.cat((rotated[:, heads:], values), dim=1)


Rotary = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A callable: the cosines and sines of [1, L] positions, [1, L, D] each, in a tensor's dtype."""


def rotary(model: Any) -> Rotary:
    """Return the function that computes a model's rotary embedding.

    A transformers model has a module for it, which also handles scaled positions; a model without
    one has plain positions, which are computed in the same way.
    """
    module: Rotary | None = getattr(model.model, "rotary_emb", None)
    return partial(_unscaled, model.config) if module is None else module


def _unscaled(config: Any, like: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    width = config.head_dim or config.hidden_size // config.num_attention_heads
    steps = torch.arange(0, width, 2, dtype=torch.int64).to(dtype=torch.float)
    speeds = (1.0 / (config.rope_theta ** (steps / width))).to(like.device)
    speeds = speeds[None, :, None].expand(positions.shape[0], -1, 1)
    angles = (speeds @ positions[:, None, :].float()).transpose(1, 2)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().to(like.dtype), both.sin().to(like.dtype)


def tables(compute: Rotary, length: int, embedding: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and signed sines of `length` positions, [L, 1, D], on a model's device."""
    positions = torch.arange(length, device=embedding.device).unsqueeze(0)
    cos, sin = compute(embedding[:1].unsqueeze(0), positions)
    sin = sin[0].clone()
    sin[:, : sin.shape[1] // 2].neg_()
    return cos[0].unsqueeze(1), sin.unsqueeze(1)
