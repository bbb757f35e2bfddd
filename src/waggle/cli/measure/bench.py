"""`waggle bench …`: the door to the folder `benchmarks` of a checkout, which measures speed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError

CHECKOUT = Path(__file__).parents[4]


def command(tokens: Sequence[str]) -> Callable[..., Any]:
    """Return the command of the checkout's `benchmarks` that a command line names.

    Raises:
        ConfigError: where the package is installed without the checkout.
    """
    if not (CHECKOUT / "benchmarks" / "commands.py").is_file():
        raise ConfigError(
            "benchmarks are in a checkout of the repository, not in the installed package; clone "
            "it and call `waggle` there"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    found: Callable[..., Any] = getattr(import_module("benchmarks.commands"), tokens[1])
    return found
