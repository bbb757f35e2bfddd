"""What `waggle train` and `waggle tune` share: making the corpus, progress, time per phase."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import TextColumn, TimeRemainingColumn

from waggle.cli import console
from waggle.cli.options import make_law
from waggle.cli.training.corpus import make_corpus
from waggle.corpus.curriculum import Progress as Tell
from waggle.corpus.curriculum import quiet
from waggle.corpus.store import Store
from waggle.crew import crew

if TYPE_CHECKING:
    from waggle.scd.config import Recipe
    from waggle.scd.run.factorial import Cell
    from waggle.scd.train.trainer import Watch

_SHOWN = ("nll", "orbit.accuracy", "field", "validation.nll")


class Ahead(NamedTuple):
    """The data of stage two that can be made before the warm start is trained."""

    recipe: Recipe
    corpus: Path
    cells: list[Cell]
    """Arms that follow the warm start; none if only the warm start is trained."""
    workers: int
    diagnosed: bool
    """Whether arms are diagnosed as well."""

    def make(self) -> None:
        """Make the decision corpus; play and encode transitions that need no warm start."""
        store = Store(self.corpus)
        if not (store.exists() and store.manifest().parts.get("decisions")):
            make_corpus(self.corpus, self.recipe.corpus, self.workers)
        if self.cells and self.recipe.transitions.law != "warm-start":
            player = self.recipe.transitions.law
            play_transitions(store, self.recipe, player, workers=self.workers)
            self.encode()

    def encode(self) -> None:
        """Encode all batches of stage two, and the views that arms are diagnosed on."""
        from waggle.scd.run import factorial

        if self.diagnosed:
            factorial.prepare(self.cells, self.workers)
        else:
            stages = self.cells[0].stages()
            stages.workers = self.workers
            stages.stage_two_data()


@contextmanager
def beside(ahead: Ahead, harvested: bool, phases: Phases) -> Iterator[None]:
    """Make the data of stage two: in another process during stage one if that needs none of it."""
    if not harvested:
        with phases("corpus"):
            ahead.make()
        yield
        return
    with crew(1, _alone) as pool:
        made = pool.submit(ahead._replace(workers=max(1, ahead.workers - 2)).make)
        yield
        with phases("corpus, after stage one"):
            made.result()


def _alone() -> None:
    """Leave the group of distributed training processes, if there is one."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        os.environ.pop(name, None)


def play_transitions(
    store: Store, recipe: Recipe, player: str, *, tell: Tell = quiet, workers: int = 1
) -> None:  # fmt: skip
    """Collect transitions if the corpus has none."""
    if store.manifest().parts.get("transitions"):
        return
    from waggle.corpus.transitions import write

    again = partial(make_law, player)
    write(store, recipe.transitions, again(), order=recipe.order, progress=tell, workers=workers,
          again=again)  # fmt: skip


class Phases:
    """How long each part of a run took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time a part."""
        start = time.perf_counter()
        yield
        self._seconds[name] = round(time.perf_counter() - start, 1)
        console.note(f"{name}: {self._seconds[name]} s")

    def show(self, out: Path) -> None:
        """Print the table and keep it beside the run."""
        rows = [*self._seconds.items(), ("all", round(sum(self._seconds.values()), 1))]
        console.table("Seconds per phase", ("phase", "seconds"), rows, right=1)
        (out / "phases.json").write_text(json.dumps(self._seconds, indent=1), encoding="utf-8")


@contextmanager
def watching() -> Iterator[Watch]:
    """Show a bar with the latest metrics on a terminal; elsewhere a line for every validation."""
    with console.bars(TextColumn("{task.fields[now]}"), TimeRemainingColumn()) as bar:
        job = bar.add_task("updates", total=None, now="")

        def watch(update: int, updates: int, values: Mapping[str, float]) -> None:
            bar.update(job, completed=update + 1, total=updates, now=_now(values))
            if bar.disable and "validation.nll" in values:
                console.note(f"update {update + 1}/{updates}  {_now(values)}")

        yield watch


def _now(values: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {values[name]:.4f}" for name in _SHOWN if name in values)
