"""Rows whose grammar another process follows, if there is one (see `waggle.engine.walkers`).

Invariant: what such a row says is what it would say if it were followed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from waggle.engine import wire
from waggle.engine.backends.base import Pace
from waggle.engine.bound_rows import ConstrainedRow
from waggle.engine.constraint.matcher import Make
from waggle.engine.request import Prompt
from waggle.engine.speculation import Habits
from waggle.engine.walkers import Walkers
from waggle.engine.wire import Plan


class WalkedRow(ConstrainedRow):
    """Follows a grammar in another process, if there is one when it is opened, or else here."""

    def __init__(
        self,
        prompt: Prompt,
        ends: frozenset[int],
        habits: Habits,
        pace: Pace | None,
        walkers: Walkers,
    ) -> None:
        super().__init__(prompt, ends, habits, pace)
        self._walkers = walkers
        self._portable = _portable(self._constraint.make)
        self.number = -1
        walkers.wanted = walkers.wanted or self._portable

    def open(self) -> None:
        """Have it opened elsewhere, if that can be; it is laid out when that is read."""
        if self._portable and self._walkers.ready:
            self._walkers.open(self, self._drafting)
        else:
            super().open()

    def answered(self, tokens: Sequence[int]) -> None:
        """Have its choices followed elsewhere."""
        if self.number < 0:
            super().answered(tokens)
        else:
            self._walkers.answered(self, tokens)

    def restart(self) -> None:
        """Be as before it was opened."""
        self.number, self.away, self.opened, self.finish = -1, False, False, ""
        self.pending, self.answer, self.offers = list(self.prompt.tail), [], []
        self.asked = [len(self.pending) - 1]

    def follow(self, plan: Plan) -> None:
        """Go on as was planned."""
        self.away = False
        self.pending = wire.tokens(plan.pending)
        self.asked, self.offers = plan.asked, plan.offers
        self.answer += plan.said
        self.finish = plan.finish
        self.cached, self.drafted, self.accepted = plan.cached, plan.drafted, plan.accepted


def _portable(make: Make | None) -> bool:
    """Whether another process can make this grammar: it has our functions and nobody else's."""
    return isinstance(make, partial) and make.func.__module__.partition(".")[0] == "waggle"
