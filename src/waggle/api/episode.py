"""One finished episode: its scores, tables, pictures, views and decisions.

    episode = waggle.run("beacon", shock=True)
    episode.show(round=12, agent=3)     # what agent 3 saw in round 12, and what it said
    episode.save("runs"), episode.replay()

Everything is read from the episode's record. Rounds and agents count from 0, as they do there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from waggle import plugins
from waggle.api import screen, show
from waggle.api.findings import replacements, why_look, why_no_result
from waggle.api.given import MetricLike, find_metric
from waggle.api.grid import Grid, figure
from waggle.core.errors import ConfigError, RecordError
from waggle.core.protocols import Case, Substrate, World
from waggle.core.record import STAGES, EpisodeRecord, Footer, Header
from waggle.core.seeds import derive
from waggle.extras import install
from waggle.runtime import replay as replaying
from waggle.runtime.records import SUFFIX, RecordFile, read, record_name
from waggle.runtime.replay import Replay

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_COSTS = (
    "calls", "tokens.input", "tokens.output", "model_steps", "failures",
    "worker.calls", "worker.reused", "worker.tokens.input", "worker.tokens.output",
    "worker.failures", "worker.refused",
)  # fmt: skip


class Episode:
    """One finished episode. `record` holds all of it, entry by entry."""

    def __init__(
        self,
        record: EpisodeRecord,
        substrate: Substrate | None = None,
        seconds: float | None = None,
    ) -> None:
        """Take a record, and the substrate of its world if that has no registered name."""
        self.record = record
        self.seconds = seconds
        """Duration of play; None if the episode was not played here."""
        self._substrate = substrate

    @classmethod
    def load(cls, path: str | Path) -> Episode:
        """Read an episode from a record file of `save`, `waggle run` or `waggle eval --keep`."""
        return cls(read(Path(path)))

    @property
    def case(self) -> Case:
        """The case that was played: substrate, task, n, seed, rounds, shock, options."""
        return self.record.header.case

    @property
    def task(self) -> str:
        """The name of the task."""
        return plugins.Task(self.case.substrate, self.case.task).name

    @property
    def law(self) -> str:
        """The name of the law."""
        return self.record.header.law

    @property
    def score(self) -> float | None:
        """The headline score at the end."""
        return self.scores.get("score")

    @property
    def scores(self) -> Mapping[str, float]:
        """All scores at the end."""
        return self.record.footer.scores

    @property
    def counters(self) -> Mapping[str, int]:
        """Counts of messages, writes, decodes, calls and tokens."""
        return self.record.footer.counters

    @property
    def note(self) -> str:
        """One line on what stands against it as a result of its law; empty if nothing does."""
        failed = why_no_result(None, self.counters, self.record.header.worker)
        if failed:
            return f"no result: {failed}"
        return why_look(self.counters, replacements(self.record), "episode.show{}".format)

    def metric(self, metric: MetricLike) -> float | None:
        """Measure a metric, by name or a function of the record; None where it is undefined."""
        return find_metric(metric)(self.record)

    def show(self, round: int | None = None, agent: int | None = None) -> None:
        """Print what an agent saw and said in a round; without either, one line for each."""
        screen.write(show.text(self.record, round, agent))

    def to_frame(self, by: Literal["round", "update"] = "round") -> pandas.DataFrame:
        """Return a pandas DataFrame with a row for every round, or for every local update."""
        if by not in ("round", "update"):
            raise ConfigError(f"by is 'round' or 'update', not {by!r}")
        return frame(_rounds(self.record) if by == "round" else _updates(self.record))

    def plot(self, path: str | Path | None = None) -> Figure:
        """Plot the commitments and the scores over the rounds; save the figure if `path` is set."""
        from waggle.api import draw

        return draw.saved(draw.episode(self.record), path)

    def save(self, path: str | Path = "runs") -> Path:
        """Write the record to a file `*.jsonl.gz`, or into a folder under a generated name."""
        place = Path(path)
        if not place.name.endswith(SUFFIX):
            place = place_of(place, self.case, self.law, self.record.header)
        with RecordFile(place) as sink:
            sink.header(self.record.header)
            for entry in self.record.rounds:
                sink.round(entry)
            sink.footer(self.record.footer)
        return place

    def replay(self) -> Replay:
        """Recompute the episode without its law and compare everything with the record.

        Raises:
            RecordError: if the recorded world cannot be opened here.
        """
        try:
            return replaying.replay(self.record, open_world(self.record.header, self._substrate))
        except (msgspec.ValidationError, LookupError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise RecordError(f"it cannot be played ({reason}); run the case again") from None

    def __repr__(self) -> str:
        late = ", late counterevidence" if self.record.shock else ""
        note = self.note
        return (
            f"Episode({self.task}, {self.law}, n={self.case.n}, seed={self.case.seed}{late}: "
            f"score {figure(self.score)} after {self.record.footer.rounds} rounds"
            f"{f'; {note}' if note else ''})"
        )

    def _repr_html_(self) -> str:
        rows = list(summary(self.record.footer, self.case.n))
        return Grid(("", ""), rows).html(repr(self))


def open_world(header: Header, substrate: Substrate | None = None) -> World:
    """Open the recorded case, after validation of the untrusted header.

    Raises:
        ValueError: for an impossible case.
        LookupError: for a substrate that is not installed.
    """
    case = header.case
    if len(header.keys) != case.n or sorted(header.keys) != list(range(case.n)):
        raise ValueError(f"its keys are no permutation of {case.n} nodes")
    substrate = substrate or plugins.get_substrate(case.substrate)
    if case.task not in substrate.tasks:
        raise ValueError(f"{case.substrate} has no task {case.task!r}")
    return substrate.open(case, header.keys)


def summary(
    footer: Footer, n: int, metrics: Mapping[str, float | None] = MappingProxyType({})
) -> Iterator[tuple[str, object]]:
    """Yield the results of an episode: scores, given metrics, traffic, decodes, costs."""
    count = footer.counters
    yield from footer.scores.items()
    yield from metrics.items()
    yield "rounds", footer.rounds
    for way in ("attempted", "delivered"):
        yield f"messages {way} per agent", count.get(f"messages.{way}", 0) / max(1, n)
    for name in ("candidate", "executed", "refreshed"):
        yield f"writes {name}", count.get(f"writes.{name}", 0)
    yield from _prefixed(count, "writes.suppressed.", "writes suppressed: ")
    yield "commitments reopened", count.get("reopened", 0)
    yield from ((f"decodes {s}", count[f"stage.{s}"]) for s in STAGES if f"stage.{s}" in count)
    yield from _prefixed(count, "bottom.", "calls cancelled: ")
    yield from ((re.sub("[._]", " ", name), count[name]) for name in _COSTS if name in count)
    if "cost" in count:
        yield "cost", count["cost"] / 1e6


def _prefixed(count: Mapping[str, int], prefix: str, label: str) -> Iterator[tuple[str, int]]:
    for name, value in count.items():
        if name.startswith(prefix):
            yield label + name.removeprefix(prefix), value


def place_of(folder: Path, case: Case, law: str, settings: object) -> Path:
    """Return a record's path; its name covers all settings, so that none replaces another."""
    digest = derive(0, "record", repr(msgspec.to_builtins((case, settings)))) >> 32
    task = case.task if case.task == case.substrate else f"{case.substrate}-{case.task}"
    return folder / record_name(task, case.n, case.seed, f"{law}_{digest:08x}")


