"""Waggle: one anonymous local law for self-organizing LLM swarms.

Read `core` (the contract), `runtime` (the engines), then `substrates` and `laws`; the README lists
all folders. The modules here: `plugins` is the registry of the three extension points, with
`built_in` and `plugin_files` as its sources; `extras` lists optional libraries; `process_pool` and
`shared_folders` are for several processes. The public names below are loaded on first use, so that
`import waggle` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from waggle.api.episode import Episode
    from waggle.api.run import run
    from waggle.api.runs import Runs
    from waggle.api.sweep import sweep
    from waggle.core.errors import WaggleError
    from waggle.core.protocols import (
        Act,
        Case,
        Decode,
        Law,
        Local,
        Request,
        Sensed,
        Shock,
        Substrate,
        Suggestion,
        Usage,
        World,
    )
    from waggle.core.record import EpisodeRecord
    from waggle.core.schema import Commitment, Contract, Decision, Evidence, Trace, View
    from waggle.core.world import WorldBase
    from waggle.plugins import law, metric, substrate
    from waggle.runtime.records import read
    from waggle.runtime.sync import play
    from waggle.testing import check_law, check_substrate

_HOME = {
    "waggle.api.episode": ("Episode",),
    "waggle.api.run": ("run",),
    "waggle.api.runs": ("Runs",),
    "waggle.api.sweep": ("sweep",),
    "waggle.core.errors": ("WaggleError",),
    "waggle.core.protocols": (
        "Act", "Case", "Decode", "Law", "Local", "Request", "Sensed", "Shock", "Substrate",
        "Suggestion", "Usage", "World",
    ),
    "waggle.core.record": ("EpisodeRecord",),
    "waggle.core.schema": ("Commitment", "Contract", "Decision", "Evidence", "Trace", "View"),
    "waggle.core.world": ("WorldBase",),
    "waggle.plugins": ("law", "metric", "substrate"),
    "waggle.runtime.records": ("read",),
    "waggle.runtime.sync": ("play",),
    "waggle.testing": ("check_law", "check_substrate"),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Act",
    "Case",
    "Commitment",
    "Contract",
    "Decision",
    "Decode",
    "Episode",
    "EpisodeRecord",
    "Evidence",
    "Law",
    "Local",
    "Request",
    "Runs",
    "Sensed",
    "Shock",
    "Substrate",
    "Suggestion",
    "Trace",
    "Usage",
    "View",
    "WaggleError",
    "World",
    "WorldBase",
    "check_law",
    "check_substrate",
    "law",
    "metric",
    "play",
    "read",
    "run",
    "substrate",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _MODULE:
        raise AttributeError(f"module 'waggle' has no attribute {name!r}; it has {__all__}")
    value = getattr(import_module(_MODULE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__all__, "__version__"])
