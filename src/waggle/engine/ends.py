"""Where a model's answers end."""

from __future__ import annotations

from typing import Any


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens after which `generate` of this model stops."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    if configured is None:
        configured = tokenizer.eos_token_id
    if configured is None:
        return frozenset()
    return frozenset([configured] if isinstance(configured, int) else configured)
