"""`waggle bench …`: run the speed benchmarks in the folder `benchmarks` of a checkout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from waggle.cli import checkout


def command(tokens: Sequence[str]) -> Callable[..., Any]:
    """Return the command of the checkout's `benchmarks` that a command line names."""
    found: Callable[..., Any] = getattr(checkout.load("benchmarks.commands"), tokens[1])
    return found
