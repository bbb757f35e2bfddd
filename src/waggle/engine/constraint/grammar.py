"""A finite regular template language over bytes, walked lazily.

A grammar is a tree of forms (see `waggle.core.forms`). Nothing is compiled ahead: a walk unfolds
what it meets, so a view with thousands of admissible records costs what one of them does. States
are determinised while walking, too. Text outside ASCII is spelled as JSON escapes, so that no token
boundary falls inside a character. A free text is not enumerable: it stands for the alternatives
offered beside it, and for the empty text where there are none.

Invariant: every string the walk can spell is a prefix of an admissible string, and every
admissible string can be spelled.
"""

from __future__ import annotations

from collections.abc import Iterable

from waggle.core.errors import ConfigError
from waggle.core.forms import (
    GrammarNode,
    IntRange,
    Literal,
    Sequence,
    Text,
)
from waggle.engine.constraint.form_making import (
    as_form,
    enumerable,
    escaped,
    measured,
    radix,
    spells,
)
from waggle.engine.constraint.openings import is_common, is_far, is_shared, opening
from waggle.engine.constraint.states import END, Found, Gate, Item, Rest, State, merge

MAX_COMMON = 40_000
"""Rests and states that grammars have in common, of about a kilobyte each."""


class Common:
    """What the grammars of an engine have in common: forms that many views share, unfolded once.

    Begins anew where it has grown too large. Invariant: it changes speed, never a language.
    """

    def __init__(self) -> None:
        self._found = Found()

    def found(self) -> Found:
        """Return what has been unfolded so far; grammars keep what they began with."""
        found = self._found
        if len(found.rests) + len(found.behind) + len(found.openings) > MAX_COMMON:
            self._found = Found()
        return self._found


