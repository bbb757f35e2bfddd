"""Where grammars begin alike: one first choice for all views that differ in their response alone.

The response that a view offers stands behind one of its acts; whatever follows the other acts is
the same for many views. So their first choice is looked through once for all, and who takes an act
that all have goes on where others went before; only who takes the other act unfolds a grammar of
its own. Invariant: this changes speed, never a language: a head is shared by grammars that cannot
be told apart as far as its lookahead reaches, and by tokens that lead to the very same forms.
"""

from __future__ import annotations

from typing import NamedTuple

from waggle.core.forms import Alternatives, GrammarNode, Literal, Sequence, Text
from waggle.engine.form_making import common_prefix, escaped, spells
from waggle.engine.grammar import State, is_common
from waggle.engine.looks import LOOKAHEAD, Memo
from waggle.engine.vocabulary import Vocabulary


class Outline(NamedTuple):
    """A form as others have it: a text, options that are common or begin with a text, an end."""

    key: tuple[object, ...]
    """Equal where that is equal; nodes stand for themselves by identity."""
    lead: str
    own: tuple[str, ...]
    """What the options begin with that are not common."""


class Head(NamedTuple):
    """The first choice of all grammars of one outline, and the forced tokens before it."""

    state: State
    """Has no place in any grammar: only where it leads is asked of it."""
    run: tuple[int, ...]
    own: tuple[bytes, ...]
    kept: tuple[GrammarNode, Vocabulary]
    """What is known by identity must live."""

    def parts(self, data: bytes) -> bool:
        """Whether some bytes may begin an option that is not common."""
        return any(text.startswith(data) or data.startswith(text) for text in self.own)


def outline(form: GrammarNode) -> Outline | None:
    """Return the outline of a form; None where it has none, or is common as it is."""
    if not isinstance(form, Sequence) or form.common or len(form.parts) < 2:
        return None
    lead, fork, *rest = form.parts
    if not (isinstance(lead, Literal) and isinstance(fork, Alternatives)):
        return None
    if not all(map(is_common, rest)):
        return None
    options = [id(option) if is_common(option) else _begin(option) for option in fork.options]
    if None in options:
        return None
    own = tuple([begin for begin in options if isinstance(begin, str)])
    return Outline((lead.text, tuple(options), tuple(map(id, rest))), lead.text, own)


def _begin(option: GrammarNode) -> str | None:
    """Return the text that an option begins with, if a choice follows, and then more text."""
    if not isinstance(option, Sequence) or len(option.parts) < 3:
        return None
    text, choice, *rest = option.parts
    if not (isinstance(text, Literal) and isinstance(choice, Alternatives | Text)):
        return None
    return text.text if any(map(spells, rest)) else None


def head(
    vocabulary: Vocabulary, form: GrammarNode, sketch: Outline, fork: State, run: tuple[int, ...]
) -> Head | None:
    """Return what others may begin with, given the first choice of one grammar of an outline.

    None where that choice is not the one between the options, or is told by more of an own option
    than the text it begins with.
    """
    own = tuple(map(escaped, sketch.own))
    spelled = b"".join(map(vocabulary.spelling, run))
    if not fork.items or spelled != escaped(sketch.lead):
        return None
    seen = len(common_prefix([label for label, _ in fork.items])) + LOOKAHEAD
    if any(len(text) < seen for text in own):
        return None
    state = State(fork.items, fork.accepting)
    state.memo = Memo(vocabulary, fork.memo.look)
    return Head(state, run, own, (form, vocabulary))
