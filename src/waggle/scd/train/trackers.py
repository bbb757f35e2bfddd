"""Trackers for metrics: always `metrics.jsonl`, and optionally one more, chosen by name.

A tracker is any object with `log(update, values)` and `close()`; there is no registry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from waggle.core.errors import ConfigError, suggest
from waggle.scd.files import write_file

METRICS = "metrics.jsonl"
NAMES = ("none", "tensorboard", "trackio", "wandb")


class Tracker(Protocol):
    """A sink of metrics."""

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Log the metrics of one update."""
        ...

    def close(self) -> None:
        """Close the tracker."""
        ...


class JsonLines:
    """`metrics.jsonl`: one object per line; lines of updates that will be redone are dropped."""

    def __init__(self, path: Path, start: int) -> None:
        kept = [line for line in _lines(path) if _update(line) < start]
        write_file(path, "".join(kept).encode())
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """Append one line and flush it."""
        self._file.write(json.dumps({"update": update, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []


def _update(line: str) -> float:
    """Return the update number of a line; infinity for a truncated line."""
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def last(folder: Path, name: str) -> float | None:
    """Return the latest value of a metric in a stage's `metrics.jsonl`, if there is one."""
    logged = (json.loads(line) for line in reversed(_lines(folder / METRICS)))
    return next((float(values[name]) for values in logged if name in values), None)


class _TensorBoard:
    def __init__(self, folder: Path) -> None:
        board: Any = _library("torch.utils.tensorboard", "tensorboard")
        self._writer = board.SummaryWriter(str(folder))

    def log(self, update: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, update)

    def close(self) -> None:
        self._writer.close()


class _Run:
    """A run of Trackio or W&B, which share one interface."""

    def __init__(self, library: str, name: str) -> None:
        self._library = _library(library, library)
        self._library.init(project="waggle", name=name)

    def log(self, update: int, values: Mapping[str, float]) -> None:
        self._library.log({**values, "update": update})

    def close(self) -> None:
        self._library.finish()


def _library(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"the tracker needs {package}; `pip install {package}` or set run.tracker = 'none'"
        ) from None


def make(name: str, folder: Path, run: str, start: int) -> list[Tracker]:
    """Return the trackers of a run: `metrics.jsonl` and the named one."""
    if name not in NAMES:
        raise ConfigError(
            f"no tracker {name!r}; there are {', '.join(NAMES)}{suggest(name, [*NAMES])}"
        )
    trackers: list[Tracker] = []
    if name == "tensorboard":
        trackers.append(_TensorBoard(folder / "tensorboard"))
    elif name != "none":
        trackers.append(_Run(name, run))
    return [JsonLines(folder / METRICS, start), *trackers]
