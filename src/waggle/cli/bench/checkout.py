"""The benchmarks that lie beside the package, in a checkout of the repository."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError

ROOT = Path(__file__).parents[4]


def benchmark(name: str) -> Any:
    """Import one module of the checkout's folder `benchmarks`.

    Raises:
        ConfigError: where the package is installed without the checkout.
    """
    if not (ROOT / "benchmarks" / "__init__.py").is_file():
        raise ConfigError(
            "this benchmark is in a checkout of the repository, not in the installed package; "
            "clone it and call `waggle` there"
        )
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return import_module(f"benchmarks.{name}")
