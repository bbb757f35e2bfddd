"""The other side of the measurement: transformers' `generate`, in the configurations it offers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from waggle.engine.bench_setup import Setup


def variants(device: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the configurations of `generate` for a device, by name."""
    found: list[tuple[str, dict[str, Any]]] = [("generate, dynamic cache", {})]
    if device.startswith("cuda"):
        found.append(("generate, static cache, compiled", {"cache_implementation": "static"}))
    return found


def warm_up(setup: Setup, options: dict[str, Any]) -> None:
    """Decode one batch of other prompts; compiling needs the real lengths, else few tokens do."""
    count = setup.new_tokens if options else min(4, setup.new_tokens)
    _generate(setup, options, setup.warm.tails[: setup.batch], count)


def generate_all(setup: Setup, options: dict[str, Any]) -> list[tuple[int, ...]]:
    """Decode all prompts with transformers, batch by batch."""
    tails = setup.work.tails
    batches = (tails[i : i + setup.batch] for i in range(0, len(tails), setup.batch))
    return [a for batch in batches for a in _generate(setup, options, batch, setup.new_tokens)]


def _generate(
    setup: Setup, options: dict[str, Any], tails: Sequence[tuple[int, ...]], count: int
) -> list[tuple[int, ...]]:
    """Decode one batch: left padding to one length for all batches, greedy, forced length."""
    torch: Any = import_module("torch")
    rows = [[*setup.prefix, *tail] for tail in tails]
    known = (*setup.work.tails, *setup.warm.tails)
    longest = len(setup.prefix) + max(map(len, known))
    pad = setup.tokenizer.pad_token_id or 0
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    with torch.inference_mode():
        found = setup.model.generate(
            ids.to(setup.device),
            attention_mask=mask.to(setup.device),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            **options,
        )
    return [tuple(row) for row in found[:, longest:].tolist()]
