"""Rotary position embedding (RoPE): tables by position, and what a block does to queries and keys.

The two values that rotate together lie half a head apart, as in transformers' Llama. The sign of
the rotation is folded into the sine table, so that rotating is one product and one roll.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Rotation(NamedTuple):
    """What a block does to its queries and keys before they meet: optional norms, then RoPE."""

    cos: Tensor
    sin: Tensor
    """Tables by position, [L, 1, D]; the first half of the sines is negated."""
    q_norm: Tensor | None
    k_norm: Tensor | None
    epsilon: float
    heads: int
    kv_heads: int

    def apply(self, fused: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return rotated queries, and rotated keys with values, of [N, heads + 2 kv_heads, D]."""
        heads, kv_heads = self.heads, self.kv_heads
        if self.q_norm is not None and self.k_norm is not None:
            q, k, v = torch.split(fused, [heads, kv_heads, kv_heads], dim=1)
            width = (q.shape[-1],)
            q = F.rms_norm(q, width, self.q_norm, self.epsilon)
            k = F.rms_norm(k, width, self.k_norm, self.epsilon)
            fused = torch.cat((q, k, v), dim=1)
        return rotate(fused, self.cos[positions], self.sin[positions], heads, kv_heads)


def rotate(
    fused: Tensor, cos: Tensor, sin: Tensor, heads: int, kv_heads: int
) -> tuple[Tensor, Tensor]:
    """Rotate [N, heads + 2 kv_heads, D] by the table rows of each token.

    Returns the queries, and the keys with the values.
    """
    turning = fused[:, : heads + kv_heads]
    half = turning.shape[-1] // 2
    turned = (turning * cos).addcmul_(turning.roll(half, -1), sin)
    return turned[:, :heads], torch.cat((turned[:, heads:], fused[:, heads + kv_heads :]), dim=1)


def tables(model: Any, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and signed sines of positions up to a length, in the dtype of a tensor.

    A transformers model computes its own, scaled positions included; a model that comes without
    the module has plain positions, which are computed in the same way.
    """
    positions = torch.arange(length, device=like.device).unsqueeze(0)
    module = getattr(model.model, "rotary_emb", None)
    if module is None:
        cos, sin = _default(model.config, positions)
    else:
        cos, sin = module(like[:1].unsqueeze(0), positions)
    sin = sin[0].to(like.dtype, copy=True)
    sin[:, : sin.shape[1] // 2].neg_()
    return cos[0].to(like.dtype).unsqueeze(1), sin.unsqueeze(1)


def _default(config: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of unscaled positions, [1, L, D], as transformers computes them."""
    width = config.head_dim or config.hidden_size // config.num_attention_heads
    steps = torch.arange(0, width, 2, dtype=torch.int64).to(dtype=torch.float)
    speeds = (1.0 / (config.rope_theta ** (steps / width))).to(positions.device)
    speeds = speeds[None, :, None].expand(positions.shape[0], -1, 1)
    angles = (speeds @ positions[:, None, :].float()).transpose(1, 2)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos(), both.sin()
