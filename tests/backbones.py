"""A small random backbone on disk, for tests that train, pack or load a law."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from waggle.models.nano import random_llama


def save_backbone(folder: Path, tokenizer: Any) -> Path:
    """Write two random layers over a tokenizer as a model folder."""
    model = random_llama(
        tokenizer, 3, 0.1, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder
