"""Arms that fail or end their process, for worker processes to run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from waggle.scd.run.factorial import Cell


def unprepared(_threads: int) -> None:
    """Prepare nothing."""


class Failing(Cell):
    """An arm that trains nothing."""

    def run(self) -> dict[str, Any]:
        """Die as the first seed's orbit arm, fail as its field arm; else give a result.

        The second seed's decision arm finds memory at the second attempt, its last arm never.
        """
        if (self.seed, self.arm) == (0, "orbit"):
            os._exit(3)
        if (self.seed, self.arm) == (0, "field"):
            raise ZeroDivisionError("a bug\nin two lines")
        begun = self.out / f"begun-{self.arm}"
        starved = self.arm == "scd" or (self.arm == "decision" and not begun.exists())
        if self.seed == 1 and starved:
            begun.touch()
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 MiB")
        return {"arm": self.arm, "seed": self.seed}


class Crowded(Cell):
    """An arm for whose memory another one has to end first."""

    def run(self) -> dict[str, Any]:
        """Hold the memory as the decision arm until another has found none; else need it."""
        held, starved = self.out / "held", self.out / "starved"
        if self.arm == "decision":
            held.touch()
            _until(starved.exists)
            time.sleep(0.5)  # time enough to be asked again too early
            held.unlink()
        else:
            _until(lambda: held.exists() or starved.exists())
            if held.exists():
                starved.write_text(str(os.getpid()))
                raise RuntimeError("CUDA out of memory. Tried to allocate 2 MiB")
        return {"arm": self.arm, "process": os.getpid()}


def _until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not there() and time.monotonic() < end:
        time.sleep(0.01)
