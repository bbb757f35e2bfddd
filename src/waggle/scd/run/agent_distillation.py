"""Agent Distillation: fine-tuning on successful teacher trajectories, with observations masked.

    RUN/corpus/                     turns of kept trajectories, as a decision corpus
    RUN/seed-0/warm-start/law/      the student

The teacher plays training seeds in the transient form (`waggle.baselines.peers`): its messages live
for one round and nothing is held. A trajectory is the views and decisions of one node in an
episode. It is kept if all its records were executable as written and the node's own answer was
right or, in a task without a score per node, the episode's score was positive. Long trajectories
give one window of consecutive turns, short ones all turns. A turn is one record; the loss covers
the teacher's decision only, not the view. The trainer is that of stage one. Invariant: the same
recipe gives the same corpus, whatever the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from waggle import plugins
from waggle.baselines.peers.agent_distillation import Transient
from waggle.core.protocols import Case, World
from waggle.core.record import EXECUTABLE, EpisodeRecord, UpdateRecord
from waggle.core.seeds import Split, derive, require
from waggle.corpus.curriculum import Progress, quiet
from waggle.corpus.settings import Names, Rounds
from waggle.corpus.store import CorpusError, Example, Store
from waggle.corpus.transitions import SEEDS
from waggle.corpus.views.native import TRAINING, training_tasks, view_head, whole_view
from waggle.process_pool import mapped
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine
from waggle.scd.config import Positive, Recipe
from waggle.scd.run.stages import Stages
from waggle.scd.train.trainer import Watch, unwatched

TRIES = 40
"""Maximum number of episodes, as a multiple of those needed if all trajectories were kept."""


class TrajectorySettings(BaseModel):
    """Settings of the collection of trajectories."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    tasks: Names = TRAINING
    """Training tasks; a substrate alone stands for all its tasks. Transfer tasks are refused."""
    teacher: str = "expert"
    """The law that plays, by name."""
    options: dict[str, Any] = {}
    """Options of the teacher, such as the address of a chat endpoint."""
    train: Positive = 800
    """Number of training trajectories, in equal shares per substrate."""
    validation: Positive = 40
    """Number of validation trajectories, by which a checkpoint is selected."""
    turns: Positive = 10
    """Number of consecutive turns kept per trajectory; a Silo episode has ten."""
    spread: Positive = 4
    """Maximum number of trajectories from one episode."""
    epochs: Positive = 2
    """Number of passes over all turns; it determines the number of updates."""
    n: Annotated[tuple[Annotated[int, Field(ge=2)], ...], Field(min_length=1)] = (8, 16, 32)
    """Swarm sizes."""
    rounds: Rounds = None
    """Rounds of an episode; by default the task's own horizon."""


class DistillRecipe(Recipe):
    """A recipe of Agent Distillation: settings of the trajectories and of the training."""

    trajectories: TrajectorySettings = TrajectorySettings()

    def source(self) -> str:
        """Return a short description of the training data."""
        own = self.trajectories
        return (
            f"{own.train} trajectories that ended well, at most {own.turns} turns of each, "
            f"{own.epochs} epochs"
        )


