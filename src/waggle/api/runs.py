"""Many finished episodes: a table of means with intervals, a frame, a plot.

    runs = waggle.sweep("beacon", ["heuristic", "nocomm"], range(10_000, 10_005))
    runs                       # mean with interval and count for every task and law
    runs.to_frame()            # one row for every episode

A `Runs` holds rows like those of `waggle eval`; `Runs.load` reads any run directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waggle.api.episode import Episode, frame
from waggle.api.grid import Grid, figure
from waggle.core.errors import ConfigError, suggest
from waggle.evaluate import plan
from waggle.evaluate.episodes import RECORDS
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row, RowFile, read_rows
from waggle.evaluate.stats import Interval, paired
from waggle.plugins import Task
from waggle.runtime.records import SUFFIX

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

SHOWN_FAILURES = 3
"""Number of failed episodes whose reason a repr shows."""


class Mean(NamedTuple):
    """The mean of one metric over the episodes of one task, law and size."""

    task: str
    law: str
    n: int
    metric: str
    mean: float
    low: float
    """Lower end of the 95 % bootstrap interval."""
    high: float
    """Upper end of the 95 % bootstrap interval."""
    episodes: int


class Summary(tuple[Mean, ...]):
    """Means with intervals; printed as a table with one line for every task, law and size."""

    __slots__ = ()

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with a row for every mean."""
        return frame(mean._asdict() for mean in self)

    def __repr__(self) -> str:
        return self._grid().text()

    def _repr_html_(self) -> str:
        return self._grid().html()

    def _grid(self) -> Grid:
        metrics = list(dict.fromkeys(mean.metric for mean in self))
        lines: dict[tuple[str, str, int], dict[str, Mean]] = {}
        for mean in self:
            lines.setdefault((mean.task, mean.law, mean.n), {})[mean.metric] = mean
        rows = [
            (task, law, n, max(mean.episodes for mean in found.values()),
             *(_interval(found.get(metric)) for metric in metrics))
            for (task, law, n), found in lines.items()
        ]  # fmt: skip
        return Grid(("task", "law", "n", "episodes", *metrics), rows, right=2)


def _interval(mean: Mean | None) -> str:
    if mean is None:
        return figure(None)
    if mean.episodes == 1:
        return figure(mean.mean)
    return f"{figure(mean.mean)} [{figure(mean.low)}, {figure(mean.high)}]"


