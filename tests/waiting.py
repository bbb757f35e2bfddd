"""Wait for what another thread or process is about to do, instead of assuming that it is done."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST = 60.0
"""Seconds after which it will not come any more, also on a machine that is slow and busy."""


def until(met: Callable[[], object], seconds: float = LONGEST) -> None:
    stop = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < stop, f"it did not come within {seconds:g} s"
        time.sleep(0.01)
