"""What the commands of training share: progress of updates, time per phase, who speaks."""

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
    """How long each part of a run took."""

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
        """Print the table and keep it beside the run."""
        rows = [*self._seconds.items(), ("all", round(sum(self._seconds.values()), 1))]
        console.table("Seconds per phase", ("phase", "seconds"), rows, right=1)
        (out / "phases.json").write_text(json.dumps(self._seconds, indent=1), encoding="utf-8")


@contextmanager
def one_speaks() -> Iterator[None]:
    """Of several training processes, let the first alone speak; errors of all are told."""
    if os.environ.get("RANK", "0") == "0":
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


class FailedJobs(dict[str, str]):
    """Jobs that came to no result and why, told as they fail."""

    def __call__(self, job: Job, reason: str) -> None:
        """Note one."""
        self[job.name] = reason
        console.note(f"lost: {job.name}: {reason}")


def updates_on(tell: Progress) -> Watch:
    """Return a watcher that shows updates with the latest metrics, and a line per validation."""

    def watch(update: int, updates: int, values: Mapping[str, float]) -> None:
        now = "  ".join(f"{name} {values[name]:.4f}" for name in _SHOWN if name in values)
        tell("updates", update + 1, updates, now=now, line="validation.nll" in values)

    return watch
