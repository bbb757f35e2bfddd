"""The two stages of a run, from corpus folder to exported law.

    RUN/seed-S/warm-start/   stage one: decision loss only, shared by the four arms
    RUN/seed-S/ARM/          stage two: Eq. scd with the arm's weights

Each holds metrics.jsonl, best/ and law/, and checkpoints/ until the run is done. A completed stage
is not repeated. Arms of a factorial are paired by their warm start: an arm that began with another
one is neither resumed nor counted. Every arm stores a digest of its warm start's law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.core.seeds import derive
from waggle.corpus.curriculum import quiet
from waggle.corpus.store import Store
from waggle.laws.digest import digest, look
from waggle.scd.config import Arm, Recipe, weights
from waggle.scd.data import harvest
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import Batches, token_batches, token_validation
from waggle.scd.data.encode import EncodedCorpus, decision_batches, scd_batches
from waggle.scd.files import LAW, about
from waggle.scd.heads import Heads
from waggle.scd.model import Student, free_memory, tokenizer_of
from waggle.scd.ship import export
from waggle.scd.train import checkpoint
from waggle.scd.train.distributed import Processes
from waggle.scd.train.objective import Objective
from waggle.scd.train.trainer import Plan, Trainer, Watch, unwatched

WARM_START = "warm-start"
BEGAN_WITH = "began with"
"""Key of an arm's card and result: the digest of its warm start."""


class Stages:
    """The training stages of one recipe, corpus and seed."""

    def __init__(
        self, recipe: Recipe, corpus: Path, out: Path, seed: int, *, watch: Watch = unwatched,
        workers: int = 1, start: Path | None = None, student: Student | None = None,
        processes: Processes | None = None,
    ) -> None:  # fmt: skip
        """Set up a run; nothing is trained yet.

        Args:
            recipe: the recipe.
            corpus: folder of the corpus.
            out: folder of the run.
            seed: the training seed.
            watch: called after every update.
            workers: number of processes that encode and harvest.
            start: folder of the arms' warm start, if it is not the one of this run.
            student: a student of this recipe to train arms with; its weights are replaced.
            processes: the group of training processes; by default that of this process.
        """
        self.workers, self._student = workers, student
        self._tokens: dict[str, Rows] | None = None
        self.recipe, self.store, self.seed = recipe, Store(corpus), seed
        self.folder = out / f"seed-{seed}"
        self._given, self._start = start, start or self.folder / WARM_START
        self._watch = watch
        self.processes = processes or Processes()

    def warm_start(self, until: int | None = None) -> Path:
        """Train stage one, or return its law if it is complete.

        Raises:
            ConfigError: if a given warm start is incomplete, or is another recipe's.
        """
        if self._given is not None:
            return check_warm_start(self._given, self.recipe)
        law = self._start / LAW
        if self._finished(law):
            return law
        recipe, seed = self.recipe, derive(self.seed, "stage one")
        if self.harvested:
            tokens = self.tokens()
            batches = token_batches(tokens["train"], recipe.stage_one, seed)
            count = recipe.run.validation_records
            validation = token_validation(tokens["validation"], seed, count)
        else:
            batches, validation = self._encoded(
                lambda corpus: decision_batches(corpus, recipe.stage_one, seed)
            )
        # LoRA's draw depends on the seed alone, so that the arms start from the same weights.
        student = Student(recipe, derive(self.seed, "adapter"), self.processes.device)
        plan = Plan(
            recipe.stage_one, recipe.run, seed, self._identity("one", None),
            f"{recipe.name}-{WARM_START}-{self.seed}",
        )  # fmt: skip
        objective = Objective(recipe.stage_one, mean=recipe.reduction == "mean")
        trainer = self._trainer(student, objective, batches, validation, plan, self._start)
        return self._finish(trainer, None, until)

    def arm(self, arm: Arm, until: int | None = None) -> Path:
        """Train stage two of one arm from the shared warm start, or return its law."""
        folder = self.folder / arm
        law = folder / LAW
        if self._finished(law):
            require_warm_start(law, self._start)
            return law
        recipe = self.recipe
        # A student of an earlier stage is compiled already; its trained weights are replaced.
        student = self._student or Student(
            recipe, derive(self.seed, "adapter"), self.processes.device
        )
        checkpoint.restore_best(student.trainable(), self._start)
        batches, validation = self.stage_two_data()
        objective = Objective(
            recipe.stage_two, Heads(student.width, derive(self.seed, "heads")),
            weights(recipe.stage_two, arm), mean=recipe.reduction == "mean",
        )  # fmt: skip
        plan = Plan(
            recipe.stage_two, recipe.run, derive(self.seed, "stage two"),
            self._identity("two", arm), f"{recipe.name}-{arm}-{self.seed}",
        )  # fmt: skip
        trainer = self._trainer(student, objective, batches, validation, plan, folder)
        return self._finish(trainer, arm, until)

    def release(self) -> None:
        """Free the memory of the student and the token corpus, for other processes."""
        self._student = self._tokens = None
        free_memory()

    def tidy(self, law: Path) -> None:
        """Remove the checkpoints of a law's stage and of this run's own warm start."""
        if self.processes.main:
            for stage in (law.parent, self.folder / WARM_START):
                checkpoint.discard(stage, checkpoint.FOLDER)

    @property
    def warm(self) -> bool:
        """Whether stage one is complete."""
        return (self._start / LAW).exists()

    @property
    def harvested(self) -> bool:
        """Whether stage one reads a token corpus."""
        return bool(self.recipe.harvested())

    def tokens(self, progress: harvest.Progress = quiet) -> dict[str, Rows]:
        """Return the token corpus of stage one, which all seeds share; harvest it if missing.

        It is read once and cached until `release`.
        """
        if self._tokens is None:
            recipe = self.recipe
            with self.processes.first():
                self._tokens = harvest.token_corpus(
                    self.folder.parent / "tokens", recipe.harvest, tokenizer_of(recipe),
                    recipe.order, longest=recipe.max_context, workers=self.workers,
                    progress=progress,
                )  # fmt: skip
        return self._tokens

    def encoded(self) -> EncodedCorpus:
        """Return the encoded records of this corpus, which all seeds and arms share."""
        recipe = self.recipe
        return EncodedCorpus(
            self.folder.parent / "prepared", self.store, tokenizer_of(recipe), recipe.order,
            longest=recipe.max_context, workers=self.workers,
        )  # fmt: skip

    def stage_two_data(self, corpus: EncodedCorpus | None = None) -> tuple[Batches, Rows]:
        """Return the batches and validation records of stage two; encode what is missing."""
        seed = derive(self.seed, "stage two")
        return self._encoded(lambda encoded: scd_batches(encoded, self.recipe, seed), corpus)

    def _encoded(
        self, make: Callable[[EncodedCorpus], Batches], corpus: EncodedCorpus | None = None
    ) -> tuple[Batches, Rows]:
        """Return batches and validation records; the first process encodes, the others wait."""
        with self.processes.first(), nullcontext(corpus) if corpus else self.encoded() as records:
            count = self.recipe.run.validation_records
            return make(records), records.decisions("validation", count)

    def _finished(self, law: Path) -> bool:
        """Return whether a stage is complete; raise an error for the law of another recipe."""
        if not law.exists():
            return False
        name = about(law).get("recipe", {}).get("name")
        if name not in (None, self.recipe.name):
            raise ConfigError(
                f"{law} was trained by recipe {name!r}; give {self.recipe.name!r} another --out"
            )
        return True

    def _identity(self, stage: str, arm: Arm | None) -> dict[str, Any]:
        """Return the settings that a checkpoint must share to be resumed from."""
        settings = self.recipe.model_dump(mode="json", exclude={"run", "corpus", "transitions"})
        settings["run"] = self.recipe.run.fixed()
        parts = ("decisions",) if stage == "one" else ("decisions", "transitions")
        shards = self.store.manifest().parts if stage == "two" or not self.harvested else {}
        used = {
            part: [shard.sha256 for some in shards[part].values() for shard in some]
            for part in parts
            if part in shards
        }
        began = {BEGAN_WITH: warm_start_digest(self._start)} if arm else {}
        run = {"recipe": settings, "seed": self.seed, "stage": stage, "arm": arm}
        return run | began | {"corpus": used}

    def _trainer(
        self, student: Student, objective: Objective, batches: Batches, validation: Rows,
        plan: Plan, folder: Path,
    ) -> Trainer:  # fmt: skip
        return Trainer(
            student, objective, batches, validation, plan, folder, watch=self._watch,
            processes=self.processes,
        )  # fmt: skip

    def _finish(self, trainer: Trainer, arm: Arm | None, until: int | None) -> Path:
        """Train; once the stage is complete, export the selected weights and return the law."""
        progress, folder = trainer.train(until), trainer.folder
        if not trainer.finished:
            return folder
        self.processes.wait()
        checkpoint.restore_best(trainer.student.trainable(), folder)
        self._student = trainer.student
        if self.processes.main:
            export.export(trainer.student, folder / LAW, self._card(progress, arm))
        self.processes.wait()
        return folder / LAW

    def _card(self, progress: checkpoint.Progress, arm: Arm | None) -> Mapping[str, Any]:
        made = self.store.manifest().settings if self.store.exists() else {}
        return {
            "objective": arm or "decision (warm start)",
            **({BEGAN_WITH: warm_start_digest(self._start)} if arm else {}),
            "training seed": self.seed,
            "selected update": progress.best_update,
            "validation NLL per token": round(progress.best_loss, 5),
            "teacher": made.get("decisions", {}).get("teacher", "expert"),
            "updates": progress.update,
            "transitions played by": made.get("transitions", {}).get("law", "none"),
        }