class _Play:
    """A callable that plays an episode of one split and returns its kept trajectories."""

    def __init__(self, settings: TrajectorySettings, split: str) -> None:
        self._settings, self._split = settings, split
        self._root = derive(0, "trajectories", split)
        tasks = training_tasks(settings.tasks)
        names = dict.fromkeys(task.substrate for task in tasks)
        self.families = [[t for t in tasks if t.substrate == name] for name in names]

    def __call__(self, law: Transient, episode: int) -> list[list[Example]]:
        case = self._case(episode)
        world, memory = plugins.get_substrate(case.substrate).open(case), Memory()
        Engine(world, law, case, sinks=[memory]).play()
        return self._kept(memory.record(), world)

    def _case(self, episode: int) -> Case:
        own = self.families[episode % len(self.families)]
        task = own[episode // len(self.families) % len(own)]
        pool = SEEDS[self._split]
        seed = require(pool[derive(self._root, "seed", episode) % len(pool)], Split.TRAIN)
        n = self._settings.n[derive(self._root, "n", episode) % len(self._settings.n)]
        return Case(task.substrate, task.task, n, seed, self._settings.rounds)

    def _kept(self, record: EpisodeRecord, world: World) -> list[list[Example]]:
        """Return at most `spread` successful trajectories, from nodes in a random order."""
        found: dict[int, list[tuple[int, UpdateRecord]]] = {}
        for entry in record.rounds:
            for update in entry.updates:
                found.setdefault(update.node, []).append((entry.round, update))
        root = derive(self._root, "kept", record.header.case.task, record.header.case.seed)
        nodes = sorted(found, key=lambda node: derive(root, "node", node))
        good = [
            node
            for node in nodes
            if ended_well(world, node, record.footer.scores["score"])
            and all(update.stage in EXECUTABLE for _, update in found[node])
        ]
        return [
            list(self._turns(record, found[node], derive(root, "window", node)))
            for node in good[: self._settings.spread]
        ]

    def _turns(
        self, record: EpisodeRecord, updates: Sequence[tuple[int, UpdateRecord]], draw: int
    ) -> Iterator[Example]:
        """Yield one window of consecutive turns."""
        length, case = self._settings.turns, record.header.case
        start = draw % max(1, len(updates) - length + 1)
        for round, update in updates[start : start + length]:
            yield Example(
                f"{case.substrate}/{case.task}:{case.n}:{case.seed}:{round}:{update.node}",
                case.substrate,
                "trajectory",
                msgspec.Raw(whole_view(view_head(record), update.view)),
                decision=update.decision,
                teacher=self._settings.teacher,
            )


def ended_well(world: World, node: int, score: float) -> bool:
    """Return whether a node's trajectory counts as successful."""
    share: Callable[[int], float | None] | None = getattr(world, "share", None)
    own = None if share is None else share(node)
    return score > 0 if own is None else own == 1.0


def _teacher(settings: TrajectorySettings) -> Transient:
    return Transient(plugins.get_law(settings.teacher, **settings.options))


def collect(
    settings: TrajectorySettings, *, workers: int = 1, progress: Progress = quiet
) -> dict[str, list[Example]]:
    """Play until every split has enough trajectories of every substrate; return their turns.

    Raises:
        CorpusError: if too few of the teacher's trajectories are successful.
    """
    rows: dict[str, list[Example]] = {}
    with mapped(workers, partial(_teacher, settings)) as run:
        for split, wanted in (("train", settings.train), ("validation", settings.validation)):
            play = _Play(settings, split)
            count = len(play.families)
            room = [-(-wanted // count)] * count
            rows[split] = []
            most = TRIES * count * -(-wanted // settings.spread)
            for episode, kept in enumerate(run(play, range(most))):
                family = episode % count
                for turns in kept[: room[family]]:
                    rows[split] += turns
                room[family] -= min(room[family], len(kept))
                progress(f"trajectories {split}", wanted - sum(room), wanted)
                if not any(room):
                    break
            else:
                raise CorpusError(
                    f"teacher {settings.teacher!r} ended well too seldom: {sum(room)} trajectories "
                    f"of {split!r} are missing after {most} episodes; name smaller n or another one"
                )
    return rows


def distil(
    recipe: DistillRecipe, out: Path, *, workers: int = 1, watch: Watch = unwatched,
    progress: Progress = quiet,
) -> Path:  # fmt: skip
    """Collect trajectories if they are missing, train the student, and return its law.

    Raises:
        CorpusError: if the folder holds trajectories of other settings.
    """
    store, settings = Store(out / "corpus"), recipe.trajectories
    asked = {**settings.model_dump(mode="json"), "refused": 0}
    if not store.exists():
        rows = collect(settings, workers=workers, progress=progress)
        store.write("decisions", rows, asked)
    elif {**store.manifest().settings.get("decisions", {}), "epochs": settings.epochs} != asked:
        raise CorpusError(
            f"{store.path} holds trajectories of other settings; choose another --out or delete it"
        )
    stages = Stages(planned(recipe, store), store.path, out, 0, watch=watch, workers=workers)
    law = stages.warm_start()
    stages.tidy(law)
    return law


def planned(recipe: DistillRecipe, store: Store) -> DistillRecipe:
    """Return the recipe with the number of updates that its epochs take on this corpus."""
    turns = sum(shard.rows for shard in store.splits("decisions")["train"])
    stage = recipe.stage_one
    updates = -(-recipe.trajectories.epochs * turns // stage.batch)
    return recipe.model_copy(update={"stage_one": stage.model_copy(update={"updates": updates})})


def budget(settings: TrajectorySettings, batch: int) -> Mapping[str, int]:
    """Return upper limits on the trajectories, turns and updates of a recipe."""
    turns = settings.train * settings.turns
    return {
        "trajectories": settings.train + settings.validation,
        "turns": turns,
        "updates": -(-settings.epochs * turns // batch),
    }
