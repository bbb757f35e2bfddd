"""Modules that are part of a checkout and not of the installed package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError

CHECKOUT = Path(__file__).parents[3]


def load(name: str) -> Any:
    """Import a module of a checkout, such as `benchmarks.commands`.

    Raises:
        ConfigError: where the package is installed without the checkout.
    """
    if not (CHECKOUT / f"{name.replace('.', '/')}.py").is_file():
        raise ConfigError(
            f"{name.partition('.')[0]} is in a checkout of the repository, not in the installed "
            "package; clone it and call `waggle` there"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    return import_module(name)
