"""What a rival library is given, and what it has to offer.

Invariant: every rival decodes the very weights that are measured, in the same tokens, greedily, to
the same length and on as many threads as torch uses; conversions are made before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.setup import Ask, Setup
from waggle.core.errors import ConfigError

Answers = list[tuple[int, ...]]
Decode = Callable[[Sequence[Ask], int], Answers]
"""Decodes one batch of prompts to at most so many tokens each."""

MODEL_TYPE = "llama"
"""The only architecture that rivals are given: all of them know it."""


@dataclass(frozen=True, slots=True)
class Job:
    """Weights, and how they are decoded."""

    model: Any
    tokenizer: Any
    folder: Path
    """Where converted weights may lie as long as the measurement lasts."""
    threads: int
    batch: int
    longest: int
    """Tokens of the longest prompt."""
    new_tokens: int
    ends: frozenset[int]
    forced: bool
    """Whether end tokens are banned, so that answers have their full length."""
    prefixes: tuple[tuple[int, ...], ...] = ()
    """What prompts share: every different beginning once."""

    def cut(self, row: Iterable[int]) -> tuple[int, ...]:
        """Return an answer without its end token and what stands behind it."""
        found = tuple(row)
        if self.forced:
            return found
        stop = next((i for i, token in enumerate(found) if token in self.ends), len(found))
        return found[:stop]


class Variant(NamedTuple):
    """One configuration of a library."""

    precision: str
    configuration: str
    shares: bool
    """Whether what prompts share is read once for all of them."""
    open: Callable[[], AbstractContextManager[Decode]]
    """Converts and loads the weights, lends what decodes with them, and gives them back."""


class Rival(NamedTuple):
    """A library, and its configurations that a knowing user would try, the fastest last."""

    package: str
    modules: tuple[str, ...]
    variants: Callable[[Job], list[Variant]]

    @property
    def missing(self) -> str:
        """The first module that is not installed here, or nothing."""
        return next((name for name in self.modules if find_spec(name) is None), "")

    @property
    def version(self) -> str:
        """The version that is installed."""
        return version(self.package)


def require_cpu(device: str) -> None:
    """Refuse any other device."""
    if device != "cpu":
        raise ConfigError(f"--rivals measures on a CPU only, not on {device}; give --device cpu")


def require_llama(model: Any) -> None:
    """Refuse a model that is no plain Llama."""
    config = model.config
    kind = str(getattr(config, "model_type", ""))
    turned = getattr(config, "rope_parameters", None) or {}
    if kind != MODEL_TYPE or turned.get("rope_type", "default") != "default":
        raise ConfigError(f"--rivals takes a plain Llama only, not this {kind!r}; leave it out")


def job(setup: Setup, folder: Path) -> Job:
    """Return what the rivals of a measurement are given.

    Raises:
        ConfigError: for a device or a model that they are not measured with.
    """
    from waggle.engine.ends import end_tokens

    require_cpu(setup.device)
    require_llama(setup.model)
    torch: Any = import_module("torch")
    asks = (*setup.work, *setup.warm, *setup.fresh)
    return Job(
        model=setup.model,
        tokenizer=setup.tokenizer,
        folder=folder,
        threads=torch.get_num_threads(),
        batch=setup.batch,
        longest=max(len(ask.prefix) + len(ask.tail) for ask in asks),
        new_tokens=setup.new_tokens,
        ends=end_tokens(setup.model, setup.tokenizer),
        forced=setup.forced,
        prefixes=tuple(dict.fromkeys(ask.prefix for ask in asks)),
    )
