"""Where the time of a decision goes: a backend that watches another one work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.around import Around
from waggle.engine.answers import Answers
from waggle.engine.backends.base import Backend, Rolled, Rolling, Running, Said


class Clocked(Around):
    """Passes everything on and adds up the time by kind of work.

    With `wait` every piece of work is waited for, so that its own time is seen. Without, nothing
    changes for a device that works by itself; what is seen is how long the host took to send passes
    off, how long to ask for tokens behind them, and how long it then waited for answers.
    """

    def __init__(
        self,
        backend: Backend,
        wait: Callable[[], None] | None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(backend)
        sent, waited = ("sending", "asking", "waiting", "steps"), ("prompt", "steps", "output")
        self.seconds = dict.fromkeys(sent if wait is None else waited, 0.0)
        self.passes = 0
        self.ran = {"prompt": 0, "steps": 0}
        """Tokens that went through the model, in passes with prompts and in others."""
        self._wait = wait
        self._now = now

    @property
    def asynchronous(self) -> bool:
        """As the watched backend, so that the same work is done."""
        return self.backend.asynchronous

    def _timed(self, kind: str, work: Callable[[], Any]) -> Any:
        start = self._now()
        found = work()
        if self._wait is not None:
            self._wait()
        self.seconds[kind] += self._now() - start
        return found

    def _asked(self, ask: Callable[[], Said]) -> Said:
        if self._wait is None:
            said: Said = self._timed("asking", ask)
            return lambda: self._read(said)
        found: list[int] = self._timed("output", lambda: ask()())
        return lambda: found

    def _read(self, said: Said) -> list[int]:
        found: list[int] = self._timed("waiting", said)
        return found

    def roll(
        self, rows: Sequence[Rolling], ends: Sequence[int], answers: Answers | None
    ) -> list[Rolled]:
        """Time the steps, their output layer included."""
        found: list[Rolled] = self._timed("steps", lambda: self.backend.roll(rows, ends, answers))
        self.passes += max(rolled.steps for rolled in found)
        self.ran["steps"] += sum(rolled.steps + rolled.drafted for rolled in found)
        return found

    def run(self, rows: Sequence[Running]) -> Any:
        """Time prompts apart from steps."""
        self.passes += 1
        kind = "steps" if all(row.start for row in rows) else "prompt"
        self.ran[kind] += sum(len(row.tokens) for row in rows)
        timed = "sending" if self._wait is None else kind
        return self._timed(timed, lambda: self.backend.run(rows))

    def argmax(self, hidden: Any, banned: Sequence[int] = ()) -> Said:
        """Time the output layer."""
        return self._asked(lambda: self.backend.argmax(hidden, banned))

    def choose(self, hidden: Any, allowed: Sequence[tuple[int, ...]]) -> Said:
        """Time the output layer."""
        return self._asked(lambda: self.backend.choose(hidden, allowed))
