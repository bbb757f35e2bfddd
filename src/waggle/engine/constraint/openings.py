"""How records begin: forms that differ in one part of their own, far behind the first choice.

Views that may answer differ in the answer itself, and most of them do not give it. What stands
before it is the same for many, so their grammars have its states in common, up to a gate: behind
that each has a rest of its own. Invariant: no lookahead from a common state reaches past a gate.
"""

from __future__ import annotations

from typing import NamedTuple

from waggle.core.forms import Alternatives, GrammarNode, Literal, Sequence
from waggle.engine.constraint.form_making import common_prefix, spells

LOOKAHEAD = 8
"""Bytes spelled past the forced text, so that a token is not cut by the end of the lookahead."""


class Opening(NamedTuple):
    """A form by its parts: a text, then common options or a lead with something own behind it."""

    head: Literal
    lead: Literal
    own: GrammarNode
    behind: GrammarNode
    """What follows the own part."""
    close: GrammarNode
    """What follows every option."""
    options: tuple[GrammarNode, ...]

    @property
    def key(self) -> tuple[int, ...]:
        """Everything but the own part, by identity."""
        shared = self.head, self.lead, self.behind, self.close
        return (*map(id, shared), *map(id, self.options))


def is_common(form: GrammarNode) -> bool:
    """Whether other trees have this very node."""
    return isinstance(form, Sequence) and form.common


def opening(form: GrammarNode) -> Opening | None:
    """Take a form apart; None where it is of another build."""
    if not isinstance(form, Sequence) or form.common or len(form.parts) != 3:
        return None
    head, choice, close = form.parts
    if not isinstance(choice, Alternatives) or not isinstance(head, Literal):
        return None
    last = choice.options[-1]
    if not isinstance(last, Sequence) or last.common or len(last.parts) != 3:
        return None
    lead, own, behind = last.parts
    if not isinstance(lead, Literal):
        return None
    return Opening(head, lead, own, behind, close, choice.options[:-1])


def is_shared(found: Opening) -> bool:
    """Whether all but the own part is common, so that other forms may begin with it, too."""
    common = all(map(is_common, (found.behind, found.close, *found.options)))
    return common and bool(found.options) and spells(found.behind)


def is_far(labels: list[bytes]) -> bool:
    """Whether no lookahead from the first choice reaches behind the last label, which is the lead.

    A walk that has taken some of the lead is no longer common.
    """
    return len(labels[-1]) >= len(common_prefix(labels)) + LOOKAHEAD
