"""The engine's grammar of a view: the texts that a constrained answer may take.

Free response texts cannot be enumerated, so the grammar allows only the responses that the view
offers, or an empty response if it offers none. Invariant: every text of the grammar is an
admissible record.
"""

from __future__ import annotations

from waggle.core.grammar import grammar
from waggle.core.schema import View
from waggle.engine.constraint.grammar import Grammar, SharedStates


def view_grammar(view: View, shared: SharedStates | None = None) -> Grammar:
    """Return the grammar of a view's admissible records over the shared states of an engine."""
    return Grammar(grammar(view), shared)
