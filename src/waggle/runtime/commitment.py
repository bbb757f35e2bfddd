"""Readiness and commitment: which claims may be committed to; form, hold, reopen.

The readiness gate is a fixed local test of support and coherence (App. "SwarmBench"); it counts
incident channels, not distinct origins of evidence. `commit: null` keeps the held claim. A verified
positive-conflict write on the held claim clears it; only then, or when nothing is held, may another
claim take its place. The irreversible-quorum switch keeps the first commitment for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, hypot, sqrt

from waggle.core.protocols import HeldTrace
from waggle.core.relations import clears
from waggle.core.schema import Decision
from waggle.runtime.state import Node, ShownView
from waggle.runtime.switches import Switches

_HALF = sqrt(0.5)
_UNIT = {
    "N": (0.0, -1.0), "NE": (_HALF, -_HALF), "E": (1.0, 0.0), "SE": (_HALF, _HALF),
    "S": (0.0, 1.0), "SW": (-_HALF, _HALF), "W": (-1.0, 0.0), "NW": (-_HALF, -_HALF),
}  # fmt: skip  # fmt: skip


def coherence(traces: Iterable[HeldTrace]) -> float:
    """Return |sum of support x unit direction| / sum of support; HERE and None agree with all.

    Sums are exactly rounded, so the order of the traces cannot matter.
    """
    held = [t for t in traces if t.support > 0]
    total = sum(t.support for t in held)
    if total == 0:
        return 0.0
    pointed = [(t.support, _UNIT[t.direction]) for t in held if t.direction in _UNIT]
    free = total - sum(s for s, _ in pointed)
    if not pointed:
        return 1.0
    x = fsum(s * u[0] for s, u in pointed)
    y = fsum(s * u[1] for s, u in pointed)
    return (hypot(x, y) + free) / total


def gate(
    traces: Iterable[HeldTrace], refuted: frozenset[str], switches: Switches
) -> tuple[str, ...]:
    """Return the claims that pass the gate, in no meaningful order.

    Args:
        traces: the traces that the node holds.
        refuted: claims that its own evidence contradicts; they are never ready.
        switches: the thresholds.
    """
    by_claim: dict[str, list[HeldTrace]] = {}
    for trace in traces:
        by_claim.setdefault(trace.claim, []).append(trace)
    return tuple(
        claim
        for claim, held in by_claim.items()
        if len(held) >= switches.channels
        and claim not in refuted
        and sum(t.support for t in held) >= switches.support
        and not any(t.conflict for t in held)
        and coherence(held) >= switches.coherence
    )


def update(
    state: Node, shown: ShownView, decision: Decision, switches: Switches, round: int, most: int = 0
) -> str | None:
    """Apply the commitment part of an admitted decision; return the claim it reopened, if any.

    If `most` is not 0, a claim that was reopened `most` times within a window is kept.
    """
    held = state.claim
    if held is not None and not switches.reversible:
        return None
    reopened = held if held is not None and clears(shown.view, decision) else None
    if reopened is not None and most and not state.reopenings.take(reopened, round, most):
        return None
    if reopened is not None:
        state.claim, state.confidence = None, 0
    if decision.commit is not None:
        state.claim = shown.claims[decision.commit.claim]
        state.confidence = decision.commit.confidence_bin
    return reopened
