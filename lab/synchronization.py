"""Does the credit of `waggle learn` find a rule for Synchronization when a table replaces the law?

    python -m lab.synchronization --batches 60 --seed 0

A row encodes whether the node's own light is on, how much of the horizon is left, and whether
another light in sight differs. Like the shipped law, the table begins by taking its private
proposal: that logit starts sixteen above the others, as samples of the law show. It sends no
messages. Prints the mean score of the sampled episodes, and the scores of the most likely decisions
on development cases: first with the sizes and rounds of `settings`, then with N = 16 and N = 32
over the hundred rounds of the tables.
"""

from collections.abc import Sequence

from lab.table import Row, play
from waggle.core.schema import MAX_BIN, Decision, View
from waggle.learn.config import Settings


class Synchronization:
    """The Synchronization game: an action and no message."""

    settings = Settings(
        tasks=("swarmbench/synchronization",), n=(4, 8), rounds=20, credit="progress", gained=True,
        discount=0.9, cases=14, replays=8,
    )  # fmt: skip
    rows: tuple[int, ...] = (2, MAX_BIN + 1, 2)
    choices: tuple[tuple[str, ...], ...] = (
        ("private", "SWITCH", "STAY", "UP", "DOWN", "LEFT", "RIGHT"),
    )
    head_start = 16.0

    def row(self, view: View) -> Row:
        """Return the table row of a view."""
        on = view.private.observation["light"] == "on"
        return int(on), view.budget, int(bool(view.private.evidence))

    def decision(self, view: View, taken: Sequence[str]) -> Decision:
        """Return the chosen action, or that of the private proposal."""
        action = view.proposal.action if taken[0] == "private" else taken[0]
        return Decision(action, None, (), None)


if __name__ == "__main__":
    game = Synchronization()
    far = [game.settings.model_copy(update={"n": (n,), "rounds": None}) for n in (16, 32)]
    play(game, __doc__, temperature=7.0, far=far)
