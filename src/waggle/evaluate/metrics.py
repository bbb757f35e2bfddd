"""Built-in metrics: pure functions of one episode record (App. "Mechanism Measurements").

    waggle list metrics

None where a metric is not defined for the episode; knows nothing of laws or substrates.
"""

from __future__ import annotations

from collections.abc import Iterator

from waggle.core.record import STAGES, EpisodeRecord, UpdateRecord
from waggle.plugins import metric


def _updates(episode: EpisodeRecord) -> Iterator[UpdateRecord]:
    for entry in episode.rounds:
        yield from entry.updates


def _per_agent(episode: EpisodeRecord, counter: str) -> float:
    return episode.footer.counters.get(counter, 0) / episode.header.case.n


def _share(episode: EpisodeRecord, counter: str) -> float | None:
    updates = episode.footer.counters.get("updates", 0)
    return episode.footer.counters.get(counter, 0) / updates if updates else None


@metric("score", unit="native")
def score(episode: EpisodeRecord) -> float | None:
    """The substrate's headline score at the end of the episode."""
    return episode.footer.scores.get("score")


@metric("strict", unit="0 or 1")
def strict(episode: EpisodeRecord) -> float | None:
    """Whether everything was right: strict S on Silo, solved on AgentsNet."""
    return episode.footer.scores.get("strict")


@metric("messages", better="lower", unit="delivered per agent")
def messages(episode: EpisodeRecord) -> float | None:
    """Receiver-delivered messages per agent."""
    return _per_agent(episode, "messages.delivered")


@metric("attempted", better="lower", unit="sent per agent")
def attempted(episode: EpisodeRecord) -> float | None:
    """Messages sent per agent, one per receiver, whether they arrived or not."""
    return _per_agent(episode, "messages.attempted")


@metric("bytes", better="lower", unit="delivered per episode")
def volume(episode: EpisodeRecord) -> float | None:
    """Bytes of the delivered frames, where the substrate's frames carry data (Silo)."""
    return episode.footer.scores.get("bytes")


@metric("candidates", better="lower", unit="writes per episode")
def candidates(episode: EpisodeRecord) -> float | None:
    """Writes the law chose."""
    return float(episode.footer.counters.get("writes.candidate", 0))


@metric("executed", better="lower", unit="writes per episode")
def executed(episode: EpisodeRecord) -> float | None:
    """Writes that passed the transport's safeguards."""
    return float(episode.footer.counters.get("writes.executed", 0))


@metric("executable", unit="share of updates")
def executable(episode: EpisodeRecord) -> float | None:
    """Share of updates whose first decode was executable as emitted."""
    return _share(episode, "stage." + STAGES[0])


@metric("recruitment", unit="events per episode")
def recruitment(episode: EpisodeRecord) -> float | None:
    """Executed Deposit or Relay writes, plus actions guided by a field the law chose to follow."""
    writes = sum(
        1 for u in _updates(episode) for w in u.writes if w.cause is None and not w.challenge
    )
    guided = sum(
        u.decision.execution_intent == "FIELD" and u.bottom is None for u in _updates(episode)
    )
    return float(writes + guided)


@metric("readiness_to_commit", unit="events per episode")
def readiness_to_commit(episode: EpisodeRecord) -> float | None:
    """Transitions of a node from no commitment to one that its law chose."""
    held: dict[int, str | None] = {}
    events = 0
    for update in _updates(episode):
        before = held.get(update.node)
        if before is None and update.claim is not None:
            events += 1
        held[update.node] = update.claim
    return float(events)


@metric("reopenings", unit="events per episode")
def reopenings(episode: EpisodeRecord) -> float | None:
    """Commitments cleared by a verified challenge."""
    return float(episode.footer.counters.get("reopened", 0))


@metric("explore", unit="share of updates")
def explore(episode: EpisodeRecord) -> float | None:
    """Share of updates that executed a private action without a social write or commitment."""
    return _share(episode, "mode.Explore")


@metric("expiries", better="lower", unit="traces per episode")
def expiries(episode: EpisodeRecord) -> float | None:
    """Traces that reached the end of their lifetime."""
    return float(episode.footer.counters.get("expired", 0))


@metric("decay_mass", unit="bins")
def decay_mass(episode: EpisodeRecord) -> float | None:
    """Fall of the swarm's trace mass from its peak to the end of the episode."""
    mass = [sum(m.novelty + m.support for m in r.field.values()) for r in episode.rounds]
    return float(max(mass) - mass[-1]) if mass else None


@metric("calls", better="lower", unit="law calls per episode")
def calls(episode: EpisodeRecord) -> float | None:
    """Model calls, regenerations included."""
    return float(episode.footer.counters.get("calls", 0))


@metric("input_tokens", better="lower", unit="tokens per episode")
def input_tokens(episode: EpisodeRecord) -> float | None:
    """Prompt tokens of all model calls."""
    return float(episode.footer.counters.get("tokens.input", 0))


@metric("output_tokens", better="lower", unit="tokens per episode")
def output_tokens(episode: EpisodeRecord) -> float | None:
    """Generated tokens of all model calls."""
    return float(episode.footer.counters.get("tokens.output", 0))
