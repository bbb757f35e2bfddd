"""What is shown of one episode: progress or every round while it runs, and its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.progress import TextColumn, TimeRemainingColumn

from waggle.cli import console
from waggle.core.protocols import World
from waggle.core.record import STAGES, Footer, RoundRecord
from waggle.runtime.sync import Watcher

_SHOWN = 3
"""Claims named in one line of a watched round."""
_COSTS = (
    "calls", "tokens.input", "tokens.output", "model_steps", "failures",
    "worker.calls", "worker.reused", "worker.tokens.input", "worker.tokens.output",
    "worker.failures",
)  # fmt: skip


@contextmanager
def watching(world: World, *, watch: bool, quiet: bool) -> Iterator[Watcher]:
    """Yield a watcher for one episode: every round as a line with `watch`, else a bar."""
    if watch:
        yield Rounds()
        return
    with console.bars(
        TextColumn("{task.fields[score]}"), TimeRemainingColumn(), quiet=quiet
    ) as bar:
        job = bar.add_task("rounds", total=world.rounds, score="")

        def advance(entry: RoundRecord, _: World) -> None:
            bar.update(job, advance=1, score=_score(entry))

        yield advance


class Rounds:
    """A watcher that prints each round as one line, and draws the world where it can be drawn.

    It shows the commitments of the whole swarm by the substrate's own claims, which no node sees.
    """

    def __init__(self) -> None:
        self._held: dict[int, str | None] = {}

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Print one round."""
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


class Summary(NamedTuple):
    """What an episode came to: the same figures as JSON and as a table."""

    what: Mapping[str, Any]
    footer: Footer
    seconds: float
    record: Path
    metrics: Mapping[str, float | None]
    """Of plug-ins; those of this package follow from scores and counters."""

    def plain(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            **self.what,
            "rounds": self.footer.rounds,
            "scores": dict(self.footer.scores),
            "metrics": dict(self.metrics),
            "counters": dict(self.footer.counters),
            "seconds": self.seconds,
            "record": str(self.record),
        }

    def print(self) -> None:
        """Print the table, and the path of the record as the last line."""
        console.say("  ".join(f"{key} {value}" for key, value in self.what.items()))
        console.table(None, ("", ""), self._rows())
        console.say(f"record: {self.record}")

    def _rows(self) -> Iterator[tuple[str, object]]:
        count = self.footer.counters
        yield from self.footer.scores.items()
        yield from self.metrics.items()
        yield "rounds", self.footer.rounds
        for way in ("attempted", "delivered"):
            each = count.get(f"messages.{way}", 0) / max(1, int(self.what["n"]))
            yield f"messages {way} per agent", each
        for name in ("candidate", "executed", "refreshed"):
            yield f"writes {name}", count.get(f"writes.{name}", 0)
        yield from _prefixed(count, "writes.suppressed.", "writes suppressed: ")
        yield "commitments reopened", count.get("reopened", 0)
        yield from ((f"decodes {s}", count[f"stage.{s}"]) for s in STAGES if f"stage.{s}" in count)
        yield from _prefixed(count, "bottom.", "calls cancelled: ")
        yield from ((name.replace(".", " "), count[name]) for name in _COSTS if name in count)
        yield "seconds", self.seconds


def _prefixed(count: Mapping[str, int], prefix: str, label: str) -> Iterator[tuple[str, int]]:
    for name, value in count.items():
        if name.startswith(prefix):
            yield label + name.removeprefix(prefix), value
