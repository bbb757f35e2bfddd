"""Text output while a swarm plays: notes, results and, if requested, a line for every round.

Results go to standard output, notes to standard error.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

from rich.console import Console

from waggle.api.grid import figure, shown
from waggle.core.protocols import World
from waggle.core.record import RoundRecord

SHOWN_CLAIMS = 3
"""Number of claims named in one line of a watched round."""


def out(width: int | None = None) -> Console:
    """Return a console on the current standard output, with the detected width if none is given."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False, width=width)


def err() -> Console:
    """Return a console on the current standard error."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a line to standard error."""
    err().print(shown(text), markup=False)


def say(text: str) -> None:
    """Print one line of the result."""
    out().print(shown(text), markup=False)


def write(text: str) -> None:
    """Print a text of many lines without wrapping it to the screen."""
    sys.stdout.write(shown(text) + "\n")


class Rounds:
    """A watcher that prints each round as one line, and draws the world where it can be drawn.

    It shows the commitments of the whole swarm in the substrate's own claims, which no node sees.
    """

    def __init__(self, tell: Callable[[str], None] = note) -> None:
        self._tell = tell
        self._held: dict[int, str | None] = {}

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Print one round."""
        if entry.shock is not None:
            self._tell(f"      -- late counterevidence: {entry.shock.note or 'injected'} --")
        self._held.update((u.node, u.claim) for u in entry.updates)
        picture = world.render()
        if "\n" in picture:
            self._tell(picture)
            picture = ""
        self._tell(self._line(entry, world.n, picture))

    def _line(self, entry: RoundRecord, n: int, picture: str) -> str:
        claims = Counter(claim for claim in self._held.values() if claim is not None)
        held = sum(claims.values())
        top = ", ".join(f"{claim} {count}" for claim, count in claims.most_common(SHOWN_CLAIMS))
        reopened = sum(u.reopened is not None for u in entry.updates)
        again = f"  reopened {reopened}" if reopened else ""
        parts = (
            f"{entry.round:4d}",
            picture,
            f"{score_of(entry):14} committed {held}/{n}",
            f"messages {entry.delivered}{again}",
            f"({top})" if top else "",
        )
        return "  ".join(part for part in parts if part)


def score_of(entry: RoundRecord) -> str:
    """Return the score after a round as readable text."""
    return f"score {figure(entry.score.get('score'))}"
