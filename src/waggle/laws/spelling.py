"""The grammar of a view for the engine: what a constrained answer may spell.

A free response text cannot be enumerated, so it stands for the responses that the view offers;
where the view offers none, the response is empty. Invariant: every spelled text is an admissible
record.
"""

from __future__ import annotations

from waggle.core.grammar import grammar
from waggle.core.schema import View
from waggle.engine.constraint.grammar import Grammar, SharedStates


def view_grammar(view: View, shared: SharedStates | None = None) -> Grammar:
    """Return the grammar of a view's admissible records over the shared states of an engine."""
    return Grammar(grammar(view), shared)