class Runs:
    """Finished episodes of tasks, laws and seeds. `rows` holds one entry for each."""

    def __init__(
        self,
        rows: Sequence[Row],
        recipe: Recipe,
        *,
        planned: int | None = None,
        metrics: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        """Take rows and the recipe they were played with; `metrics` are shown beside the score."""
        self.rows = tuple(rows)
        self.recipe = recipe
        self.folder = folder
        """The run directory, if there is one."""
        self.left = 0 if planned is None else planned - len(self.rows)
        """Number of planned episodes that were not played, after an interruption."""
        self._metrics = tuple(metrics)
        self._laws = plan.called(recipe, recipe.methods)

    @classmethod
    def load(cls, folder: str | Path) -> Runs:
        """Read a run directory of `sweep` or `waggle eval`, or an archive of one."""
        place = Path(folder)
        return cls(read_rows(place), plan.load_run(place), folder=place)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Rows of episodes that could not be played; `error` has the reason."""
        return tuple(row for row in self.rows if row.error)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def law(self, row: Row) -> str:
        """Return the name of the law that played a row."""
        return self._laws.get(row.method, row.method)

    def summary(self, *metrics: str) -> Summary:
        """Return means with 95 % bootstrap intervals over the episodes of a task, law and size.

        Args:
            *metrics: names of metrics or scores; by default the score and the sweep's own metrics.

        Raises:
            ConfigError: for a name that no episode has.
        """
        found = []
        for metric in metrics or ("score", *self._metrics):
            values: dict[tuple[str, str, int], list[float]] = {}
            for row in self.rows:
                value = self._value(row, metric)
                if value is not None:
                    values.setdefault((_task(row), self.law(row), row.n), []).append(value)
            for (task, law, n), own in values.items():
                mean, low, high, count, _ = paired(own)
                found.append(Mean(task, law, n, metric, mean, low, high, count))
        return Summary(sorted(found, key=lambda mean: (mean.task, mean.n)))

    def _value(self, row: Row, metric: str) -> float | None:
        if row.error:
            return None
        known = {**row.metrics, **row.scores}
        if metric not in known and not any(metric in {**r.metrics, **r.scores} for r in self.rows):
            hint = suggest(metric, list(known))
            raise ConfigError(f"no metric {metric!r}; there are {', '.join(sorted(known))}{hint}")
        return known.get(metric)

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with a row for every episode: its case, scores and metrics."""
        return frame(self._cells())

    def _cells(self) -> Iterator[dict[str, Any]]:
        measured = {
            name: None
            for row in self.rows
            for name, value in row.metrics.items()
            if value is not None and name not in row.scores
        }
        for row in self.rows:
            yield {
                "task": _task(row),
                "law": self.law(row),
                "n": row.n,
                "seed": row.seed,
                "rounds": row.rounds,
                "shock": row.shock,
                **row.options,
                **row.scores,
                **{name: row.metrics.get(name) for name in measured},
                "error": row.error,
            }

    def plot(self, *metrics: str, path: str | Path | None = None) -> Figure:
        """Plot the means of all laws with their intervals; save the figure if `path` is set."""
        from waggle.api import draw

        found = self.summary(*metrics)
        several = len({mean.n for mean in found}) > 1
        panels: dict[str, dict[str, dict[str, Interval]]] = {}
        places: dict[str, None] = {}
        for mean in found:
            place = f"{mean.task} N={mean.n}" if several else mean.task
            places[place] = None
            interval = Interval(mean.mean, mean.low, mean.high, mean.episodes)
            panels.setdefault(mean.metric, {}).setdefault(mean.law, {})[place] = interval
        if not panels:
            raise ConfigError("there is nothing to draw; play an episode first")
        return draw.saved(draw.compared(panels, list(places)), path)

    def episode(self, *, seed: int, law: str = "", task: str = "", n: int | None = None) -> Episode:
        """Return one episode from its kept record (`sweep(..., folder=..., keep=True)`).

        Raises:
            ConfigError: if no kept episode, or more than one, matches.
        """
        found = [
            row
            for row in self.rows
            if row.seed == seed and law in ("", self.law(row)) and task in ("", _task(row))
            and n in (None, row.n) and not row.error
        ]  # fmt: skip
        if len(found) != 1:
            raise ConfigError(f"{len(found)} episodes are meant; name seed, law, task and n of one")
        name = f"{found[0].method}_{found[0].cell}{SUFFIX}"
        path = None if self.folder is None else self.folder / RECORDS / name
        if path is None or not path.exists():
            raise ConfigError("its record was not kept; sweep with a folder and keep=True")
        return Episode.load(path)

    def save(self, folder: str | Path) -> Path:
        """Write the rows into a folder, which `waggle report` and `Runs.load` read."""
        place = Path(folder)
        if (place / plan.RUN_RECIPE).exists():
            raise ConfigError(f"{place} holds another run; name a new folder")
        plan.write_run(place, self.recipe)
        rows = RowFile(place)
        try:
            for row in self.rows:
                rows.append(row)
        finally:
            rows.close()
        return place

    def __repr__(self) -> str:
        return "\n".join((self._head(), repr(self.summary()))).rstrip()

    def _repr_html_(self) -> str:
        return self.summary()._grid().html(self._head())

    def _head(self) -> str:
        left = f", {self.left} left" if self.left else ""
        lost = f", {len(self.failed)} failed" if self.failed else ""
        where = f" in {self.folder}" if self.folder else ""
        reasons = [f"; {self.law(row)}: {row.error}" for row in self.failed[:SHOWN_FAILURES]]
        faults = {name: why for row in self.rows for name, why in (row.faults or {}).items()}
        reasons += [f"; metric {name}: {why}" for name, why in faults.items()]
        return f"Runs: {len(self.rows)} episodes{left}{lost}{where}{''.join(reasons)}"


def _task(row: Row) -> str:
    return Task(row.substrate, row.task).name