def frame(rows: Iterator[dict[str, Any]]) -> pandas.DataFrame:
    """Return rows as a pandas DataFrame.

    Raises:
        ConfigError: if pandas is not installed, with the command that installs it.
    """
    try:
        import pandas
    except ImportError:
        raise ConfigError(f"frames need pandas; install it with `{install('report')}`") from None
    return pandas.DataFrame(list(rows))


def _rounds(record: EpisodeRecord) -> Iterator[dict[str, Any]]:
    held: dict[int, str | None] = {}
    for entry in record.rounds:
        held.update((update.node, update.claim) for update in entry.updates)
        yield {
            "round": entry.round,
            **entry.score,
            "committed": sum(claim is not None for claim in held.values()),
            "reopened": sum(update.reopened is not None for update in entry.updates),
            "attempted": entry.attempted,
            "delivered": entry.delivered,
            "expired": entry.expired,
            "shock": entry.shock is not None,
        }


def _updates(record: EpisodeRecord) -> Iterator[dict[str, Any]]:
    for entry in record.rounds:
        for update in entry.updates:
            yield {
                "round": entry.round,
                "agent": update.node,
                "mode": update.mode,
                "action": update.decision.task_action,
                "response": update.decision.response,
                "native": update.native,
                "claim": update.claim,
                "confidence": update.confidence,
                "reopened": update.reopened,
                "executed": sum(write.cause is None for write in update.writes),
                "suppressed": sum(write.cause is not None for write in update.writes),
                "stage": update.stage,
                "codes": " ".join(update.codes),
                "calls": update.usage.calls,
                "input_tokens": update.usage.input_tokens,
                "output_tokens": update.usage.output_tokens,
                "failures": update.usage.failures,
            }
