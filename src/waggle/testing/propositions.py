"""Propositions 1 and 2, Corollary 1 and admission soundness, checked on played episodes.

`relabelling` plays a case twice, the second time with permuted bodies and fresh opaque names, and
compares; `asymmetry` asks whether an episode is its own image; `unfounded` re-derives from each
recorded view, without the validator's code, that no executed write amplifies what its node could
vouch for or pass on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from waggle.core.order import Order
from waggle.core.protocols import Case, Law, Substrate
from waggle.core.record import EpisodeRecord, UpdateRecord
from waggle.core.schema import MAX_TTL, Evidence, Trace, View
from waggle.runtime.replay import view_of
from waggle.testing.episodes import ENGINES, REGIMES, EngineName, Regime, permutation, play
from waggle.testing.relabel import first_difference


def relabelling(
    substrate: Substrate,
    law: Law,
    case: Case,
    *,
    order: Order = "shuffled",
    engines: Sequence[EngineName] = ENGINES,
    regimes: Sequence[Regime] = REGIMES,
) -> str | None:
    """Return the first place where relabelling the swarm changes more than labels, or None.

    Every pair of engine and regime has its own permutation and names: two draws of a name may
    agree by chance in what a law reads of it, so one draw would let some such laws pass.
    """
    pairs = product(engines, regimes)
    for salt, (engine, regime) in enumerate(pairs, start=1):
        original, relabelled = (
            play(
                substrate,
                law,
                case,
                engine=engine,
                order=order,
                perturbation=regime.perturbation,
                keys=bodies,
                salt=names,
            )
            for bodies, names in ((None, 0), (permutation(case.n, case.seed + salt), salt))
        )
        found = first_difference(original, relabelled)
        if found is not None:
            return f"{engine} engine, {regime.name}: {found}"
    return None


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
    """Return what an update did, in world words, with its receivers moved by a permutation."""
    writes = frozenset(
        (w.claim, frozenset(image[node] for node in w.receivers), w.fresh, w.challenge, w.cause)
        for w in update.writes
    )
    return (update.native, update.mode, update.claim, update.confidence, update.reopened, writes)


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
