"""Attention in two parts: over a prefix shared by all rows, and over each row's own keys.

Queries of all rows are multiplied with the shared prefix keys in one product; each row's own keys
are attended separately, and the two results are merged by their log-sum-exps. The merge is exact:
it is the softmax over the concatenation, so float32 results agree to rounding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from waggle.engine.model.kv_cache import round_up

_ops: Any = torch.ops.aten
WIDTH = 16
"""Keys per processor vector; attention over a number that is not a multiple is a third slower."""
BAND = 80
"""The most positions of a row whose queries a CPU attends in one call."""
WIDE = 640
"""The same on other devices, where only the size of masks matters."""


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Attend [B,H,T,D] queries over [B,H,L,D] keys; return the output and its log-sum-exp."""
    if q.device.type == "cpu":
        out, lse = _ops._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=mask, scale=scale
        )
        return out, lse
    if mask is None and q.dtype != torch.float32:
        found = _ops._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    else:
        if mask is not None:
            mask = mask.expand(-1, q.shape[1], -1, -1)
        found = _ops._scaled_dot_product_efficient_attention(
            q, k, v, mask, True, 0.0, causal, scale=scale
        )
    return found[0], found[1][..., : q.shape[2]]


def attend_prefix(
    q: Tensor, prefix_k: Tensor, prefix_v: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Attend [N,Hq,D] queries over shared [Hkv,P,D] keys; return [N,Hq,D] and [N,Hq]."""
    n, heads, width = q.shape
    kv = prefix_k.shape[0]
    folded = q.view(n, kv, heads // kv, width).permute(1, 0, 2, 3).reshape(1, kv, -1, width)
    out, lse = attend(folded, prefix_k.unsqueeze(0), prefix_v.unsqueeze(0), scale)
    out = out.reshape(kv, n, heads // kv, width).permute(1, 0, 2, 3).reshape(n, heads, width)
    lse = lse.reshape(kv, n, heads // kv).permute(1, 0, 2).reshape(n, heads)
    return out, lse


def attend_row(
    q: Tensor, k: Tensor, v: Tensor, scale: float, first: int, into: tuple[Tensor, Tensor]
) -> None:
    """Attend [T,Hq,D] queries of one row, which start at position `first`, over its [Hkv,L,D] keys.

    Each query sees the keys up to its own position; `into`, a [T,Hq,D] output and its [T,Hq]
    log-sum-exp, is filled. Queries are processed in bands, short ones on a CPU, whose kernel also
    computes masked entries.
    """
    on_cpu = q.device.type == "cpu"
    groups, band = q.shape[1] // k.shape[0], BAND if on_cpu else WIDE
    if groups > 1 and not (on_cpu and _groups()):
        k, v = k.repeat_interleave(groups, dim=0), v.repeat_interleave(groups, dim=0)
    begin = 0
    while begin < len(q):
        end = min(len(q), round_up(first + begin + 1, band) - first)
        keys = round_up(first + end, WIDTH)
        mask = _causal_mask(first + begin, first + end, keys, q.dtype, q.device)
        some = q[begin:end].transpose(0, 1).unsqueeze(0)
        found = attend(some, k[None, :, :keys], v[None, :, :keys], scale, mask)
        for kept, part in zip(into, found, strict=True):
            kept[begin:end] = part[0].transpose(0, 1)
        begin = end


@lru_cache(maxsize=16)
def _causal_mask(
    first: int, last: int, keys: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the additive causal mask of positions `first` to `last` over `keys` keys."""
    hidden = torch.ones(last - first, keys, dtype=torch.bool, device=device).triu(first + 1)
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    return mask.masked_fill_(hidden, float("-inf"))[None, None]


@lru_cache(maxsize=1)
def _groups() -> bool:
    """Return whether the CPU's kernel lets several query heads share one key head."""
    wave = torch.arange(4 * 16 * 8, dtype=torch.float32).sin().view(1, 4, 16, 8)
    keys = wave[:, :2].cos()
    try:
        found = attend(wave, keys, keys, 1.0, causal=True)
    except RuntimeError:
        return False
    keys = keys.repeat_interleave(2, dim=1)
    wanted = attend(wave, keys, keys, 1.0, causal=True)
    return all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def attend_cached(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Attend [B,T,Hq,D] queries over cached [B,Hkv,L,D] keys; `mask` is [B,1,G*T,L], g-major."""
    rows, steps, heads, width = q.shape
    kv = k.shape[1]
    groups = heads // kv
    folded = q.view(rows, steps, kv, groups, width).permute(0, 2, 3, 1, 4)
    out, lse = attend(folded.reshape(rows, kv, groups * steps, width), k, v, scale, mask)
    out = out.reshape(rows, kv, groups, steps, width).permute(0, 3, 1, 2, 4)
    lse = lse.reshape(rows, kv, groups, steps).permute(0, 3, 1, 2)
    return out.reshape(rows, steps, heads, width), lse.reshape(rows, steps, heads)


def merge(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """Combine two partial attentions of the same queries over disjoint keys."""
    weight = torch.sigmoid(one[1] - other[1]).unsqueeze(-1).to(one[0].dtype)
    return torch.lerp(other[0], one[0], weight)


def visibility(positions: Tensor, length: int, groups: int, dtype: torch.dtype) -> Tensor:
    """Return the additive [B,1,G*T,L] mask under which a query sees keys up to its position."""
    keys = torch.arange(length, device=positions.device)
    hidden = keys[None, None, :] > positions[:, :, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=positions.device)
    mask.masked_fill_(hidden, float("-inf"))
    return mask.repeat(1, groups, 1).unsqueeze(1)
