"""What the engine is measured on: a model, a shared prefix, and prompts that never repeat."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from waggle.engine import workload
from waggle.engine.shapes import SHAPES, shaped

WARM_UP = 9_999
"""Seed of the prompts that only warm up."""


@dataclass(slots=True)
class Work:
    """Some prompts: tails in tokens, and the grammars of their answers."""

    tails: list[tuple[int, ...]]
    tasks: list[workload.Task]


@dataclass(slots=True)
class Setup:
    """Everything a measurement needs."""

    model: Any
    tokenizer: Any
    prefix: tuple[int, ...]
    work: Work
    warm: Work
    fresh: Work
    batch: int
    new_tokens: int
    device: str

    def wait(self) -> None:
        """Wait for the device."""
        if self.device.startswith("cuda"):
            torch: Any = import_module("torch")
            torch.cuda.synchronize()


def prepare(
    name: str,
    device: str,
    dtype: str,
    sizes: tuple[int, int],
    prefix: int,
    tail: int,
    new_tokens: int,
) -> tuple[Setup, str]:
    """Load a model and draw prompts; `sizes` are rows per batch and batches."""
    from waggle.engine import weights

    where = weights.pick_device(device)
    kind = weights.pick_dtype(dtype, where)
    if name in SHAPES:
        model, tokenizer = shaped(name, where, kind)
    else:
        model, tokenizer = weights.load(name, where, dtype)
    records = workload.fit_records(tokenizer, tail)
    shared = workload.shared_prefix(tokenizer, prefix)
    batch, repeats = sizes
    chosen = _work(tokenizer, batch * repeats, records, 0)
    warm = _work(tokenizer, 2 * batch, records, WARM_UP)
    fresh = _work(tokenizer, batch, records, WARM_UP + 1)
    setup = Setup(model, tokenizer, shared, chosen, warm, fresh, batch, new_tokens, where)
    return setup, str(kind).removeprefix("torch.")


def _work(tokenizer: Any, count: int, records: int, seed: int) -> Work:
    tasks = workload.tasks(count, records, seed)
    return Work([workload.encode(tokenizer, task.tail) for task in tasks], tasks)
