"""The two stages of a run, from corpus folder to shipped law.

    RUN/seed-S/warm-start/   stage one: decision loss only, shared by the four arms
    RUN/seed-S/ARM/          stage two: Eq. scd with the arm's weights

Each holds metrics.jsonl, best/ and law/, and checkpoints/ until the run is done. A stage that is
complete is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.core.seeds import derive
from waggle.corpus.curriculum import quiet
from waggle.corpus.store import CorpusError, Store
from waggle.scd.config import Arm, Recipe, weights
from waggle.scd.data import tokenstore
from waggle.scd.data.arrays import Rows, pairs_of
from waggle.scd.data.harvest import Tell
from waggle.scd.data.lessons import Lessons, lessons
from waggle.scd.data.prepare import Prepared
from waggle.scd.data.records import Decisions, Labelled, Pair, labelled, within
from waggle.scd.data.speller import Tokens
from waggle.scd.data.stored import Stored
from waggle.scd.data.tokens import Coder
from waggle.scd.heads import Heads
from waggle.scd.model import Student, collect, tokenizer_of
from waggle.scd.run import starts
from waggle.scd.ship import export
from waggle.scd.train import checkpoint
from waggle.scd.train.distributed import Processes
from waggle.scd.train.sprint import Sprint
from waggle.scd.train.tandem import Tandem
from waggle.scd.train.trainer import Plan, Trainer, Watch, nobody

WARM_START = "warm-start"


class Stages:
    """Runs the stages of one recipe, corpus and seed."""

    def __init__(
        self, recipe: Recipe, corpus: Path, out: Path, seed: int, *, watch: Watch = nobody,
        workers: int = 1, start: Path | None = None, harvest: Path | None = None,
        student: Student | None = None,
    ) -> None:  # fmt: skip
        """Name a run.

        Args:
            recipe: the recipe.
            corpus: folder of the corpus.
            out: folder of the run.
            seed: the training seed.
            watch: told about every update.
            workers: processes that encode and harvest.
            start: folder of the warm start that the arms begin with, if it is not their own.
            harvest: token corpus of another recipe to read in stage one.
            student: one of this recipe to train arms with; its weights are replaced.
        """
        self.workers, self._harvest, self._kept = workers, harvest, student
        self._tokens: dict[str, Tokens] | None = None
        self.recipe, self.store, self.seed = recipe, Store(corpus), seed
        self.folder = out / f"seed-{seed}"
        self._given, self._start = start, start or self.folder / WARM_START
        self._watch = watch
        self._processes = Processes()

    def warm_start(self, until: int | None = None) -> Path:
        """Train stage one, or return its law if it is complete.

        Raises:
            ConfigError: if it was given and is not whole, or is another recipe's.
        """
        if self._given is not None:
            return starts.given(self._given, self.recipe)
        folder, law = self._start, self._start / export.FOLDER
        if self._finished(law):
            return law
        if self.harvested:
            return self._from_tokens(folder, until)
        stage = self.recipe.stage_one
        student, coder = self._student()
        records, validation = self._decisions(coder)
        plan = Plan(
            stage, self.recipe.run, derive(self.seed, "stage one"), self._identity("one", None),
            Decisions(
                records, coder, self.recipe.order, derive(self.seed, "stage one"),
                batch=stage.batch, images=False, augment=stage.augment,
            ).batch,
            validation,
            mean=self.recipe.reduction == "mean",
            name=f"{self.recipe.name}-{WARM_START}-{self.seed}",
        )  # fmt: skip
        trainer = Trainer(student, None, plan, folder, watch=self._watch, processes=self._processes)
        return self._finish(trainer, folder, None, until)

    def release(self) -> None:
        """Give the memory of the student back, for other processes."""
        self._kept = self._tokens = None
        collect()

    def tidy(self, law: Path) -> None:
        """Remove the checkpoints of a law's stage and of this run's own warm start: both whole."""
        if self._processes.main:
            for stage in (law.parent, self.folder / WARM_START):
                checkpoint.discard(stage, checkpoint.FOLDER)

    @property
    def warm(self) -> bool:
        """Whether stage one is complete."""
        return (self._start / export.FOLDER).exists()

    def _finished(self, law: Path) -> bool:
        """Whether a stage is complete; the law of another recipe is not taken for its own."""
        if not law.exists():
            return False
        name = export.trained_by(law)
        if name not in (None, self.recipe.name):
            raise ConfigError(
                f"{law} was trained by recipe {name!r}; give {self.recipe.name!r} another --out"
            )
        return True

    @property
    def harvested(self) -> bool:
        """Whether stage one reads a token corpus."""
        made = self.recipe.harvest
        return self._harvest is not None or bool(made.native or made.synthetic)

    def tokens(self, tell: Tell = quiet) -> dict[str, Tokens]:
        """Return the token corpus of stage one, which all seeds share; harvest it if need be.

        It is read once, and forgotten when the student is released.
        """
        if self._tokens is None:
            self._tokens = self._read_tokens(tell)
        return self._tokens

    def _read_tokens(self, tell: Tell) -> dict[str, Tokens]:
        if self._harvest is not None:
            return tokenstore.found(self._harvest, tokenizer_of(self.recipe), self.recipe.order)
        return tokenstore.make(
            self.folder.parent / "tokens", self.recipe.harvest, tokenizer_of(self.recipe),
            self.recipe.order, longest=self.recipe.max_context, workers=self.workers, tell=tell,
        )  # fmt: skip

    def _from_tokens(self, folder: Path, until: int | None) -> Path:
        """Train stage one on the token corpus."""
        found, recipe = self.tokens(), self.recipe
        stage, seed = recipe.stage_one, derive(self.seed, "stage one")
        student, _ = self._student()
        held = Stored(found["validation"], seed, 1)
        count = min(len(found["validation"]), recipe.run.validation_records)
        plan = Plan(
            stage, recipe.run, seed, self._identity("one", None),
            None if recipe.run.flat else Stored(found["train"], seed, stage.batch).batch,
            [] if recipe.run.flat else [held.pair(i) for i in range(count)],
            mean=recipe.reduction == "mean", name=f"{recipe.name}-{WARM_START}-{self.seed}",
        )  # fmt: skip
        how: dict[str, Any] = {"watch": self._watch, "processes": self._processes}
        trainer: Trainer = (
            Sprint(student, plan, found["train"], found["validation"], folder, **how)
            if recipe.run.flat
            else Trainer(student, None, plan, folder, **how)
        )
        return self._finish(trainer, folder, None, until)

    def arm(self, arm: Arm, until: int | None = None) -> Path:
        """Train stage two of one arm from the shared warm start, or return its law."""
        folder = self.folder / arm
        law = folder / export.FOLDER
        if self._finished(law):
            starts.same(law, self._start)
            return law
        # A student of an earlier stage is compiled already; what of it is trained is replaced.
        student = self._kept or self._student()[0]
        start = self._start / starts.WEIGHTS
        checkpoint.restore(student.trainable(), checkpoint.read_tensors(start), start)
        lessons, held = self.lessons()
        heads = Heads(student.width, derive(self.seed, "heads"))
        plan = Plan(
            self.recipe.stage_two, self.recipe.run, derive(self.seed, "stage two"),
            self._identity("two", arm), None, [], None, *weights(self.recipe.stage_two, arm),
            self.recipe.reduction == "mean", f"{self.recipe.name}-{arm}-{self.seed}",
        )  # fmt: skip
        trainer = second(
            student, heads, plan, lessons, held, folder, watch=self._watch,
            processes=self._processes,
        )  # fmt: skip
        return self._finish(trainer, folder, arm, until)

    def prepared(self) -> Prepared:
        """Return the encoded records of this corpus, which all seeds and arms share."""
        recipe = self.recipe
        return Prepared(
            self.folder.parent / "prepared", self.store, tokenizer_of(recipe), recipe.order,
            longest=recipe.max_context, workers=self.workers,
        )  # fmt: skip

    def lessons(self, prepared: Prepared | None = None) -> tuple[Lessons, Rows]:
        """Return all batches of stage two and the validation records; encode what is missing."""
        recipe, seed = self.recipe, derive(self.seed, "stage two")
        if not self._processes.main:
            self._processes.wait()
        with nullcontext(prepared) if prepared else self.prepared() as records:
            held = records.decisions("validation", recipe.run.validation_records)
            share = recipe.transitions.eventful
            found = lessons(records, recipe.stage_two, recipe.order, seed, share)
        if self._processes.main:
            self._processes.wait()
        return found, held

    def _student(self) -> tuple[Student, Coder]:
        # LoRA's draw is named by the seed alone, so that the arms start from the same weights.
        student = Student(self.recipe, derive(self.seed, "adapter"), self._processes.device)
        return student, Coder(student.tokenizer)

    def _identity(self, stage: str, arm: Arm | None) -> dict[str, Any]:
        settings = self.recipe.model_dump(mode="json", exclude={"run", "corpus", "transitions"})
        settings["run"] = {"dtype": self.recipe.run.dtype}
        shards = self.store.manifest().parts if stage == "two" or not self.harvested else {}
        used = {p: [s.sha256 for some in shards[p].values() for s in some] for p in _parts(stage)
                if p in shards}  # fmt: skip
        if stage == "one" and self._harvest is not None:
            used["tokens"] = [str(tokenstore.digest(self._harvest / self.recipe.order))]
        began = {starts.BEGUN: starts.name(self._start)} if arm else {}
        about = {"recipe": settings, "seed": self.seed, "stage": stage, "arm": arm}
        return about | began | {"corpus": used}

    def _decisions(self, coder: Coder) -> tuple[list[Labelled], list[Pair]]:
        """Read training records and encode validation records that fit the context."""
        train = labelled(self.store.examples("decisions", "train"))
        held = labelled(self.store.examples("decisions", "validation"))
        held = held[: self.recipe.run.validation_records]
        plain = Decisions(held, coder, self.recipe.order, 0, batch=1, images=False)
        validation = plain.pairs([(i, 0) for i in range(len(held))])
        return self._fitting(train, coder), [p for p in validation if self._fits([p])]

    def _fits(self, pairs: Sequence[Pair]) -> bool:
        return within(pairs, self.recipe.max_context)

    def _fitting(self, records: list[Labelled], coder: Coder) -> list[Labelled]:
        """Leave out what is longer than the context; four bytes a token bounds it cheaply."""
        limit = self.recipe.max_context
        kept = []
        for record in records:
            size = len(coder.prompt_text(record.view)) + len(coder.answer_text(record.decision))
            if size < limit or len(coder.encode([record.view], [record.decision])[0]) < limit:
                kept.append(record)
        if not kept:
            raise CorpusError(f"no record fits {limit} tokens; raise max_context in the recipe")
        return kept

    def _finish(self, trainer: Trainer, folder: Path, arm: Arm | None, until: int | None) -> Path:
        progress = trainer.train(until)
        if not trainer.finished:
            return folder
        self._processes.wait()
        best = folder / starts.WEIGHTS
        checkpoint.restore(trainer.student.trainable(), checkpoint.read_tensors(best), best)
        self._kept = trainer.student
        if self._processes.main:
            export.export(trainer.student, folder / export.FOLDER, self._card(progress, arm))
        return folder / export.FOLDER

    def _card(self, progress: checkpoint.Progress, arm: Arm | None) -> Mapping[str, Any]:
        made = self.store.manifest().settings if self.store.exists() else {}
        return {
            "objective": arm or "decision (warm start)",
            **({starts.BEGUN: starts.name(self._start)} if arm else {}),
            "training seed": self.seed,
            "selected update": progress.best_update,
            "validation NLL per token": round(progress.best_loss, 5),
            "teacher": made.get("decisions", {}).get("teacher", "expert"),
            "updates": progress.update,
            "transitions played by": made.get("transitions", {}).get("law", "none"),
        }


def second(
    student: Student, heads: Heads | None, plan: Plan, lessons: Lessons, held: Rows, folder: Path,
    *, watch: Watch = nobody, processes: Processes | None = None,
) -> Trainer:  # fmt: skip
    """Return the trainer of stage two: flat passes where the recipe says so, else packed ones.

    Without heads only the decision loss is computed.
    """
    if plan.run.flat:
        return Tandem(student, heads, plan, lessons, held, folder, watch=watch, processes=processes)
    listed = replace(
        plan, decisions=lessons.pairs, moves=lessons.moves, validation=pairs_of(held, None)
    )
    return Trainer(student, heads, listed, folder, watch=watch, processes=processes)


def _parts(stage: str) -> tuple[str, ...]:
    return ("decisions",) if stage == "one" else ("decisions", "transitions")
