"""From the neutral grammar of a view to the engine's: what a constrained answer may spell.

A free response text is not enumerable, so it stands for the responses the view itself offers, as
random-legal has it; where none is offered the response is empty. Invariant: every spelled text is
an admissible record.
"""

from __future__ import annotations

from waggle.core.grammar import grammar
from waggle.core.schema import View
from waggle.engine.constraint.grammar import Common, Grammar


def view_grammar(view: View, common: Common | None = None) -> Grammar:
    """Return the grammar of a view's admissible records, for an engine.

    Args:
        view: whose records.
        common: what the grammars of that engine have in common, so that this one begins with it.
    """
    return Grammar(grammar(view), common)  # sound as it is made
