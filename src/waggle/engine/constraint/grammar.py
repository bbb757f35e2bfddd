"""A grammar: a finite language of byte strings, unfolded lazily while it is walked.

A grammar is a tree of forms (see `waggle.core.forms`). Nothing is compiled in advance: a walk
unfolds the states it reaches, so a view with thousands of admissible records costs as much as one
record. Text outside ASCII is spelled as JSON escapes, so that no token boundary falls inside a
character. A free text cannot be enumerated: beside other alternatives it is left out, and without
any it is spelled as the empty text.

Invariant: a walk spells prefixes of admissible strings only, and it can spell every one of them.
"""

from __future__ import annotations

import json
from typing import Any, AnyStr

from waggle.core.forms import Alternatives, GrammarNode, IntRange, Literal, Sequence, Text

MAX_SHARED = 40_000
"""The maximum number of shared states, about a kilobyte each; beyond it sharing starts afresh."""

Edge = tuple[bytes, "Continuation | State | None"]
"""A label and what follows it: an unfolded state, a continuation, or None for the end."""


class State:
    """A position in a grammar: the labels that may be spelled next, and whether a string may end.

    States are compared by identity. The matcher caches its results for a state in `memo` and
    `ahead`.
    """

    __slots__ = ("accepting", "ahead", "edges", "memo")

    def __init__(self, edges: tuple[Edge, ...], accepting: bool) -> None:
        self.edges = edges
        self.accepting = accepting
        self.memo: Any = None
        self.ahead: Any = None


END = State((), True)
"""The state after a complete string."""


def union(states: list[State]) -> State:
    """Return the state that allows everything that any of the given states allows."""
    if len(states) == 1:
        return states[0]
    edges = dict.fromkeys(edge for state in states for edge in state.edges)
    return State(tuple(edges), any(state.accepting for state in states))


class Continuation:
    """A form still to be spelled and its successor; compared by identity."""

    __slots__ = ("after", "forced", "form", "shared", "state")

    def __init__(self, form: GrammarNode, after: Continuation | None, shared: bool) -> None:
        self.form = form
        self.after = after
        self.shared = shared
        """Whether other grammars may use this same continuation object."""
        self.state: State | None = None
        self.forced: tuple[bytes, Continuation | None] | None = None


class _Unfolded:
    """A cache of unfolded continuations, by form and successor, and of states inside labels."""

    __slots__ = ("continuations", "inside")

    def __init__(self) -> None:
        self.continuations: dict[tuple[int, int], Continuation] = {}
        self.inside: dict[Edge, State] = {}


class SharedStates:
    """States shared by the grammars of an engine: forms in many views, unfolded once.

    Sharing changes speed, never a language.
    """

    def __init__(self) -> None:
        self._unfolded = _Unfolded()

    def current(self) -> _Unfolded:
        """Return the cache, emptied when full; a grammar keeps the one it started with."""
        found = self._unfolded
        if len(found.continuations) + len(found.inside) > MAX_SHARED:
            self._unfolded = _Unfolded()
        return self._unfolded


