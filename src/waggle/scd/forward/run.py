"""One pass of the backbone over a ragged batch: token losses and final local-view states.

Logits are computed only where a token of an answer is predicted, so that a large vocabulary costs
little. Invariant: losses cover the tokens of answers only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from waggle.scd.forward.ragged import Ragged
from waggle.scd.losses import token_nll


class PassOutput(NamedTuple):
    """The output of a pass."""

    hidden: Tensor
    """Final local-view state of each sequence, (sequences, width)."""
    nll: Tensor
    """Loss of every predicted token; `Ragged.record` gives its sequence."""


def run(model: Any, ragged: Ragged) -> PassOutput:
    """Run a ragged batch through a model whose attention is installed (see `attention`)."""
    states = final_states(model, ragged)
    logits = output_of(model)(states.index_select(0, ragged.where))
    return PassOutput(states.index_select(0, ragged.last), token_nll(logits, ragged.targets))


def final_states(model: Any, ragged: Ragged) -> Tensor:
    """Return the final states of all tokens, (tokens, width)."""
    found: Tensor = decoder_of(model)(
        input_ids=ragged.tokens, position_ids=ragged.positions, use_cache=False, ragged=ragged
    ).last_hidden_state[0]
    return found


def decoder_of(model: Any) -> Any:
    """Return the backbone without its output matrix, adapters included."""
    return _causal(model).base_model


def output_of(model: Any) -> Any:
    """Return the output matrix."""
    return _causal(model).get_output_embeddings()


def _causal(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model
