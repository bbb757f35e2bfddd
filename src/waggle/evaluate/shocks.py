"""Reorganization after late counterevidence, read off the record (App. "Primary Factorial").

All functions are pure and None without an injection. Recovery asks for the whole loop: nodes
committed to the refuted claim reopen through verified conflict, a replacement is synthesized, and
the new claim ends ahead of the old. Event recovery is the paper's wording (at least one node);
outcome recovery looks at shares alone, so that an ablation cannot fail it by definition.
"""

from __future__ import annotations

from typing import NamedTuple

from waggle.core.record import EpisodeRecord, RoundRecord, UpdateRecord
from waggle.plugins import metric


class Shares(NamedTuple):
    """Commitment shares over the whole swarm after one round."""

    round: int
    old: float
    new: float
    none: float


def _is_new(episode: EpisodeRecord, claim: str | None) -> bool:
    """Whether a claim rests on the counterevidence: named by it or, unnamed, not refuted by it."""
    shock = episode.shock
    if shock is None or claim is None or claim in shock.old_claims:
        return False
    return claim in shock.new_claims if shock.new_claims else True


def shares(episode: EpisodeRecord) -> list[Shares]:
    """Return the commitment shares of refuted, new and no claim, round by round."""
    shock, n = episode.shock, episode.header.case.n
    if shock is None:
        return []
    held: dict[int, str | None] = {}
    rows = []
    for entry in episode.rounds:
        held.update({u.node: u.claim for u in entry.updates})
        claims = list(held.values())
        old = sum(c in shock.old_claims for c in claims if c is not None)
        new = sum(_is_new(episode, c) for c in claims)
        committed = sum(c is not None for c in claims)
        rows.append(Shares(entry.round, old / n, new / n, 1 - committed / n))
    return rows


def _after(episode: EpisodeRecord) -> tuple[RoundRecord, ...]:
    shock = episode.shock
    return () if shock is None else episode.rounds[shock.round :]


def committed_before(episode: EpisodeRecord) -> set[int]:
    """Return the nodes that held a refuted claim when the counterevidence came."""
    shock = episode.shock
    if shock is None:
        return set()
    held: dict[int, str | None] = {}
    for entry in episode.rounds[: shock.round]:
        held.update({u.node: u.claim for u in entry.updates})
    return {node for node, claim in held.items() if claim in shock.old_claims}


def reopened_after(episode: EpisodeRecord) -> set[int]:
    """Return the nodes whose verified conflict cleared a refuted claim since."""
    shock = episode.shock
    if shock is None:
        return set()
    return {u.node for r in _after(episode) for u in r.updates if u.reopened in shock.old_claims}


def _synthesized(episode: EpisodeRecord, update: UpdateRecord) -> bool:
    """Whether an update that took effect committed its node to a claim of the new evidence."""
    took = update.bottom is None and update.decision.commit is not None
    return took and _is_new(episode, update.claim)


def _new_ahead(episode: EpisodeRecord) -> bool:
    last = shares(episode)[-1]
    return last.new > last.old


@metric("recovery", unit="0 or 1")
def recovery(episode: EpisodeRecord) -> float | None:
    """Half of those committed to the old claim reopen, a replacement forms, the new ends ahead."""
    if episode.shock is None:
        return None
    before = committed_before(episode)
    reopened = reopened_after(episode) & before
    formed = any(_synthesized(episode, u) for r in _after(episode) for u in r.updates)
    enough = bool(before) and 2 * len(reopened) >= len(before)
    return float(enough and formed and _new_ahead(episode))


@metric("event_recovery", unit="0 or 1")
def event_recovery(episode: EpisodeRecord) -> float | None:
    """At least one node reopens through verified conflict and a replacement is synthesized."""
    if episode.shock is None:
        return None
    formed = any(_synthesized(episode, u) for r in _after(episode) for u in r.updates)
    return float(bool(reopened_after(episode)) and formed)


@metric("outcome_recovery", unit="0 or 1")
def outcome_recovery(episode: EpisodeRecord) -> float | None:
    """The new claim's share ends above the old one's, however that came about."""
    return None if episode.shock is None else float(_new_ahead(episode))


@metric("resynthesis_latency", better="lower", unit="round-equivalents")
def resynthesis_latency(episode: EpisodeRecord) -> float | None:
    """Completed local updates from injection to the first replacement, divided by N."""
    done = 0
    for entry in _after(episode):
        for update in entry.updates:
            done += update.bottom is None
        if any(_synthesized(episode, u) for u in entry.updates):
            return done / episode.header.case.n
    return None


@metric("stale_auc", better="lower", unit="trace mass per agent x rounds")
def stale_auc(episode: EpisodeRecord) -> float | None:
    """Area under the mass that still supports a refuted claim, after the injection."""
    shock = episode.shock
    if shock is None:
        return None
    mass = sum(
        m.novelty + m.support
        for entry in _after(episode)
        for claim, m in entry.field.items()
        if claim in shock.old_claims
    )
    return mass / episode.header.case.n


@metric("post_messages", better="lower", unit="delivered per agent")
def post_messages(episode: EpisodeRecord) -> float | None:
    """Messages per agent delivered from the injection on."""
    if episode.shock is None:
        return None
    return sum(entry.delivered for entry in _after(episode)) / episode.header.case.n


def activity(episode: EpisodeRecord) -> list[tuple[int, int, int]]:
    """Return (round, challenges, syntheses) for every round; what was cancelled is neither."""
    rows = []
    for entry in episode.rounds:
        modes = [u.mode for u in entry.updates if u.bottom is None]
        rows.append((entry.round, modes.count("Challenge"), modes.count("Synthesize")))
    return rows
