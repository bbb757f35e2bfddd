"""Sequences end to end in one row, their common beginning computed once if it is long.

    [ sequence 1 | sequence 2 | ... | filler ]
    [ shared prefix | tail of sequence 1 | tail of sequence 2 | ... | filler ]

On CUDA attention runs on the sequences as they lie (variable-length flash attention); tails have
keys of their own in which the prefix stands before each of them. Beginnings that only some of the
sequences share can be computed once as well (see `tree`). Elsewhere attention runs on a padded
grid. Invariant: every sequence gets the states it would get alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.scd.forward import varlen
from waggle.scd.forward.tree import Tree


@dataclass
class Shared:
    """How the keys of tails are put behind the shared prefix."""

    keys: Tensor
    """Row that each key is read from."""
    own: Tensor
    """Where each row stands among the keys as itself."""
    copies: Tensor
    """Where the copies of the prefix stand, copy by copy."""
    bounds: Tensor
    """Where the keys of sequences start, and the end: int32."""
    prefix: int

    def spread(self, states: Tensor) -> Tensor:
        """Return the keys (or values) of all sequences, one after another."""
        found: Tensor = spread(states, self.keys, self.own, self.copies, self.prefix)
        return found


@dataclass
class Flat:
    """One pass over some sequences."""

    tokens: Tensor
    """(1, tokens)."""
    positions: Tensor
    bounds: Tensor
    """Where sequences (prefix and tails, if shared) start, and the end: int32."""
    longest: int
    """No sequence is longer."""
    where: Tensor
    """Places whose next token is predicted."""
    targets: Tensor
    weights: Tensor
    """Weight of each predicted token: a record's tokens add up to 1, or count 1 each; filler 0."""
    record: Tensor
    """Which sequence each predicted token belongs to; filler to none, the one after the last."""
    last: Tensor
    """Place of the final local-view state of each sequence."""
    read: int
    """Tokens of the sequences, the shared part in each of them."""
    filled: int
    """Tokens of the row that belong to a sequence."""
    shared: Shared | Tree | None = None

    @property
    def records(self) -> int:
        """How many sequences there are."""
        return len(self.last)

    @property
    def run(self) -> int:
        """Tokens that go through the backbone."""
        return int(self.tokens.shape[1])

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Attend within each sequence; (1, heads, tokens, width) to (tokens, heads, width)."""
        q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
        bounds = self.bounds
        if self.shared is not None:
            k, v, bounds = self.shared.spread(k), self.shared.spread(v), self.shared.bounds
        if varlen.fits(q.device.type, v.dtype):
            q, k = q.to(v.dtype), k.to(v.dtype)
            return varlen.attend(q, k, v, self.bounds, bounds, self.longest, scaling)
        return self._on_grid(q, k, v, bounds, scaling)

    def _on_grid(
        self, q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, scaling: float | None
    ) -> Tensor:  # fmt: skip
        """Attend on a grid of sequences and positions; slots without a query are computed too."""
        slots, longest = (len(bounds) - 1) * self.longest, self.longest
        asking = _sequence(self.bounds, q.shape[0]) * longest + self.positions[0]
        number = _sequence(bounds, k.shape[0])
        told = number * longest + torch.arange(k.shape[0], device=k.device) - bounds[number]
        groups = q.shape[1] // k.shape[1]

        def grid(states: Tensor, place: Tensor) -> Tensor:
            empty = states.new_zeros(slots, *states.shape[1:])
            lying = empty.index_copy(0, place, states).view(-1, longest, *states.shape[1:])
            return lying.transpose(1, 2)

        found = F.scaled_dot_product_attention(
            grid(q, asking), grid(k, told).repeat_interleave(groups, 1),
            grid(v, told).repeat_interleave(groups, 1), is_causal=True, scale=scaling,
        )  # fmt: skip
        return found.transpose(1, 2).reshape(slots, *q.shape[1:]).index_select(0, asking)


def _sequence(bounds: Tensor, count: int) -> Tensor:
    """Return the sequence of each of so many places."""
    return torch.bucketize(torch.arange(count, device=bounds.device), bounds[1:].long(), right=True)


@torch.library.custom_op("waggle::spread", mutates_args=())
def spread(states: Tensor, keys: Tensor, own: Tensor, copies: Tensor, prefix: int) -> Tensor:
    """Put the rows of the prefix before those of each tail.

    An operation of its own, because its gradient is a sum over copies in a fixed order; that of a
    plain selection adds atomically, many times to the same rows.
    """
    return states.index_select(0, keys)


@spread.register_fake
def _(states: Tensor, keys: Tensor, own: Tensor, copies: Tensor, prefix: int) -> Tensor:
    return states.new_empty(keys.shape[0], *states.shape[1:])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, _, own, copies, prefix = inputs
    ctx.save_for_backward(own, copies)
    ctx.prefix = prefix


def _gather(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    own, copies = ctx.saved_tensors
    rows, prefix = gradient.index_select(0, own), ctx.prefix
    each = gradient.index_select(0, copies).view(-1, prefix, *gradient.shape[1:])
    first = rows[:prefix] + each.sum(0, dtype=torch.float32).to(rows.dtype)
    return torch.cat([first, rows[prefix:]]), None, None, None, None


spread.register_autograd(_gather, setup_context=_remember)
