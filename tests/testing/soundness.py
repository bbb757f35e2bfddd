"""Corollary 1 and admission soundness, asked of records alone.

`asymmetry` asks whether an episode is its own image; `unfounded` derives again from each recorded
view, without the validator's code, that no executed write amplifies what its node could support or
relay.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.core.record import EpisodeRecord, UpdateRecord
from waggle.core.schema import MAX_TTL, Evidence, Trace, View
from waggle.runtime.replay import view_of
from waggle.testing.propositions import writes_of


def asymmetry(record: EpisodeRecord, image: Sequence[int]) -> str | None:
    """Return where an episode stops being its own image under a permutation of nodes, or None.

    Corollary 1: a deterministic swarm keeps every symmetry that its start and its draws have.
    """
    for entry in record.rounds:
        done = {update.node: update for update in entry.updates}
        for node, update in done.items():
            here = _effect(update, image)
            there = _effect(done[image[node]], range(len(image)))
            if here != there:
                return f"round {entry.round}: node {node} and its image differ: {here}, {there}"
    return None


def _effect(update: UpdateRecord, image: Sequence[int]) -> tuple[object, ...]:
    """Return what an update did, with its receivers moved by a permutation."""
    held = (update.claim, update.confidence, update.reopened)
    return (update.native, update.mode, *held, writes_of(update, image))


def unfounded(record: EpisodeRecord) -> str | None:
    """Return the first executed write that neither evidence nor an incident trace bounds."""
    for entry in record.rounds:
        for update in entry.updates:
            if update.bottom is not None:
                continue
            view = view_of(record.header, update)
            for deposit in update.decision.deposits:
                if not _bounded(view, deposit):
                    return f"round {entry.round}: {deposit} exceeds everything in its view"
    return None


def _bounded(view: View, deposit: Trace) -> bool:
    """Whether some row of the view is at least the deposit in every component and lives longer."""
    bounds: list[tuple[Evidence | Trace, int]] = [(e, MAX_TTL) for e in view.private.evidence]
    bounds += [(trace, trace.ttl - 1) for trace in view.traces]
    return any(
        row.claim == deposit.claim
        and row.direction == deposit.direction
        and row.novelty >= deposit.novelty
        and row.support >= deposit.support
        and row.conflict >= deposit.conflict
        and ttl >= deposit.ttl
        for row, ttl in bounds
    )