class Grammar:
    """A language of byte strings, unfolded while it is walked.

    Forms that other trees have, too (see `waggle.core.forms.Sequence.common`), with nothing but
    such forms behind them, are unfolded for all grammars that are given the same `Common`.
    """

    __slots__ = ("_common", "_form", "_own", "_root")

    def __init__(self, form: GrammarNode, common: Common | None = None) -> None:
        """Take a form that is known to be sound."""
        self._form = form
        self._own, self._common = Found(), Found() if common is None else common.found()
        first = None if common is None else self._opened(form)
        self._root = self._rest(form, None, is_common(form)) if first is None else first

    @staticmethod
    def of(form: GrammarNode | str) -> Grammar:
        """Check a form and return its language."""
        root = as_form(form)
        measured(root, {})  # refuses bad forms
        return Grammar(root)

    @staticmethod
    def of_strings(texts: Iterable[str]) -> Grammar:
        """Return an explicit set of admissible strings, sharing heads and tails."""
        words = sorted(set(texts))
        if not words:
            raise ConfigError("a grammar needs at least one admissible string; give it one")
        return Grammar.of(radix(words, {}))

    def start(self) -> State:
        """Return the state before the first byte."""
        return self.closure(self._root)

    def _opened(self, form: GrammarNode) -> State | None:
        """Return the first state of all forms that are like this one up to its own part."""
        found = opening(form)
        if found is None:
            return None
        key = found.key
        known = self._common.openings.get(key)
        if known is None:
            if not is_shared(found):
                return None
            items: dict[Item, None] = {}
            close = self._rest(found.close, None, True)
            empty = [self._unfold(option, close, items, True) for option in found.options]
            items[escaped(found.lead.text), Gate(found.lead, None, False)] = None
            if not is_far([label for label, _ in items]):
                return None
            choice = State(tuple(items), any(empty))
            known = State(((escaped(found.head.text), choice),), False), found
            self._common.openings[key] = known
        return known[0]

    def _gated(self) -> Rest | None:
        """Return what this grammar has for itself behind the gate."""
        found = opening(self._form)
        assert found is not None, "only an opening has a gate"
        return self._chain((found.own, found.behind), self._rest(found.close, None, True), False)

    def parts(self, state: State, data: bytes) -> bool:
        """Whether some bytes lead from a state towards what each grammar has for itself."""
        for label, target in state.items:
            past = data.startswith(label)
            if isinstance(target, Gate) and (past or label.startswith(data)):
                return True
            if past and isinstance(target, State) and self.parts(target, data[len(label) :]):
                return True
        return False

    def closure(self, target: Rest | State | None) -> State:
        """Return the state in which something is still to be spelled."""
        if target is None:
            return END
        if isinstance(target, State):
            return target
        if target.state is None:
            if isinstance(target, Gate):
                return self.closure(self._gated())
            items: dict[Item, None] = {}
            accepting = self._spread(target.form, target.after, items, target.shared)
            target.state = State(tuple(items), accepting)
        return target.state

    def goes_on(self, target: Rest | State | None) -> bool:
        """Whether anything may be spelled from here; without unfolding it where that is plain."""
        if isinstance(target, Rest) and target.state is None and spells(target.form):
            return True
        return bool(self.closure(target).items)

    def _rest(self, form: GrammarNode, after: Rest | None, shared: bool) -> Rest:
        """Return the rest of a form and what follows, the same one for the same two."""
        found = (self._common if shared else self._own).rests
        key = (id(form), id(after))
        known = found.get(key)
        if known is None:
            known = found[key] = Rest(form, after, shared)
        return known

    def _chain(
        self, parts: tuple[GrammarNode, ...], after: Rest | None, shared: bool
    ) -> Rest | None:
        for part in reversed(parts):
            common = shared or ((after is None or after.shared) and is_common(part))
            after = self._rest(part, after, common)
        return after

    def _unfold(
        self, form: GrammarNode, after: Rest | None, items: dict[Item, None], shared: bool
    ) -> bool:
        """Add what a form may begin with; whether all of it may also be nothing."""
        if is_common(form) and (after is None or after.shared):  # unfolded for all, once
            state = self.closure(self._rest(form, after, True))
            items.update(dict.fromkeys(state.items))
            return state.accepting
        return self._spread(form, after, items, shared)

    def _spread(
        self, form: GrammarNode, after: Rest | None, items: dict[Item, None], shared: bool
    ) -> bool:
        """Unfold a form whose own rest is not known yet."""
        if isinstance(form, Literal):
            return self._label(escaped(form.text), after, items)
        if isinstance(form, Sequence):
            first = self._chain(form.parts, after, shared)
            return first is None or self._unfold(first.form, first.after, items, first.shared)
        if isinstance(form, IntRange):
            for value in range(form.low, form.high + 1):
                self._label(b"%d" % value, after, items)
            return False
        if isinstance(form, Text):
            return self._label(b"", after, items)
        empty = [self._unfold(option, after, items, shared) for option in enumerable(form)]
        return any(empty)

    def _label(self, text: bytes, after: Rest | None, items: dict[Item, None]) -> bool:
        """Add a label that reaches to the next choice, so that a walk meets choices only."""
        forced, target = self._forced(after)
        if text or forced:
            items[(text + forced, target)] = None
            return False
        return target is None or self._unfold(target.form, target.after, items, target.shared)

    def _forced(self, rest: Rest | None) -> tuple[bytes, Rest | None]:
        """Return the literal text a rest begins with, and what is left behind it."""
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

    def advance(self, state: State, data: bytes) -> State | None:
        """Spell some bytes; None when no admissible string continues that way."""
        while len(state.items) == 1 and data:
            label, target = state.items[0]
            if len(data) < len(label):
                return self._within(label, data, target) if label.startswith(data) else None
            if not data.startswith(label):
                return None
            state, data = self.closure(target), data[len(label) :]
        return self._advance_all(state, data) if data else state

    def _within(self, label: bytes, data: bytes, target: Rest | State | None) -> State:
        """Return the state within a label; whichever option led to it, it is the same one."""
        item = (label[len(data) :], target)
        common = isinstance(target, Rest) and target.shared
        found = (self._common if common else self._own).behind
        known = found.get(item)
        if known is None:
            known = found[item] = State((item,), False)
        return known

    def _advance_all(self, state: State, data: bytes) -> State | None:
        reached: list[State] = []
        for label, target in state.items:
            if label.startswith(data):
                whole = len(label) == len(data)
                reached.append(self.closure(target) if whole else self._within(label, data, target))
            elif data.startswith(label):
                further = self.advance(self.closure(target), data[len(label) :])
                if further is not None:
                    reached.append(further)
        return merge(reached) if reached else None

    def accepts(self, text: str) -> bool:
        """Whether the text is one of the admissible strings."""
        state = self.advance(self.start(), text.encode())
        return state is not None and state.accepting
