"""A device that takes its time, without one: the answers of another backend, late by a clock.

Shows on any machine what of the host's work is hidden behind a device that works by itself. The
host's time is real and what the other backend takes is left out; the device's time and the waiting
for it are reckoned, so that nobody sleeps and a busy machine does not show. Invariant: passes are
done one after the other, in the order they were sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from waggle.engine.backends.base import (
    Backend,
    MultiStepOutput,
    MultiStepRow,
    RowInput,
    Text,
    TokenFuture,
)


class Costs(NamedTuple):
    """What passes take, in seconds: by default about what SmolLM2-135M takes on one H200.

    As measured there; what sending takes at batch 64, constrained (free decoding takes longer).
    """

    step: float = 1.6e-3
    """A pass, whatever is in it."""
    row: float = 3.8e-6
    """One row of it: its keys are read."""
    token: float = 0.8e-6
    """One token of it."""
    launch: float = 2.7e-3
    """What the host takes to send off a pass and to ask for its answers."""


H200 = Costs()


class Delayed:
    """Passes everything on, and hands answers out when a device would have them."""

    asynchronous = True

    def __init__(
        self,
        backend: Backend,
        costs: Costs = H200,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.backend = backend
        self.busy = self.waited = self.sending = 0.0
        """Seconds the device worked, the host waited for it, and the host sent passes off."""
        self._costs = costs
        self._clock = clock
        self._left_out = 0.0
        self._free = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def now(self) -> float:
        """Return the time: the host's own, and what it waited and sent."""
        return self._clock() - self._left_out + self.waited + self.sending

    def _aside(self, work: Callable[[], Any]) -> Any:
        """Do what belongs to neither the host nor the device."""
        start = self._clock()
        found = work()
        self._left_out += self._clock() - start
        return found

    def _send(self, seconds: float) -> None:
        """Give the device a pass behind those it has."""
        self._free = max(self._free, self.now()) + seconds
        self.busy += seconds
        self.sending += self._costs.launch
        self._free = max(self._free, self.now())

    def _wait(self, until: float) -> None:
        self.waited += max(0.0, until - self.now())

    def _late(self, future: TokenFuture) -> TokenFuture:
        done = self._free

        def wait() -> list[int]:
            self._wait(done)
            return future()

        return wait

    def run(self, rows: Sequence[RowInput]) -> Any:
        """Send a pass off."""
        costs = self._costs
        tokens = sum(len(row.tokens) for row in rows)
        self._send(costs.step + costs.row * len(rows) + costs.token * tokens)
        return self._aside(lambda: self.backend.run(rows))

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Take as long as the steps, and wait for them."""
        found: list[MultiStepOutput] = self._aside(
            lambda: self.backend.decode_steps(rows, ends, history)
        )
        costs = self._costs
        self._send(max(row.steps for row in found) * (costs.step + costs.row * len(rows)))
        self._wait(self._free)
        return found

    def argmax(self, hidden: Any, banned: Sequence[int] = ()) -> TokenFuture:
        """Ask behind the last pass."""
        return self._late(self._aside(lambda: self.backend.argmax(hidden, banned)))

    def choose(self, hidden: Any, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Ask behind the last pass."""
        return self._late(self._aside(lambda: self.backend.choose(hidden, allowed)))
