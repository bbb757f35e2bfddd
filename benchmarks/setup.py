"""What the engine is measured on: a model, and prompts that never repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks import workload
from waggle.engine.constraint.grammar import Common, Grammar
from waggle.engine.request import Expectation
from waggle.models.nano import byte_tokenizer
from waggle.models.shapes import SHAPES, shaped

WARM_UP = 9_999
"""Seed of the prompts that only warm up."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt in tokens, what makes the grammar of its answers, and what foretells one."""

    tail: tuple[int, ...]
    prefix: tuple[int, ...]
    grammar: Callable[[Common | None], Grammar]
    """Called while decoding is timed, with what an engine's grammars share: it is part of the
    work."""
    room: Callable[[], int]
    """Returns how many tokens its longest answer may have; likewise."""
    draft: Callable[[], Expectation] | None = None
    """Likewise."""


@dataclass(slots=True)
class Setup:
    """Everything a measurement needs."""

    model: Any
    tokenizer: Any
    work: list[Ask]
    warm: list[Ask]
    fresh: list[Ask]
    batch: int
    new_tokens: int
    """Longest free answer."""
    device: str
    forced: bool = True
    """Whether free answers have that length; otherwise they end where the model ends them."""

    @property
    def longest(self) -> int:
        """Tokens of the longest own part of a prompt, by those that warm up."""
        return max(len(ask.tail) for ask in self.warm)

    def wait(self) -> None:
        """Wait for the device."""
        if self.device.startswith("cuda"):
            torch: Any = import_module("torch")
            torch.cuda.synchronize()


def place(device: str, dtype: str) -> tuple[str, str]:
    """Return the device and the dtype by name."""
    from waggle.models import weights

    where = weights.pick_device(device)
    return where, str(weights.pick_dtype(dtype, where)).removeprefix("torch.")


def prepare(
    name: str,
    device: str,
    dtype: str,
    sizes: tuple[int, int],
    prefix: int,
    tail: int,
    new_tokens: int,
) -> Setup:
    """Load a model and draw prompts; `sizes` are rows per batch and batches."""
    from waggle.models import weights

    where, kind = place(device, dtype)
    if name in SHAPES:
        tokenizer = byte_tokenizer(workload.texts(), 2048)
        model = shaped(name, where, weights.pick_dtype(kind, where), tokenizer)
    else:
        model, tokenizer = weights.load(name, where, kind)
    draw = partial(
        asks, tokenizer, workload.fit_records(tokenizer, tail),
        workload.shared_prefix(tokenizer, prefix),
    )  # fmt: skip
    batch, repeats = sizes
    parts = (draw(batch * repeats, 0), draw(2 * batch, WARM_UP), draw(batch, WARM_UP + 1))
    return Setup(model, tokenizer, *parts, batch, new_tokens, where)


def asks(tokenizer: Any, records: int, prefix: tuple[int, ...], count: int, seed: int) -> list[Ask]:
    """Draw prompts of the synthetic workload."""
    return [
        Ask(
            workload.encode(tokenizer, task.tail),
            prefix,
            partial(workload.named, task.handles, task.claims),
            workload.longest,
        )
        for task in workload.tasks(count, records, seed)
    ]


def mean(values: Sequence[int]) -> float:
    """Return the mean of some counts."""
    return sum(values) / max(1, len(values))
