"""Does the credit of `waggle learn` find leader election when a table replaces the law?

    python -m lab.leader_election --temperature 2 --batches 60 --seed 0

A row encodes whether the node's own priority is the smallest it holds, whether the node answers
Yes, whether some contact lacks the smallest, and whether a contact answers Yes. Like the laws, the
table begins by answering No, depositing its own claim and relaying nothing. Prints the mean score
of the sampled episodes and that of the most likely decisions on development cases.
"""

from collections.abc import Sequence

from lab.table import Row, play
from waggle.core.relations import relay_ttl
from waggle.core.schema import BROADCAST, MAX_BIN, MAX_TTL, Decision, Trace, View
from waggle.laws import moves
from waggle.learn.config import Settings


class LeaderElection:
    """The leader election game: an answer, and a message about one of two claims or none."""

    settings = Settings(
        tasks=("agentsnet/leader_election",), n=(6, 8, 11, 13, 16), credit="progress", discount=0.9,
        vary={"family": ("ws", "ba", "dt"), "index": (0, 1, 2)}, cases=12, replays=8,
    )  # fmt: skip
    rows: tuple[int, ...] = (2, 2, 2, 2)
    choices: tuple[tuple[str, ...], ...] = (("No", "Yes"), ("own", "smallest", "none"))
    head_start = 6.0

    def row(self, view: View) -> Row:
        """Return the table row of a view."""
        shown = view.private.observation
        smallest = next(row for row in view.private.claims if row.facts["order"] == 0)
        contacts = [port.facts.get("answer") for port in view.private.channels]
        facts = (
            shown["order"] == 0,
            shown["answer"] == "Yes",
            smallest.facts["untold"],
            "Yes" in contacts,
        )
        return tuple(int(bool(fact)) for fact in facts)

    def decision(self, view: View, taken: Sequence[str]) -> Decision:
        """Return the decision that gives the chosen answer and sends the chosen message."""
        return Decision(taken[0], None, written(view, taken[1]), None)


def written(view: View, message: str) -> tuple[Trace, ...]:
    """Return the deposits that carry out a message choice."""
    smallest = next(row for row in view.private.claims if row.facts["order"] == 0)
    if view.budget == 0 or message == "none":
        return ()
    if message == "own" or smallest.facts["own"]:
        own = view.private.evidence[0]
        return (Trace(BROADCAST, own.claim, own.novelty, MAX_BIN, 0, MAX_TTL),)
    alive = [trace for trace in view.traces if trace.claim == smallest.claim and relay_ttl(trace)]
    longest = max(alive, key=lambda t: (t.ttl, t.novelty, t.support), default=None)
    return () if longest is None else (moves.relay(longest, BROADCAST),)


if __name__ == "__main__":
    play(LeaderElection(), __doc__, temperature=2.0)
