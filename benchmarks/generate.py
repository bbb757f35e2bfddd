"""The other side of the measurement: transformers' `generate`, in the configurations it offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from benchmarks.setup import Ask, Setup

Variant = tuple[str, dict[str, Any]]
"""A configuration of `generate`: what it is called, and its options."""
Decode = Callable[[Sequence[Ask], int], list[tuple[int, ...]]]


def variants(device: str) -> list[Variant]:
    """Return the configurations of `generate` for a device; the one known as the fastest last."""
    found: list[Variant] = [("generate, dynamic cache", {})]
    if device.startswith("cuda"):
        found.append(("generate, static cache, compiled", {"cache_implementation": "static"}))
    return found


def ready(setup: Setup, fastest: bool, say: Callable[[str], None]) -> list[Variant]:
    """Warm up the configurations that work here, and return them; with `fastest`, one."""
    found: list[Variant] = []
    for name, options in reversed(variants(setup.device)):
        if fastest and found:
            break
        try:
            _warm_up(setup, options)
        except Exception as error:
            say(f"{name}: not available here ({type(error).__name__}: {str(error)[:200]})")
            continue
        found.insert(0, (name, options))
    return found


def _warm_up(setup: Setup, options: dict[str, Any]) -> None:
    """Decode other prompts; compiling needs the real lengths, else few tokens do, on a CPU of few.

    A batch with one new token is timed before all others, so that a CPU is warm for these.
    """
    rows = 2 if setup.device == "cpu" else setup.batch
    for count in (1, setup.new_tokens) if options else (min(4, setup.new_tokens),):
        _generate(setup, options, setup.warm[:rows], count)


def generate_all(
    setup: Setup, options: dict[str, Any], work: Sequence[Ask], count: int
) -> list[tuple[int, ...]]:
    """Decode prompts with transformers, batch by batch."""
    batches = (work[i : i + setup.batch] for i in range(0, len(work), setup.batch))
    return [a for batch in batches for a in _generate(setup, options, batch, count)]


def padded(setup: Setup) -> int:
    """Return the length to which prompts are padded, one for all batches."""
    asks = (*setup.work, *setup.warm, *setup.fresh)
    return max(len(ask.prefix) + len(ask.tail) for ask in asks)


def steps(setup: Setup, answers: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the passes of each batch: those of its longest answer, and of its end token."""
    most = setup.new_tokens
    batches = (answers[i : i + setup.batch] for i in range(0, len(answers), setup.batch))
    longest = [max(map(len, batch)) for batch in batches]
    return [count if setup.forced else min(most, count + 1) for count in longest]


def _generate(
    setup: Setup, options: dict[str, Any], work: Sequence[Ask], count: int
) -> list[tuple[int, ...]]:
    """Decode one batch: left padding to one length for all batches, greedy."""
    torch: Any = import_module("torch")
    rows = [[*ask.prefix, *ask.tail] for ask in work]
    longest = padded(setup)
    pad = setup.tokenizer.pad_token_id or 0
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    length = {"min_new_tokens": count} if setup.forced else {}
    with torch.inference_mode():
        found = setup.model.generate(
            ids.to(setup.device),
            attention_mask=mask.to(setup.device),
            max_new_tokens=count,
            do_sample=False,
            **length,
            **options,
        )
    return [_ended(setup, row) for row in found[:, longest:].tolist()]


def _ended(setup: Setup, row: list[int]) -> tuple[int, ...]:
    """Cut an answer at its end token, which the engine does not count among its tokens."""
    from waggle.engine.ends import end_tokens

    if setup.forced:
        return tuple(row)
    ends = end_tokens(setup.model, setup.tokenizer)
    stop = next((i for i, token in enumerate(row) if token in ends), len(row))
    return tuple(row[:stop])
