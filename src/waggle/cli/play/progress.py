"""What is to be seen while an episode runs: a bar, or with `--watch` every round as it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from waggle.cli import console
from waggle.core.protocols import World
from waggle.core.record import RoundRecord
from waggle.runtime.sync import Watcher

_SHOWN = 3
"""Claims named in one line of the story."""


@contextmanager
def watching(world: World, *, watch: bool, quiet: bool) -> Iterator[Watcher | None]:
    """Give the engine a watcher for one episode, or None where nobody looks."""
    if watch:
        yield Story()
    elif quiet or not console.err().is_terminal:
        yield None
    else:
        with _bar() as bar:
            job = bar.add_task("rounds", total=world.rounds, score="")

            def advance(entry: RoundRecord, _: World) -> None:
                bar.update(job, advance=1, score=_score(entry))

            yield advance


def _bar() -> Progress:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[score]}"), TimeRemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=console.err(), transient=True)


class Story:
    """A watcher that tells each round in one line, and draws the world where it can be drawn.

    The commitments of the whole swarm are shown by the substrate's own claims: this is the
    analyst's seat, which no node has.
    """

    def __init__(self) -> None:
        self._held: dict[int, str | None] = {}

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Tell one round."""
        if entry.shock is not None:
            console.note(f"      -- late counterevidence: {entry.shock.note or 'injected'} --")
        self._held.update((u.node, u.claim) for u in entry.updates)
        picture = world.render()
        if "\n" in picture:
            console.note(picture)
            picture = ""
        console.note(self._line(entry, world.n, picture))

    def _line(self, entry: RoundRecord, n: int, picture: str) -> str:
        claims = Counter(claim for claim in self._held.values() if claim is not None)
        held = sum(claims.values())
        top = ", ".join(f"{claim} {count}" for claim, count in claims.most_common(_SHOWN))
        reopened = sum(u.reopened is not None for u in entry.updates)
        again = f"  reopened {reopened}" if reopened else ""
        parts = (
            f"{entry.round + 1:4d}",
            picture,
            f"{_score(entry):14} committed {held}/{n}",
            f"messages {entry.delivered}{again}",
            f"({top})" if top else "",
        )
        return "  ".join(part for part in parts if part)


def _score(entry: RoundRecord) -> str:
    return f"score {console.figure(entry.score.get('score'))}"
