"""The learning rate and rank of a factorial, chosen once on decision-only validation loss.

A candidate is stage two of the decision-only arm at one rate and rank: the decision records of a
training seed that no arm has, without orbit images, heads or transitions. Arms are then trained
with what was chosen, whatever their other losses would like better.

    OUT/settings.json                 what all candidates share; a folder holds one search
    OUT/rank-R/seed-S/warm-start/     stage one: the rank is the adapter's, so each has its own
    OUT/rank-R/rate-X/result.json     the numbers of a candidate, and its metrics.jsonl

Invariant: candidates differ in rate and rank alone; test records are never read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from waggle.core.errors import ConfigError
from waggle.core.seeds import derive
from waggle.corpus.settings import one_line
from waggle.corpus.store import Store
from waggle.scd.config import Recipe
from waggle.scd.run import workers as team

if TYPE_CHECKING:
    from waggle.scd.data.arrays import Rows
    from waggle.scd.data.lessons import Lessons
    from waggle.scd.data.prepare import Prepared
    from waggle.scd.model import Student
    from waggle.scd.run.stages import Stages
    from waggle.scd.train.trainer import Trainer, Watch

SEEDS = range(1_000, 10_000)
"""Training seeds of a search: arms are paired by the seeds from 0 up."""
MOST = 32
"""Candidates of one search."""
RESULT = "result.json"
SETTINGS = "settings.json"


class Candidate(NamedTuple):
    """One rate at one rank."""

    recipe: Recipe
    """The recipe with this rank; its own rate of stage two is not read."""
    corpus: Path
    out: Path
    seed: int
    rate: float

    @property
    def rank(self) -> int | None:
        """Its rank; None where whole matrices are trained."""
        made = self.recipe.adaptation
        return made.rank if made.kind == "lora" else None

    @property
    def name(self) -> str:
        """What a person calls it."""
        told = f"rate {self.rate!r}"
        return told if self.rank is None else f"rank {self.rank}, {told}"

    @property
    def home(self) -> Path:
        """The folder of all candidates of its rank."""
        kind = self.recipe.adaptation.kind
        return self.out / (kind if self.rank is None else f"rank-{self.rank}")

    @property
    def folder(self) -> Path:
        """Its own folder."""
        return self.home / f"rate-{self.rate!r}"

    @property
    def warm(self) -> Path:
        """The law that all candidates of its rank start from."""
        return self.home / f"seed-{self.seed}" / "warm-start" / "law"

    def stages(self, **how: Any) -> Stages:
        """Return the stages of its rank, for their warm start."""
        from waggle.scd.run.stages import Stages

        return Stages(self.recipe, self.corpus, self.home, self.seed, **how)

    def prepared(self, workers: int = 1) -> Prepared:
        """Return the encoded records that all candidates share, whatever their rank."""
        from waggle.scd.run.stages import Stages

        shared = Stages(self.recipe, self.corpus, self.out, self.seed, workers=workers)
        return shared.prepared()

    def kept(self) -> dict[str, Any] | None:
        """Return its result if it is there."""
        return team.found(self.folder / RESULT)

    def tidy(self) -> None:
        """Remove its weights: what is asked for are the numbers."""
        from waggle.scd.train import checkpoint

        checkpoint.discard(self.folder, checkpoint.FOLDER, "best")

    def run(self) -> dict[str, Any]:
        """Train it, and keep what it makes of the validation records."""
        result = _trained(self)
        team.keep(self.folder / RESULT, result)
        self.tidy()
        return result


def shortened(recipe: Recipe, updates: int | None, seconds: float | None) -> Recipe:
    """Return a recipe with another length of stage two and another time budget of stage one."""
    data = recipe.model_dump()
    if updates is not None:
        data["stage_two"]["updates"] = updates
    if seconds is not None:
        data["stage_one"]["seconds"] = seconds
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise one_line(error, "--updates and --seconds") from None


def candidates(
    recipe: Recipe, corpus: Path, out: Path, seed: int, rates: Sequence[float],
    ranks: Sequence[int],
) -> list[Candidate]:  # fmt: skip
    """Return every rate at every rank, in their order; without ranks at the recipe's own.

    Raises:
        ConfigError: if there is nothing to search, too much of it, or nothing with a rank.
    """
    kind = recipe.adaptation.kind
    if ranks and kind == "full":
        raise ConfigError(
            'the recipe trains every weight (kind = "full"), nothing has a rank: leave --ranks out'
        )
    if ranks and kind == "dense":
        raise ConfigError(
            'the recipe trains whole matrices (kind = "dense"), rank is what of them ships: leave '
            "--ranks out, and measure that with `waggle law ranks`"
        )
    if seed not in SEEDS:
        raise ConfigError(
            f"--seed must be from {SEEDS.start} to {SEEDS.stop - 1}: smaller ones are the paired "
            "seeds of arms"
        )
    sizes = sorted(set(ranks)) or [recipe.adaptation.rank]
    pace = sorted(set(rates))
    if len(sizes) * len(pace) > MOST:
        raise ConfigError(
            f"{len(sizes) * len(pace)} candidates are too many; give at most {MOST} (--rates times "
            "--ranks)"
        )
    ranked = [
        recipe.model_copy(
            update={"adaptation": recipe.adaptation.model_copy(update={"rank": size})}
        )
        for size in sizes
    ]
    return [Candidate(each, corpus, out, seed, rate) for each in ranked for rate in pace]


def settle(candidate: Candidate, corpus: Path | None, harvest: Path | None) -> None:
    """Write down what all candidates of a folder share, or hold it against what is there.

    Args:
        candidate: any of them.
        corpus: the corpus that was asked for.
        harvest: the token corpus that was asked for.

    Raises:
        ConfigError: if the folder holds another search.
    """
    recipe = candidate.recipe
    asked = {
        "recipe": recipe.model_dump(
            mode="json",
            exclude={"run": True, "transitions": True, "adaptation": {"rank"},
                     "stage_two": {"rate"}},
        ),
        "run": recipe.run.model_dump(include={"dtype", "evaluate_every", "validation_records"}),
        "seed": candidate.seed,
        "corpus": corpus and str(corpus),
        "harvest": harvest and str(harvest),
    }  # fmt: skip
    path = candidate.out / SETTINGS
    known = team.found(path)
    if known is None:
        team.keep(path, asked)
    elif known != json.loads(json.dumps(asked)):
        raise ConfigError(
            f"{candidate.out} holds a search with other settings; choose another --out or delete it"
        )


def warm_starts(planned: Sequence[Candidate], lost: team.Lost[Candidate], **how: Any) -> None:
    """Train stage one of every rank of some candidates, one rank after another.

    Args:
        planned: the candidates.
        lost: told of every candidate whose warm start fails; other ranks go on.
        how: what stages are told: `watch`, `workers`, `harvest`.
    """
    for home in dict.fromkeys(candidate.home for candidate in planned):
        same = [candidate for candidate in planned if candidate.home == home]
        stages = same[0].stages(**how)
        try:
            stages.warm_start()
        except Exception as error:  # whatever it is, the others go on
            for candidate in same:
                lost(candidate, f"no warm start: {team.reason(error)}")
        finally:
            stages.release()


def prepare(candidate: Candidate, workers: int = 1) -> None:
    """Encode what all candidates read, once."""
    with candidate.prepared(workers) as records:
        _read(candidate, records)


def _read(candidate: Candidate, records: Prepared) -> tuple[Lessons, Rows]:
    """Return the batches and the validation records; transitions are not touched."""
    from waggle.scd.data.lessons import bare

    recipe = candidate.recipe
    held = records.decisions("validation", recipe.run.validation_records)
    return bare(records, recipe.stage_two, derive(candidate.seed, "stage two")), held


def _trained(candidate: Candidate) -> dict[str, Any]:
    from waggle.scd.diagnose.findings import told, uncompiled
    from waggle.scd.train import checkpoint

    recipe = candidate.recipe
    student = team.student_of(recipe if recipe.run.compile_arms else uncompiled(recipe))
    start = candidate.warm.parent / "best" / "trainable.safetensors"
    checkpoint.restore(student.trainable(), checkpoint.read_tensors(start), start)
    with candidate.prepared() as records:
        lessons, held = _read(candidate, records)
    seen: dict[str, float] = {}
    trainer = _trainer(candidate, student, lessons, held, lambda *now: seen.update(now[2]))
    progress = trainer.train()
    if not math.isfinite(progress.best_loss):
        raise checkpoint.TrainError("its validation loss is not finite; try smaller --rates")
    made = Store(candidate.corpus).manifest().settings.get("decisions", {})
    return {
        "rank": candidate.rank,
        "rate": candidate.rate,
        "updates": progress.update,
        "best": progress.best_loss,
        "best update": progress.best_update,
        "last": seen.get("validation.nll"),
        # Of all updates and validations but the first update, which may compile.
        "seconds": round(progress.seconds, 2),
        "validation records": len(held),
        "teacher": made.get("teacher", "unknown"),
        "warm start": told(candidate.warm),
    }


def _trainer(
    candidate: Candidate, student: Student, lessons: Lessons, held: Rows, watch: Watch
) -> Trainer:
    """Return stage two without heads: nothing but the decision loss is computed."""
    from waggle.scd.run.stages import second
    from waggle.scd.train.trainer import Plan

    recipe = candidate.recipe
    shards = Store(candidate.corpus).splits("decisions").values()
    identity = {
        "recipe": recipe.model_dump(mode="json", exclude={"run", "corpus", "transitions"}),
        "rate": candidate.rate, "seed": candidate.seed, "dtype": recipe.run.dtype,
        "corpus": [shard.sha256 for some in shards for shard in some],
    }  # fmt: skip
    plan = Plan(
        recipe.stage_two.model_copy(update={"rate": candidate.rate}), recipe.run,
        derive(candidate.seed, "stage two"), identity, None, [],
        mean=recipe.reduction == "mean", name=f"{recipe.name}, {candidate.name}",
    )  # fmt: skip
    return second(student, None, plan, lessons, held, candidate.folder, watch=watch)
