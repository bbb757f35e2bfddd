"""A timeout for calls of a law: a law that hangs fails its episode, not the program.

    WAGGLE_WATCHDOG=60 waggle eval recipe.toml      # or --watchdog 60

Off unless the variable is set; child processes inherit it. It uses an alarm signal, so it works
only in the main thread of a process on Linux and macOS. It interrupts Python code immediately, and
a call into C when it returns.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, NoReturn

from waggle import plugin_files
from waggle.core.errors import ConfigError, ContractError
from waggle.core.protocols import Decode, Law, Request

SECONDS = "WAGGLE_WATCHDOG"
"""Environment variable: the seconds that a law may take for one batch of requests."""


class _Alarm(BaseException):
    """Raised by the alarm; not an `Exception`, so that a law's `except Exception` misses it."""


def watched(law: Law, requests: Sequence[Request]) -> Sequence[Decode]:
    """Let a law decide, within the time limit.

    Raises:
        ContractError: if it takes longer, with the place in the code, or returns no list.
    """
    seconds = limit()
    if not seconds or threading.current_thread() is not threading.main_thread():
        return _listed(law.decide(requests), law.name)
    try:
        before = signal.signal(signal.SIGALRM, _ring)
        try:
            # It repeats every second from then on, in case the law swallows the first.
            signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
            return _listed(law.decide(requests), law.name)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    except _Alarm as alarm:
        place = plugin_files.place_of(alarm)
        raise ContractError(
            f"law {law.name!r} took over {seconds:g} s for {len(requests)} requests"
            + (f" ({place})" if place else "")
            + "; correct it, or allow more with --watchdog"
        ) from None


def _listed(decodes: Any, name: str) -> Sequence[Decode]:
    """Return decodes as a sequence; a generator decides only while it is listed."""
    if isinstance(decodes, Sequence):
        return decodes
    if not isinstance(decodes, Iterable):
        raise ContractError(
            f"law {name!r} returned {type(decodes).__name__} instead of a list; return one Decode "
            "per request"
        )
    return list(decodes)


def limit(text: str | None = None) -> float:
    """Return the seconds allowed for one batch, from `text` or the environment; 0 is no limit.

    Raises:
        ConfigError: if it is not a number of seconds, or this system has no alarm signal.
    """
    text = os.environ.get(SECONDS, "") if text is None else text
    if not text:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (seconds >= 0 and isfinite(seconds)):
        raise ConfigError(f"--watchdog takes seconds, 0 for no limit, not {text!r}")
    if seconds and not hasattr(signal, "setitimer"):
        raise ConfigError("this system has no alarm signal; leave --watchdog out")
    return seconds


def _ring(number: int, frame: object) -> NoReturn:
    raise _Alarm
