"""Conflict and commitment: form, hold, reopen.

`commit: null` keeps what is held. A verified positive-conflict write on the held claim clears it;
only then, or when nothing is held, may another claim take its place. The irreversible-quorum
switch keeps the first commitment for good.
"""

from __future__ import annotations

from waggle.core.relations import clears
from waggle.core.schema import Decision
from waggle.runtime.state import Node, Shown
from waggle.runtime.switches import Switches


def update(state: Node, shown: Shown, decision: Decision, switches: Switches) -> str | None:
    """Apply the commitment part of an admitted decision; return the claim it reopened, if any."""
    held = state.claim
    if held is not None and not switches.reversible:
        return None
    reopened = held if held is not None and clears(shown.view, decision) else None
    if reopened is not None:
        state.claim, state.confidence = None, 0
    if decision.commit is not None:
        state.claim = shown.claims[decision.commit.claim]
        state.confidence = decision.commit.confidence_bin
    return reopened