def check_warm_start(start: Path, recipe: Recipe) -> Path:
    """Check a warm start made by another run, and return its law.

    Raises:
        ConfigError: if it is incomplete, or not one that this recipe would make.
    """
    law = start / LAW
    said = about(law)
    if not said or not (start / checkpoint.BEST / checkpoint.WEIGHTS).is_file():
        raise ConfigError(f"{start} holds no whole warm start; leave --start out")
    theirs, ours = said.get("recipe", {}), recipe.model_dump(mode="json")
    compared = [
        ("recipe" if name == "name" else name, theirs.get(name), ours[name])
        for name in ("name", "backbone", "order")
    ]
    kinds = [each.get("adaptation", {}).get("kind") for each in (theirs, ours)]
    for name, their, our in [*compared, ("adaptation", *kinds)]:
        if their != our:
            raise ConfigError(
                f"{start} was trained with {name} {their!r}, not {our!r}; leave --start out"
            )
    return law


def warm_start_digest(start: Path) -> str:
    """Return the digest of a warm start; empty if it is missing."""
    return digest(look(str(start / LAW)))


def require_warm_start(law: Path, start: Path) -> None:
    """Check that an arm began with this warm start, if the digests of both are known.

    Raises:
        ConfigError: if it began with another one.
    """
    began, now = about(law).get("card", {}).get(BEGAN_WITH), warm_start_digest(start)
    if began and now and began != now:
        raise ConfigError(
            f"{law} began with another warm start ({began}) than {start} ({now}); choose another "
            "--out"
        )
