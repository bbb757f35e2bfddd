"""Built-in metrics: pure functions of one episode record (App. "Mechanism Measurements").

    waggle list metrics

A metric is None where it is not defined for the episode. It does not depend on laws or substrates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from waggle.core.record import STAGES, EpisodeRecord, UpdateRecord
from waggle.plugins import Metric, metric

Compute: TypeAlias = Callable[[EpisodeRecord], "float | None"]


def _score(name: str) -> Compute:
    return lambda episode: episode.footer.scores.get(name)


def _counter(name: str) -> Compute:
    return lambda episode: float(episode.footer.counters.get(name, 0))


def _per_agent(counter: str) -> Compute:
    return lambda episode: episode.footer.counters.get(counter, 0) / episode.header.case.n


def _share_of_updates(counter: str) -> Compute:
    def compute(episode: EpisodeRecord) -> float | None:
        updates = episode.footer.counters.get("updates", 0)
        return episode.footer.counters.get(counter, 0) / updates if updates else None

    return compute


score = Metric("score", _score("score"), unit="native")
"""The substrate's headline score at the end of the episode."""
strict = Metric("strict", _score("strict"), unit="0 or 1")
"""Whether everything was right: strict S on Silo, solved on AgentsNet."""
honest = Metric("honest", _score("honest"), unit="mean share")
"""Mean success of the honest nodes, where some are Byzantine and success is defined per node.

On AgentsNet it is the mean of the honest nodes' parts of the soft score. Only the mean over all
nodes is the score; this one can lie a little above 1 or below 0."""
messages = Metric("messages", _per_agent("messages.delivered"), "lower", "delivered per agent")
"""Receiver-delivered messages per agent."""
attempted = Metric("attempted", _per_agent("messages.attempted"), "lower", "sent per agent")
"""Messages sent per agent, one per receiver, whether they arrived or not."""
volume = Metric("bytes", _score("bytes"), "lower", "delivered per episode")
"""Bytes of the delivered frames, where the substrate's frames carry data (Silo)."""
candidates = Metric("candidates", _counter("writes.candidate"), "lower", "writes per episode")
"""Writes the law chose."""
executed = Metric("executed", _counter("writes.executed"), "lower", "writes per episode")
"""Writes that passed the transport's safeguards."""
executable = Metric("executable", _share_of_updates(f"stage.{STAGES[0]}"), unit="share of updates")
"""Share of updates whose first decode was executable as emitted."""
reopenings = Metric("reopenings", _counter("reopened"), unit="events per episode")
"""Commitments cleared by a verified challenge."""
explore = Metric("explore", _share_of_updates("mode.Explore"), unit="share of updates")
"""Share of updates that executed a private action without a social write or commitment."""
expiries = Metric("expiries", _counter("expired"), "lower", "traces per episode")
"""Traces that reached the end of their lifetime."""
calls = Metric("calls", _counter("calls"), "lower", "law calls per episode")
"""Model calls, regenerations included."""
input_tokens = Metric("input_tokens", _counter("tokens.input"), "lower", "tokens per episode")
"""Prompt tokens of all model calls."""
output_tokens = Metric("output_tokens", _counter("tokens.output"), "lower", "tokens per episode")
"""Generated tokens of all model calls."""


def _updates(episode: EpisodeRecord) -> Iterator[UpdateRecord]:
    for entry in episode.rounds:
        yield from entry.updates


@metric("recruitment", unit="events per episode")
def recruitment(episode: EpisodeRecord) -> float | None:
    """Count executed Deposit or Relay writes and actions guided by a field the law follows."""
    writes = sum(
        1 for u in _updates(episode) for w in u.writes if w.cause is None and not w.challenge
    )
    guided = sum(
        u.decision.execution_intent == "FIELD" and u.bottom is None for u in _updates(episode)
    )
    return float(writes + guided)


@metric("readiness_to_commit", unit="events per episode")
def readiness_to_commit(episode: EpisodeRecord) -> float | None:
    """Count the transitions of a node from no commitment to one that its law chose."""
    held: dict[int, str | None] = {}
    events = 0
    for update in _updates(episode):
        before = held.get(update.node)
        if before is None and update.claim is not None:
            events += 1
        held[update.node] = update.claim
    return float(events)


@metric("decay_mass", unit="bins")
def decay_mass(episode: EpisodeRecord) -> float | None:
    """Return the fall of the swarm's trace mass from its peak to the end of the episode."""
    mass = [sum(m.novelty + m.support for m in r.field.values()) for r in episode.rounds]
    return float(max(mass) - mass[-1]) if mass else None
