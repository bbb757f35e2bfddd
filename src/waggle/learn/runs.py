"""Finished runs of `waggle learn`, read from their folders as untrusted input.

A run is a folder with `learn.json` and `metrics.jsonl`. A folder may hold several runs, one per
subfolder: training seeds, credits, controls. Invalid files are refused with a one-line error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from pydantic import ValidationError

from waggle.core.errors import ConfigError
from waggle.corpus.settings import one_line
from waggle.evaluate.results import MAX_BYTES, read_result
from waggle.learn.config import Settings

SUMMARY, METRICS = "learn.json", "metrics.jsonl"
MOST_RUNS = 64
Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[^\x00-\x1f\x7f]+\Z")]
Means = dict[Name, float]
Metrics = Mapping[str, Mapping[int, float]]
"""By the name of a metric: its value in every batch that measured it."""


class Gain(msgspec.Struct, frozen=True):
    """A comparison with the starting law on development cases."""

    gain: float
    low: float
    high: float
    cases: Annotated[int, msgspec.Meta(ge=1)]
    executable: float
    means: Means
    gains: dict[Name, list[float]] = {}
    """The gain of every case, by task and size; empty in files of early runs."""


class Retention(msgspec.Struct, frozen=True):
    """Scores on the rehearsed tasks."""

    start: Means
    law: Gain


class Fidelity(msgspec.Struct, frozen=True):
    """How well the credit agrees with closed-loop branches."""

    correlation: float | None
    decisions: int
    mattered: int


class Summary(msgspec.Struct, frozen=True):
    """The contents of `learn.json`."""

    settings: dict[str, Any]
    seed: int
    batches: int
    minutes: float
    start: Means
    law: Gain
    controls: dict[Name, Gain]
    selected: int = msgspec.field(name="selected batch")
    sampled: Gain | None = None
    kept: Retention | None = None
    fidelity: Fidelity | None = None
    origin: dict[Name, Name] = {}


class Run(NamedTuple):
    """One run."""

    name: str
    """Name of its folder."""
    settings: Settings
    summary: Summary
    metrics: Metrics


def find(folder: Path) -> list[Path]:
    """Return the folders of runs: this folder, or its subfolders."""
    if (folder / SUMMARY).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{SUMMARY}"))
    if len(found) > MOST_RUNS:
        raise ConfigError(f"{folder} holds over {MOST_RUNS} runs of `waggle learn`; split it")
    return found


def read(folder: Path) -> Run:
    """Read one run.

    Raises:
        ConfigError: one line that names the file and what is wrong with it.
    """
    path = folder / SUMMARY
    what = "result of `waggle learn`"
    try:
        summary = msgspec.convert(read_result(path, what), Summary)
        _check(summary)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise ConfigError(f"{path} holds no {what} ({error}); remove it") from None
    try:
        settings = Settings.model_validate(summary.settings)
    except ValidationError as error:
        raise one_line(error, str(path)) from None
    return Run(folder.name, settings, summary, _metrics(folder / METRICS))


def _check(summary: Summary) -> None:
    """Raise ValueError for numbers that are not finite, or tasks that differ from the start's."""
    pairs = [(summary.start, found) for found in (summary.law, *summary.controls.values())]
    if summary.sampled is not None:
        pairs.append((summary.start, summary.sampled))
    if summary.kept is not None:
        pairs.append((summary.kept.start, summary.kept.law))
    for start, found in pairs:
        if not start or found.means.keys() != start.keys():
            raise ValueError("start and law name other tasks")
        if found.gains and found.gains.keys() != start.keys():
            raise ValueError("gains name other tasks than means")
        if not all(found.gains.values()):
            raise ValueError("a task has no gains")
    if not all(map(isfinite, _figures(msgspec.to_builtins(summary)))):
        raise ValueError("a figure is not finite")


def _figures(value: Any) -> Iterator[float]:
    """Yield all numbers of nested plain data."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _figures(part)


def _metrics(path: Path) -> Metrics:
    """Read the curves; skip a last line that an interruption has truncated."""
    found: dict[str, dict[int, float]] = {}
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is over {MAX_BYTES >> 20} MiB long")
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            try:
                row = msgspec.convert(json.loads(line), dict[Name, float])
                batch = int(row.pop("update"))
            except (ValueError, KeyError, OverflowError, RecursionError) as error:
                if number == len(lines):
                    break
                raise ValueError(f"line {number}: {error}") from None
            for name, value in row.items():
                if isfinite(value):
                    found.setdefault(name, {})[batch] = value
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} holds no curves of `waggle learn` ({reason})") from None
    return found
