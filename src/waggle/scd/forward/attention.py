"""Attention over ragged batches, for any transformers model that uses the attention interface.

On CUDA in half precision, variable-length flash attention runs on the whole row, inside compiled
layers. Elsewhere attention runs on one sequence after another.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.scd.forward import varlen
from waggle.scd.forward.ragged import Ragged

NAME = "waggle_ragged"


def install(model: Any) -> None:
    """Make a transformers model attend over ragged batches."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
    model.set_attn_implementation(NAME)


def uninstall(model: Any) -> None:
    """Set a model's attention back to SDPA."""
    model.set_attn_implementation("sdpa")


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    ragged: Ragged | None = None, scaling: float | None = None, dropout: float = 0.0,
    sliding_window: int | None = None, softcap: float | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attend within each sequence; (1, heads, tokens, width) to (1, tokens, heads, width)."""
    if ragged is None or softcap is not None or dropout:
        raise ConfigError(
            f"training does not fit {type(module).__name__} (soft cap or attention dropout); "
            "choose another backbone"
        )
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    bounds = ragged.bounds
    if ragged.shared is not None:
        k, v, bounds = ragged.shared.spread(k), ragged.shared.spread(v), ragged.shared.bounds
    if varlen.usable(q.device.type, v.dtype):
        found = varlen.attend(
            q.to(v.dtype), k.to(v.dtype), v, ragged.bounds, bounds, ragged.longest, scaling,
            sliding_window,
        )  # fmt: skip
    else:
        found = _one_by_one(ragged, q, k, v, bounds, scaling, sliding_window)
    return found[None], None


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _one_by_one(
    ragged: Ragged, q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, scaling: float | None,
    window: int | None,
) -> Tensor:  # fmt: skip
    """Attend sequence by sequence; the queries of a sequence are its last tokens."""
    groups = q.shape[1] // k.shape[1]
    # One split of the row has one gradient; a slice for each sequence would have one of the whole
    # row each.
    queries_of = torch.split(q, ragged.bounds.diff().tolist())
    keys_of, values_of = (torch.split(states, bounds.diff().tolist()) for states in (k, v))
    found = []
    for own, its_keys, its_values in zip(queries_of, keys_of, values_of, strict=True):
        queries, count = len(own), len(its_keys)
        mask = None
        if queries < count or (window is not None and window < count):
            at = torch.arange(count, device=q.device)
            mask = at[None] <= at[count - queries :, None]
            if window is not None:
                mask &= at[None] > at[count - queries :, None] - window
        some = F.scaled_dot_product_attention(
            own.transpose(0, 1)[None], _repeated(its_keys, groups), _repeated(its_values, groups),
            attn_mask=mask, is_causal=mask is None, scale=scaling,
        )  # fmt: skip
        found.append(some[0].transpose(0, 1))
    return torch.cat(found)


def _repeated(states: Tensor, groups: int) -> Tensor:
    """Return keys or values of one sequence for every query head, (1, heads, tokens, width)."""
    return states.transpose(0, 1).repeat_interleave(groups, 0)[None]
