"""chatter: messages attempted per local update."""

from waggle.core.record import EpisodeRecord
from waggle.plugins import metric


@metric("chatter", better="lower", unit="messages per update")
def chatter(episode: EpisodeRecord) -> float | None:
    """Return attempted messages per update, or None for an empty episode."""
    updates = sum(len(entry.updates) for entry in episode.rounds)
    return sum(entry.attempted for entry in episode.rounds) / updates if updates else None
