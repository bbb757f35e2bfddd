"""Where a walk through a grammar stands, and what is still to be spelled from there.

Invariant: states and rests are told apart by identity.
"""

from __future__ import annotations

from typing import Any

from waggle.core.forms import GrammarNode
from waggle.engine.constraint.openings import Opening

Item = tuple[bytes, "Rest | State | None"]
"""A label to be spelled and what follows: a rest, a state a walk has narrowed to, or the end."""


class State:
    """Where a walk stands: the labels still to be spelled, and whether it may stop here.

    States are told apart by identity; `memo` and `ahead` hold what has been found out about this
    one: what may follow, and the shape of the text behind it.
    """

    __slots__ = ("accepting", "ahead", "items", "memo")

    def __init__(self, items: tuple[Item, ...], accepting: bool) -> None:
        self.items = items
        self.accepting = accepting
        self.memo: Any = None
        self.ahead: Any = None

    @property
    def finished(self) -> bool:
        """Whether nothing can follow."""
        return not self.items


END = State((), True)
"""The state after a complete string."""


class Rest:
    """A form still to be spelled and what follows it; told apart by identity."""

    __slots__ = ("after", "forced", "form", "shared", "state")

    def __init__(self, form: GrammarNode, after: Rest | None, shared: bool) -> None:
        self.form = form
        self.after = after
        self.shared = shared
        """Whether other grammars have this very rest."""
        self.state: State | None = None
        self.forced: tuple[bytes, Rest | None] | None = None


class Gate(Rest):
    """Where grammars part that begin with one state: behind it each has a rest of its own."""

    __slots__ = ()


class Found:
    """What has been unfolded: rests by form and what follows, states within labels, first states.

    What was found is told by identity, so forms that first states are of are kept with them.
    """

    __slots__ = ("behind", "openings", "rests")

    def __init__(self) -> None:
        self.rests: dict[tuple[int, int], Rest] = {}
        self.behind: dict[Item, State] = {}
        self.openings: dict[tuple[int, ...], tuple[State, Opening]] = {}


def merge(states: list[State]) -> State:
    """Return the state that allows what any of the states allows."""
    if len(states) == 1:
        return states[0]
    items = dict.fromkeys(item for state in states for item in state.items)
    return State(tuple(items), any(state.accepting for state in states))
