"""The summary of one episode: the same figures as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waggle.cli import console
from waggle.core.record import STAGES, Footer

_BEFORE_LAST = ("calls", "tokens.input", "tokens.output", "model_steps", "failures")


@dataclass(frozen=True)
class Summary:
    """What an episode came to."""

    what: Mapping[str, Any]
    footer: Footer
    seconds: float | None
    record: Path

    def plain(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            **self.what,
            "rounds": self.footer.rounds,
            "scores": dict(self.footer.scores),
            "counters": dict(self.footer.counters),
            "seconds": self.seconds,
            "record": str(self.record),
        }

    def print(self) -> None:
        """Print the table, and where the record lies as the last line."""
        title = "  ".join(f"{key} {value}" for key, value in self.what.items())
        console.say(title)
        console.table(None, ("", ""), self._rows())
        console.say(f"record: {self.record}")

    def _rows(self) -> Iterator[tuple[str, object]]:
        count = self.footer.counters
        yield from self.footer.scores.items()
        yield "rounds", self.footer.rounds
        agents = max(1, int(self.what["n"]))
        for way in ("attempted", "delivered"):
            yield f"messages {way} per agent", count.get(f"messages.{way}", 0) / agents
        for name in ("candidate", "executed", "refreshed"):
            yield f"writes {name}", count.get(f"writes.{name}", 0)
        yield from _prefixed(count, "writes.suppressed.", "writes suppressed: ")
        yield "commitments reopened", count.get("reopened", 0)
        yield from ((f"decodes {s}", count[f"stage.{s}"]) for s in STAGES if f"stage.{s}" in count)
        yield from _prefixed(count, "bottom.", "calls cancelled: ")
        yield from ((name.replace(".", " "), count[name]) for name in _BEFORE_LAST if name in count)
        if self.seconds is not None:
            yield "seconds", self.seconds


def _prefixed(count: Mapping[str, int], prefix: str, label: str) -> Iterator[tuple[str, int]]:
    for name, value in count.items():
        if name.startswith(prefix):
            yield label + name.removeprefix(prefix), value
