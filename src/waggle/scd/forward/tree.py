"""Beginnings that only some sequences of a pass share are computed once too.

Orbit pairs share their contract, records of one task its text. A sequence lies in the row only from
where it differs from another one (see `chains`); its queries are the last of its keys, whose first
ones are rows of others.
Invariant: every sequence gets the states it would get alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


@dataclass
class Tree:
    """How the keys of sequences are put together from the rows of several."""

    keys: Tensor
    """As in `chains.Keys`, all of them."""
    own: Tensor
    shared: Tensor
    copies: Tensor
    ends: Tensor
    bounds: Tensor
    """int32, as attention wants it."""

    def spread(self, states: Tensor) -> Tensor:
        """Return the keys (or values) of all sequences, one after another."""
        found: Tensor = _branch(states, self.keys, self.own, self.shared, self.copies, self.ends)
        return found


@torch.library.custom_op("waggle::branch", mutates_args=())
def _branch(
    states: Tensor, keys: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor
) -> Tensor:
    """Select rows; the gradient of a row is a sum over its copies in a fixed order, in float32."""
    return states.index_select(0, keys)


@_branch.register_fake
def _(
    states: Tensor, keys: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor
) -> Tensor:
    return states.new_empty(keys.shape[0], *states.shape[1:])


@torch.library.custom_op("waggle::branch_back", mutates_args=())
def _branch_back(
    gradient: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor
) -> Tensor:
    rows = gradient.index_select(0, own)
    if not copies.numel():
        return rows
    each = gradient.index_select(0, copies).flatten(1).float()
    sums = _sums(each, ends) if _adds(gradient.device.type) else _added(each, ends)
    more = sums.view(-1, *rows.shape[1:]) + rows.index_select(0, shared)
    return rows.index_copy_(0, shared, more.to(rows.dtype))


def _sums(each: Tensor, ends: Tensor) -> Tensor:
    """Sum stretches of rows, each in its order."""
    found: Tensor = torch.segment_reduce(each, "sum", offsets=ends, axis=0, unsafe=True)
    return found


def _added(each: Tensor, ends: Tensor) -> Tensor:
    """Sum stretches of rows in any order."""
    stretch = torch.repeat_interleave(ends.diff(), output_size=each.shape[0])
    return each.new_zeros(len(ends) - 1, each.shape[1]).index_add_(0, stretch, each)


@lru_cache(maxsize=4)
def _adds(kind: str) -> bool:
    """Whether sums in order work on a kind of device; they are young there."""
    each = torch.arange(12.0, device=kind).view(6, 2)
    ends = torch.tensor([0, 2, 3, 6], device=kind)
    try:
        return torch.equal(_sums(each, ends), _added(each, ends))
    except (RuntimeError, NotImplementedError, TypeError):
        return False


@_branch_back.register_fake
def _(gradient: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor) -> Tensor:
    return gradient.new_empty(own.shape[0], *gradient.shape[1:])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[2:])


def _gather(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return (_branch_back(gradient, *ctx.saved_tensors), None, None, None, None, None)


_branch.register_autograd(_gather, setup_context=_remember)
