"""The data of a run: corpus, transitions and encoded records, made if they are missing.

A warm start that reads a token corpus needs none of them; they are then made in another process
while stage one is trained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from waggle import plugins
from waggle.core.protocols import Law
from waggle.corpus.curriculum import Curriculum, Progress, quiet
from waggle.corpus.settings import CorpusSettings
from waggle.corpus.store import Store
from waggle.corpus.teacher import label, make_teacher
from waggle.corpus.transitions import write
from waggle.engine import memory as gpu_memory
from waggle.laws.shipped import is_folder, of_folder
from waggle.process_pool import process_pool
from waggle.scd.config import Recipe
from waggle.scd.run import factorial

Timed: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""A context manager that times a named part of a run."""


class StageTwoData(NamedTuple):
    """The data that stage two reads from one corpus."""

    recipe: Recipe
    corpus: Path
    cells: Sequence[factorial.Cell]
    """Arms that follow the warm start; none if only the warm start is trained."""
    workers: int
    diagnosed: bool
    """Whether arms are diagnosed as well."""

    def make(self) -> None:
        """Make the decision corpus; play and encode transitions that need no warm start."""
        store = Store(self.corpus)
        if not _has(store, "decisions"):
            make_corpus(store, self.recipe.corpus, self.workers)
        player = self.recipe.transitions.law
        if self.cells and player != "warm-start":
            play_transitions(store, self.recipe, player, workers=self.workers)
            self.encode()

    def encode(self) -> None:
        """Encode all batches of stage two, and the views that arms are diagnosed on."""
        if self.diagnosed:
            factorial.prepare(self.cells, self.workers)
        else:
            stages = self.cells[0].stages()
            stages.workers = self.workers
            stages.stage_two_data()

    @contextmanager
    def made_beside(self, stage_one_needs_none: bool, timed: Timed) -> Iterator[None]:
        """Make everything before stage one or, if that needs none of it, during stage one."""
        if not stage_one_needs_none:
            with timed("corpus"):
                self.make()
            yield
            return
        with process_pool(1, _leave_process_group) as pool:
            made = pool.submit(self._replace(workers=max(1, self.workers - 2)).make)
            yield
            with timed("corpus, after stage one"):
                made.result()


def _leave_process_group() -> None:
    """Leave the group of distributed training processes, if there is one."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        os.environ.pop(name, None)


def _has(store: Store, part: str) -> bool:
    return store.exists() and bool(store.manifest().parts.get(part))


def make_corpus(store: Store, settings: CorpusSettings, workers: int = 1) -> None:
    """Build a corpus and let the expert label it."""
    if not _has(store, "views"):
        examples = Curriculum(settings).examples(workers)
        store.write("views", examples, settings.model_dump(mode="json"))
    label(store, make_teacher("expert", {}), workers=workers)


def play_transitions(
    store: Store, recipe: Recipe, player: str, *, progress: Progress = quiet, workers: int = 1
) -> None:
    """Collect transitions if the corpus has none; the player is a law's name or its folder."""
    if not _has(store, "transitions"):
        write(store, recipe.transitions, _law(player), order=recipe.order, progress=progress,
              workers=workers, again=partial(_loaded, player, workers),
              player=recipe.transitions.law)  # fmt: skip


def _law(player: str) -> Law:
    return of_folder(Path(player)) if is_folder(player) else plugins.get_law(player)


def _loaded(player: str, processes: int) -> Law:
    """Return a law for one of several processes that share the memory of a GPU."""
    law = _law(player)
    if (load := getattr(law, "load", None)) is not None:
        load()
        gpu_memory.keep_to(processes)
    return law
