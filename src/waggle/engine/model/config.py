"""The architecture table: which models the lean decoder runs, and their dimensions.

A new architecture is one entry in `ARCHITECTURES`. Biases of projections are read from the weights;
the table lists only the differences of a block from Llama's. Configurations may come from
transformers or from a plain `config.json` (see `waggle.models.bare`), so optional fields may be
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


def _no_window(config: Any) -> None:
    """Return None: every token attends to all tokens before it."""


def _sliding_window(config: Any) -> int | None:
    """Return how many tokens a token attends to, or None if the configuration has no limit."""
    if not getattr(config, "use_sliding_window", True):
        return None
    window: int | None = getattr(config, "sliding_window", None)
    return window


class Architecture(NamedTuple):
    """How the blocks of a model type differ from Llama's."""

    qk_norm: bool = False
    """Whether queries and keys are normalised per head before rotation."""
    window: Callable[[Any], int | None] = _no_window
    """A function from a configuration to its sliding window, None for full attention."""


ARCHITECTURES = {
    "llama": Architecture(),
    "mistral": Architecture(window=_sliding_window),
    "qwen2": Architecture(window=_sliding_window),
    "qwen3": Architecture(qk_norm=True, window=_sliding_window),
}
"""The model types that the lean decoder runs."""


def refusal(config: Any) -> str:
    """Return why the lean decoder cannot run a configuration; empty if it can."""
    kind = getattr(config, "model_type", "")
    if kind not in ARCHITECTURES:
        return f"model type {kind!r} is not in the architecture table"
    if config.hidden_act != "silu" or getattr(config, "mlp_bias", False):
        return "the inner layer is not Llama's"
    window = ARCHITECTURES[kind].window(config)
    if window is not None and window < config.max_position_embeddings:
        return f"its sliding window of {window} is shorter than its context"
    return ""


def supports(config: Any) -> bool:
    """Return whether the lean decoder can run a configuration."""
    return not refusal(config)


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a decoder."""

    layers: int
    hidden: int
    inner: int
    """Width of the gated layer."""
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    """The constant that keeps norms from dividing by zero."""

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Read the dimensions from a configuration."""
        heads = config.num_attention_heads
        return cls(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            heads=heads,
            kv_heads=config.num_key_value_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            epsilon=config.rms_norm_eps,
        )

    @property
    def groups(self) -> int:
        """Query heads per key head."""
        return self.heads // self.kv_heads
