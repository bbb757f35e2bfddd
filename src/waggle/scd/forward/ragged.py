"""Ragged batches: sequences of any length end to end in one row, without padding.

    [ sequence 1 | sequence 2 | ... | filler ]

A prefix that several sequences share can be stored in the row once (see `prefix_tree`). On CUDA the
row is filled up to one of a few sizes, so that kernels and CUDA graphs get the same shapes again.
Invariant: every sequence gets the states it would get alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from waggle.scd.data.arrays import Index, spans
from waggle.scd.forward.prefix_tree import (
    SharedKeys,
    SharedPrefixes,
    bounds_of,
    common_prefix,
    join_keys,
    prefix_tree,
)

LONGEST = 2048
"""Minimum of `Ragged.longest` on CUDA; it reduces the number of shapes, at no cost."""
ROW_BITS, TREE_ROW_BITS = 4, 6
"""Significant bits of the size of a row on CUDA after the first, see `few_sizes`. With 4, up to
1/16 of the row is filler, and sizes recur often enough for CUDA graphs to be replayed. With `tree`
updates are not replayed and backbones are large, so time is tokens: 6 leave at most 1/64."""


@dataclass
class Ragged:
    """The sequences of one pass, on the device."""

    tokens: Tensor
    """(1, tokens)."""
    positions: Tensor
    """Position of each token in its sequence, (1, tokens)."""
    bounds: Tensor
    """Start of each sequence in the row, then the end of the row; int32."""
    longest: int
    """Upper bound on the lengths of the sequences."""
    where: Tensor
    """Row indices of the tokens whose next token is predicted."""
    targets: Tensor
    """The predicted token at each of these indices."""
    record: Tensor
    """Index of each predicted token's sequence; filler has the index after the last."""
    last: Tensor
    """Row index of each prompt's last token, which has the final local-view state."""
    read: int
    """Number of tokens of all sequences; shared tokens count in each sequence."""
    filled: int
    """Number of tokens in the row that belong to a sequence."""
    shared: SharedKeys | None = None

    @property
    def size(self) -> int:
        """Number of tokens that go through the backbone."""
        return int(self.tokens.shape[1])


def lay_out(
    ids: NDArray[Any], lengths: Index, prompts: Index, *, device: str, fixed: bool = False,
    tree: bool = False,
) -> Ragged:  # fmt: skip
    """Lay sequences out in one row; the last token of an answer is predicted and not read.

    Args:
        ids: prompts and answers, one after another.
        lengths: length of each prompt and answer together.
        prompts: length of each prompt.
        device: where tensors go.
        fixed: fill up the predicted tokens as well, so that few shapes occur.
        tree: share prefixes of some sequences, not only the prefix common to all.
    """
    starts, answers = np.cumsum(lengths) - lengths, lengths - prompts
    inputs = np.maximum(lengths - 1, prompts)
    # The last token of a prompt is never borrowed: its state is the final local-view state.
    if tree:
        borrowed: SharedPrefixes | None = prefix_tree(ids, starts, inputs, prompts - 1)
    else:
        borrowed = common_prefix(ids, starts, int(prompts.min()) - 1)
    skip = np.zeros_like(inputs) if borrowed is None else borrowed.skip

    # The row holds each sequence from token `skip` on.
    counts = inputs - skip
    tokens = ids[spans(starts + skip, counts)].astype(np.int64)

    # Token p of a sequence, if it is not borrowed, has row index `origins + p`.
    origins = np.cumsum(counts) - inputs
    last = origins + prompts - 1
    # The state of the prompt's last token predicts the first token of the answer, and so on.
    where = spans(last, answers)
    targets = ids[spans(starts + prompts, answers)].astype(np.int64)
    record = np.repeat(np.arange(len(inputs)), answers)

    # Filler of the row is one more sequence, from position 0 on; it has at least one token.
    longest, filler = int(inputs.max()), 0
    if device.startswith("cuda"):
        filler = few_sizes(len(tokens) + 1, TREE_ROW_BITS if tree else ROW_BITS) - len(tokens)
        longest = few_sizes(max(longest, filler, LONGEST), 0)
        counts, skip = np.append(counts, filler), np.append(skip, 0)
    # Filler of the predicted tokens reads row index 0 and belongs to the index after the last.
    extra = few_sizes(len(record), 1) - len(record) if fixed else 0
    return Ragged(
        tokens=to_device(_with_filler(tokens, filler), device)[None],
        positions=to_device(spans(skip, counts), device)[None],
        bounds=to_device(bounds_of(counts).astype(np.int32), device),
        longest=longest,
        where=to_device(_with_filler(where, extra), device),
        targets=to_device(_with_filler(targets, extra), device),
        record=to_device(_with_filler(record, extra, len(inputs)), device),
        last=to_device(last, device),
        read=int(inputs.sum()),
        filled=len(tokens),
        shared=None if borrowed is None else _shared_keys(borrowed, counts, device),
    )


def _shared_keys(borrowed: SharedPrefixes, counts: Index, device: str) -> SharedKeys:
    return SharedKeys(*(to_device(column, device) for column in join_keys(borrowed, counts)))


def few_sizes(size: int, bits: int) -> int:
    """Round a size up to at most `bits` significant bits after the first; few sizes then occur."""
    step = 1 << max(0, max(1, size).bit_length() - 1 - bits)
    return -(-max(1, size) // step) * step


def _with_filler(values: NDArray[Any], count: int, value: int = 0) -> NDArray[Any]:
    return np.concatenate((values, np.full(count, value, values.dtype))) if count else values


def to_device(values: NDArray[Any], device: str) -> Tensor:
    """Copy an array to the device without waiting for it."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if not device.startswith("cuda") or not tensor.numel():
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
