"""Packed sequences with one shared prefix: no padding in any matrix product of the backbone.

All prompts begin with the same instruction, so a pass is laid out as one row

    [ shared prefix | tail of sequence 1 | tail of sequence 2 | ... ]

and the prefix is computed once, with gradients. Only inside attention are tails put on a padded
grid, where each sees the prefix and itself. Any transformers model whose attention goes through
the attention interface works. Invariant: every sequence gets the states it would get alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.scd.forward.flat import Flat

NAME = "waggle_packed"
GRID = (4, 64)
"""On CUDA the attention grid is rounded up to such (rows, columns): shapes then repeat, and with
them the attention plans that cuDNN would otherwise build anew for every pass."""
MIN_PREFIX = 8
"""A shorter common prefix is not worth a separate part."""


@dataclass
class Layout:
    """Where the tokens of a pass stand."""

    prefix: int
    lengths: Sequence[int]
    """Tail lengths."""
    tokens: Tensor
    """(1, prefix + sum of tails)."""
    positions: Tensor
    """Position of every token in its own sequence, same shape."""
    place: Tensor
    """Slot of every tail token in the padded grid (sequences x longest tail)."""
    longest: int
    """Columns of the padded grid: the longest tail, rounded up."""
    rows: int
    """Rows of the padded grid: the number of sequences, rounded up."""
    masks: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def starts(self) -> list[int]:
        """Return where each tail starts in the row."""
        starts, at = [], self.prefix
        for length in self.lengths:
            starts.append(at)
            at += length
        return starts

    def mask(self, groups: int, window: int | None) -> Tensor:
        """Return who sees whom: (groups x longest, prefix + longest), True where seen."""
        key = (groups, window or 0)
        if key not in self.masks:
            device, longest = self.tokens.device, self.longest
            query = torch.arange(self.prefix, self.prefix + longest, device=device)[:, None]
            keys = torch.arange(self.prefix + longest, device=device)[None]
            seen = keys <= query
            if window is not None:
                seen &= keys > query - window
            self.masks[key] = seen.repeat(groups, 1)
        return self.masks[key]


def common_prefix(sequences: Sequence[Sequence[int]], limit: int) -> int:
    """Return how many first tokens all sequences share, at most `limit`."""
    if len(sequences) < 2:
        return 0
    rows = [list(sequence) for sequence in sequences]
    low, high = min(rows), max(rows)
    shared = 0
    for one, other in zip(low, high, strict=False):
        if one != other or shared == limit:
            break
        shared += 1
    return shared if shared >= MIN_PREFIX else 0


def lay_out(
    sequences: Sequence[Sequence[int]], prompts: Sequence[int], device: Any, *, share: bool = True
) -> Layout:
    """Lay sequences out in one row.

    Args:
        sequences: token lists.
        prompts: length of each sequence's prompt; its last token always stays in the tail.
        device: where the tensors go.
        share: whether to compute a common prefix once.
    """
    prefix = common_prefix(sequences, min(prompts) - 1) if share else 0
    tails = [list(s[prefix:]) for s in sequences]
    rows, columns = GRID if torch.device(device).type == "cuda" else (1, 1)
    longest = -(-max(map(len, tails)) // columns) * columns
    tokens = list(sequences[0][:prefix])
    positions = list(range(prefix))
    place: list[int] = []
    for row, tail in enumerate(tails):
        tokens += tail
        positions += range(prefix, prefix + len(tail))
        place += range(row * longest, row * longest + len(tail))
    return Layout(
        prefix,
        [len(tail) for tail in tails],
        torch.tensor([tokens], device=device),
        torch.tensor([positions], device=device),
        torch.tensor(place, device=device),
        longest,
        -(-len(tails) // rows) * rows,
    )


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: Layout,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend within each sequence and to the shared prefix; (1, heads, tokens, width) states."""
    p = packed.prefix
    tails = _tails(packed, query, key, value, scaling, sliding_window)
    if p == 0:
        return tails[None], None
    mask = None
    if sliding_window is not None and sliding_window < p:
        at = torch.arange(p, device=query.device)
        mask = (at[None] <= at[:, None]) & (at[None] > at[:, None] - sliding_window)
    repeat = query.shape[1] // key.shape[1]
    head = F.scaled_dot_product_attention(
        query[:, :, :p],
        key[:, :, :p].repeat_interleave(repeat, 1),
        value[:, :, :p].repeat_interleave(repeat, 1),
        attn_mask=mask,
        is_causal=mask is None,
        scale=scaling,
    )
    return torch.cat([head[0].transpose(0, 1), tails])[None], None


def _tails(
    packed: Layout, query: Tensor, key: Tensor, value: Tensor, scaling: float | None,
    window: int | None,
) -> Tensor:  # fmt: skip
    """Attend from the tails on a padded grid; grouped queries are folded into the rows."""
    p, rows, longest = packed.prefix, packed.rows, packed.longest
    heads, shared, width = query.shape[1], key.shape[1], query.shape[3]
    groups = heads // shared

    def grid(states: Tensor) -> Tensor:
        flat = states[0, :, p:].transpose(0, 1)
        spread = flat.new_zeros(rows * longest, *flat.shape[1:]).index_copy(0, packed.place, flat)
        return spread.view(rows, longest, -1, width).transpose(1, 2)

    def behind(states: Tensor) -> Tensor:
        if p == 0:
            return grid(states)
        return torch.cat([states[:, :, :p].expand(rows, -1, -1, -1), grid(states)], 2)

    folded = grid(query).reshape(rows, shared, groups * longest, width)
    found = F.scaled_dot_product_attention(
        folded, behind(key), behind(value), attn_mask=packed.mask(groups, window), scale=scaling
    )
    spread = found.reshape(rows, heads, longest, width).transpose(1, 2)
    return spread.reshape(rows * longest, heads, width).index_select(0, packed.place)


# Outside of compiled graphs: a layout changes with every pass.
_disable: Any = torch.compiler.disable
_uncompiled = _disable(packed_attention)


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    packed: Layout | Flat | None = None, scaling: float | None = None, dropout: float = 0.0,
    sliding_window: int | None = None, softcap: float | None = None, **options: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attend in a packed or a flat pass; a flat one stays inside a compiled layer."""
    flat = isinstance(packed, Flat)
    if packed is None or softcap is not None or dropout or (flat and sliding_window is not None):
        raise ConfigError(
            f"packed training does not fit {type(module).__name__} (soft cap, attention dropout, "
            "or a sliding window in flat passes); choose another backbone, or flat = false"
        )
    if isinstance(packed, Flat):
        return packed.attend(query, key, value, scaling)[None], None
    found: tuple[Tensor, None] = _uncompiled(
        module, query, key, value, attention_mask, packed=packed, scaling=scaling,
        sliding_window=sliding_window,
    )  # fmt: skip
    return found


def install(model: Any) -> None:
    """Make a transformers model use packed attention."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
    model.set_attn_implementation(NAME)


def uninstall(model: Any) -> None:
    """Give a model its ordinary attention back."""
    model.set_attn_implementation("sdpa")
