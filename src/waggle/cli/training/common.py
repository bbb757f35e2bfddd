"""Code shared by the training commands: progress of updates, time per phase, muted processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from waggle.api.progress import Progress
from waggle.cli import console

if TYPE_CHECKING:
    from waggle.scd.run.workers import Job
    from waggle.scd.train.trainer import Watch

_SHOWN = ("nll", "orbit.accuracy", "field", "validation.nll")


class Phases:
    """The duration of each part of a run."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time a part."""
        start = time.perf_counter()
        yield
        self._seconds[name] = round(time.perf_counter() - start, 1)
        console.note(f"{name}: {self._seconds[name]} s")

    def show(self, out: Path) -> None:
        """Print the table and save it in the folder of the run."""
        rows = [*self._seconds.items(), ("all", round(sum(self._seconds.values()), 1))]
        console.table("Seconds per phase", ("phase", "seconds"), rows, right=1)
        (out / "phases.json").write_text(json.dumps(self._seconds, indent=1), encoding="utf-8")


@contextmanager
def one_speaks() -> Iterator[None]:
    """Mute all training processes except the first; errors of every process still propagate."""
    if os.environ.get("RANK", "0") == "0":
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


class FailedJobs(dict[str, str]):
    """Jobs without a result, with the reasons, reported as they fail."""

    def __call__(self, job: Job, reason: str) -> None:
        """Record and report one failed job."""
        self[job.name] = reason
        console.note(f"lost: {job.name}: {reason}")


def updates_on(tell: Progress) -> Watch:
    """Return a watcher that shows updates with the latest metrics, and a line per validation."""

    def watch(update: int, updates: int, values: Mapping[str, float]) -> None:
        now = "  ".join(f"{name} {values[name]:.4f}" for name in _SHOWN if name in values)
        tell("updates", update + 1, updates, now=now, line="validation.nll" in values)

    return watch
