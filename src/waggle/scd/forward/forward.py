"""One pass of the backbone over some sequences: token losses and final local-view states.

`ForwardPass` runs a packed layout and computes logits only where an assistant token is predicted,
so that a large vocabulary costs little. Invariant: losses cover assistant tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from waggle.scd.forward.flat import Flat
from waggle.scd.forward.packing import Layout, lay_out
from waggle.scd.losses import token_nll


class Encoded(NamedTuple):
    """A prompt and the assistant record that answers it, in tokens; the record may be empty."""

    prompt: Sequence[int]
    answer: Sequence[int] = ()

    @property
    def fed(self) -> list[int]:
        """Return what the model reads: everything but the last token of the answer."""
        return [*self.prompt, *self.answer[:-1]]

    def __len__(self) -> int:
        return len(self.prompt) + max(0, len(self.answer) - 1)


class Passed(NamedTuple):
    """What a pass gives."""

    hidden: Tensor
    """Final local-view hidden state of each sequence, (sequences, width)."""
    nll: Tensor
    """Loss of every assistant token."""
    record: Tensor
    """Which sequence each of them belongs to."""
    run: int
    """Tokens that went through the backbone."""
    slots: int
    """Slots of the attention grid."""
    padding: int
    """Slots that hold no token."""


def decoder_of(model: Any) -> Any:
    """Return the backbone without its output matrix, adapters included."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    return causal.base_model


def output_of(model: Any) -> Any:
    """Return the output matrix."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    return causal.get_output_embeddings()


def flat_states(model: Any, flat: Flat) -> Tensor:
    """Return the final states of a flat pass, (tokens, width)."""
    found: Tensor = decoder_of(model)(
        input_ids=flat.tokens, position_ids=flat.positions, use_cache=False, packed=flat
    ).last_hidden_state[0]
    return found


def flat_nll(model: Any, flat: Flat, states: Tensor) -> Tensor:
    """Return the loss of every assistant token of a flat pass."""
    return token_nll(output_of(model)(states.index_select(0, flat.where)), flat.targets)


def run(model: Any, sequences: Sequence[Encoded], device: Any, *, share: bool = True) -> Passed:
    """Run some sequences together."""
    layout = lay_out([s.fed for s in sequences], [len(s.prompt) for s in sequences], device,
                     share=share)  # fmt: skip
    states = decoder_of(model)(
        input_ids=layout.tokens, position_ids=layout.positions, use_cache=False, packed=layout
    ).last_hidden_state[0]
    last, where, record, targets = _places(layout, sequences)
    hidden = states.index_select(0, _index(last, device))
    slots = layout.longest * layout.rows
    cost = (layout.tokens.shape[1], slots, slots - sum(layout.lengths))
    if not where:
        nothing = states.new_zeros(0, dtype=torch.float32)
        return Passed(hidden, nothing, _index([], device), *cost)
    logits = output_of(model)(states.index_select(0, _index(where, device)))
    nll = token_nll(logits, _index(targets, device))
    return Passed(hidden, nll, _index(record, device), *cost)


def _places(
    layout: Layout, sequences: Sequence[Encoded]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return rows of the view states, of predicting states, their records and their targets."""
    last: list[int] = []
    where: list[int] = []
    record: list[int] = []
    targets: list[int] = []
    for number, (start, sequence) in enumerate(zip(layout.starts(), sequences, strict=True)):
        end = start + len(sequence.prompt) - layout.prefix - 1
        last.append(end)
        where += range(end, end + len(sequence.answer))
        record += [number] * len(sequence.answer)
        targets += sequence.answer
    return last, where, record, targets


def _index(values: Sequence[int], device: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.long, device=device)
