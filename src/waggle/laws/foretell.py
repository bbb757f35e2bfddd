"""What a trained law will probably say: what its teacher would.

A law that imitates its teacher nine times in ten is drafted by it: the teacher's record is run
behind the prompt, and the model verifies it in that one pass. `WAGGLE_DRAFTS=skeleton` leaves it
out. Invariant: drafts change speed, never an answer; the teacher sees the law's own view.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from waggle import plugins
from waggle.core.canon import encode_decision
from waggle.core.errors import ConfigError
from waggle.core.options import responses
from waggle.core.protocols import Law, Request
from waggle.core.schema import Decision, View
from waggle.core.templates import contains
from waggle.laws.dialogue import Dialogue

VARIABLE = "WAGGLE_DRAFTS"
KINDS = ("teacher", "skeleton")
"""Who drafts; the first unless the environment says otherwise."""


class Foretold:
    """What the teacher says of one view, found when it is asked for."""

    __slots__ = ("_decision", "_teacher", "_view")

    def __init__(self, teacher: Teacher, view: View) -> None:
        self._teacher = teacher
        self._view = view
        self._decision: Decision | None = None

    def tokens(self) -> tuple[int, ...]:
        """Return the record in tokens, or nothing where there is none."""
        try:
            output = self._teacher.law.decide([Request(self._view)])[0].output
        except Exception:  # a draft is worth no failure of what is decided
            return ()
        if not isinstance(output, Decision):
            return ()
        self._decision = output
        return tuple(self._teacher.dialogue.spell([encode_decision(output).decode()])[0])

    def fits(self) -> bool:
        """Whether the record is one of the view's templates, spelled as their grammar does."""
        said = self._decision
        if said is None or not (said.response or "").isascii():
            return False
        return contains(self._view, said) and self._offered(said)

    def _offered(self, said: Decision) -> bool:
        """Whether a response is one that the grammar lists: a free text is not."""
        return said.response is None or said.response in responses(self._view)


class Teacher(NamedTuple):
    """A law that needs no model, and how its records are spelled."""

    law: Law
    dialogue: Dialogue

    def of(self, view: View) -> Foretold:
        """Return what will be said of a view."""
        return Foretold(self, view)


def teacher(name: str, dialogue: Dialogue) -> Teacher | None:
    """Return the teacher of that name, if it is one and teachers are to draft.

    Raises:
        ConfigError: when the environment names no kind of drafts.
    """
    wish = os.environ.get(VARIABLE, KINDS[0])
    if wish not in KINDS:
        raise ConfigError(f"{VARIABLE} is {wish!r}; set it to {' or '.join(KINDS)} or not at all")
    if wish != "teacher" or name not in plugins.names("law"):
        return None
    law = plugins.get_law(name)
    return None if getattr(law, "batched", False) else Teacher(law, dialogue)