class Grammar:
    """A language of byte strings.

    Forms that other trees contain too (see `waggle.core.forms.Sequence.common`) are unfolded once
    for all grammars over the same `SharedStates` if only such forms follow them.
    """

    __slots__ = ("_own", "_root", "_shared")

    def __init__(self, form: GrammarNode, shared: SharedStates | None = None) -> None:
        self._own = _Unfolded()
        self._shared = _Unfolded() if shared is None else shared.current()
        self._root = self._continuation(form, None, _is_common(form))

    def start(self) -> State:
        """Return the state before the first byte."""
        return self.state_of(self._root)

    def state_of(self, target: Continuation | State | None) -> State:
        """Return the state that follows a label, unfolding it if necessary."""
        if target is None:
            return END
        if isinstance(target, State):
            return target
        if target.state is None:
            edges: dict[Edge, None] = {}
            accepting = self._unfold(target.form, target.after, edges, target.shared)
            target.state = State(tuple(edges), accepting)
        return target.state

    def goes_on(self, target: Continuation | State | None) -> bool:
        """Return whether anything may be spelled from here, without unfolding if possible."""
        if isinstance(target, Continuation) and target.state is None and _spells(target.form):
            return True
        return bool(self.state_of(target).edges)

    def advance(self, state: State, data: bytes) -> State | None:
        """Return the state after `data`, or None if no admissible string continues with it."""
        while len(state.edges) == 1 and data:
            label, target = state.edges[0]
            if len(data) < len(label):
                return self._inside(label, data, target) if label.startswith(data) else None
            if not data.startswith(label):
                return None
            state, data = self.state_of(target), data[len(label) :]
        return self._advance_all(state, data) if data else state

    def _advance_all(self, state: State, data: bytes) -> State | None:
        reached: list[State] = []
        for label, target in state.edges:
            if label.startswith(data):
                whole = len(label) == len(data)
                reached.append(
                    self.state_of(target) if whole else self._inside(label, data, target)
                )
            elif data.startswith(label):
                further = self.advance(self.state_of(target), data[len(label) :])
                if further is not None:
                    reached.append(further)
        return union(reached) if reached else None

    def _inside(self, label: bytes, data: bytes, target: Continuation | State | None) -> State:
        """Return the state inside a label; the same object whichever option led to it."""
        edge = (label[len(data) :], target)
        shared = isinstance(target, Continuation) and target.shared
        known = (self._shared if shared else self._own).inside
        state = known.get(edge)
        if state is None:
            state = known[edge] = State((edge,), False)
        return state

    def _continuation(
        self, form: GrammarNode, after: Continuation | None, shared: bool
    ) -> Continuation:
        """Return the continuation of a form and its successor; one object per pair of the two."""
        known = (self._shared if shared else self._own).continuations
        key = (id(form), id(after))
        found = known.get(key)
        if found is None:
            found = known[key] = Continuation(form, after, shared)
        return found

    def _chain(
        self, parts: tuple[GrammarNode, ...], after: Continuation | None, shared: bool
    ) -> Continuation | None:
        for part in reversed(parts):
            common = shared or ((after is None or after.shared) and _is_common(part))
            after = self._continuation(part, after, common)
        return after

    def _add(
        self, form: GrammarNode, after: Continuation | None, edges: dict[Edge, None], shared: bool
    ) -> bool:
        """Add the labels that a form may begin with; return whether all of it may be empty."""
        if _is_common(form) and (after is None or after.shared):
            state = self.state_of(self._continuation(form, after, True))
            edges.update(dict.fromkeys(state.edges))
            return state.accepting
        return self._unfold(form, after, edges, shared)

    def _unfold(
        self, form: GrammarNode, after: Continuation | None, edges: dict[Edge, None], shared: bool
    ) -> bool:
        """Add the labels that a form may begin with, without looking for a shared state."""
        if isinstance(form, Literal):
            return self._label(escaped(form.text), after, edges)
        if isinstance(form, Sequence):
            first = self._chain(form.parts, after, shared)
            return first is None or self._add(first.form, first.after, edges, first.shared)
        if isinstance(form, IntRange):
            for value in range(form.low, form.high + 1):
                self._label(b"%d" % value, after, edges)
            return False
        if isinstance(form, Text):
            return self._label(b"", after, edges)
        empty = [self._add(option, after, edges, shared) for option in _enumerable(form)]
        return any(empty)

    def _label(self, text: bytes, after: Continuation | None, edges: dict[Edge, None]) -> bool:
        """Add a label that extends to the next choice, so that a walk stops at choices only."""
        forced, target = self._forced(after)
        if text or forced:
            edges[(text + forced, target)] = None
            return False
        return target is None or self._add(target.form, target.after, edges, target.shared)

    def _forced(self, rest: Continuation | None) -> tuple[bytes, Continuation | None]:
        """Return the literal text a continuation begins with, and the continuation after it."""
        if rest is None:
            return b"", None
        if rest.forced is None:
            if isinstance(rest.form, Literal):
                text, target = self._forced(rest.after)
                rest.forced = escaped(rest.form.text) + text, target
            elif isinstance(rest.form, Sequence):
                rest.forced = self._forced(self._chain(rest.form.parts, rest.after, rest.shared))
            else:
                return b"", rest
        return rest.forced


def chain(*parts: GrammarNode | str) -> Sequence:
    """Concatenate forms; plain strings become literals."""
    return Sequence(tuple(_as_form(part) for part in parts))


def choice(*options: GrammarNode | str) -> Alternatives:
    """Offer forms as alternatives; plain strings become literals."""
    return Alternatives(tuple(_as_form(option) for option in options))


def _as_form(value: GrammarNode | str) -> GrammarNode:
    return Literal(value) if isinstance(value, str) else value


def common_prefix(labels: list[AnyStr]) -> AnyStr:
    """Return the longest common prefix of strings."""
    first, last = min(labels), max(labels)
    if last.startswith(first):
        return first
    length = next(i for i, (x, y) in enumerate(zip(first, last, strict=False)) if x != y)
    return first[:length]


def escaped(text: str) -> bytes:
    """Return a text in ASCII; other characters become JSON escapes."""
    if text.isascii():
        return text.encode()
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text).encode()


def _enumerable(form: Alternatives) -> list[GrammarNode]:
    """Return the alternatives that can be listed, or the free text if it is the only one."""
    listed: list[GrammarNode] = [o for o in form.options if not isinstance(o, Text)]
    return listed or list(form.options)


def _is_common(form: GrammarNode) -> bool:
    return isinstance(form, Sequence) and form.common


def _spells(form: GrammarNode) -> bool:
    """Return whether a form evidently has a non-empty string, without unfolding it."""
    if isinstance(form, Literal):
        return bool(form.text)
    if isinstance(form, Sequence):
        return any(isinstance(part, Literal) and part.text for part in form.parts)
    if isinstance(form, Alternatives):
        return any(isinstance(option, Literal) and option.text for option in form.options)
    return isinstance(form, IntRange)
