"""Arms that fail or end their process, for worker processes to run."""

from __future__ import annotations

import os
from typing import Any

from waggle.scd.factorial import Cell


def unprepared(_threads: int) -> None:
    """Prepare nothing."""


class Doomed(Cell):
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
