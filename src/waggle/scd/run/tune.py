"""The learning rate of a factorial, chosen once by decision-only validation loss.

A candidate is stage two of the decision-only arm at one rate, on the decision records of a training
seed that no arm uses, without orbit images, heads or transitions. All arms are then trained with
the chosen rate, even if another would suit their other losses better.

    OUT/settings.json               settings of all candidates; a folder holds one search
    OUT/KIND/seed-S/warm-start/     stage one; KIND is the recipe's adaptation
    OUT/KIND/rate-X/result.json     the numbers of a candidate, and its metrics.jsonl

Invariant: candidates differ in their rate alone; test records are never read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from waggle.core.errors import ConfigError, WaggleError
from waggle.core.seeds import derive
from waggle.corpus.settings import one_line
from waggle.corpus.store import Store
from waggle.scd.config import Recipe
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import Batches
from waggle.scd.data.encode import EncodedCorpus, decision_batches
from waggle.scd.diagnose.law import trained_by
from waggle.scd.files import LAW, TrainError, read_json, write_json
from waggle.scd.run.stages import WARM_START, Stages
from waggle.scd.run.workers import student_of
from waggle.scd.train import checkpoint
from waggle.scd.train.objective import Objective
from waggle.scd.train.trackers import last
from waggle.scd.train.trainer import Plan, Trainer

SEEDS = range(1_000, 10_000)
"""Training seeds of a search; arms are paired by the seeds from 0 up."""
MOST = 32
"""Maximum number of candidates in one search."""
RESULT = "result.json"
SETTINGS = "settings.json"
Result = Mapping[str, Any]
"""The numbers of a candidate: `rate`, `best` and others."""


class Candidate(NamedTuple):
    """One learning rate of a search."""

    recipe: Recipe
    """The recipe; its rate of stage two is ignored."""
    corpus: Path
    out: Path
    seed: int
    rate: float

    @property
    def name(self) -> str:
        """Name of the candidate in messages."""
        return f"rate {self.rate!r}"

    @property
    def home(self) -> Path:
        """The folder of all candidates."""
        return self.out / self.recipe.adaptation.kind

    @property
    def folder(self) -> Path:
        """The folder of this candidate."""
        return self.home / f"rate-{self.rate!r}"

    @property
    def start(self) -> Path:
        """The warm start of all candidates."""
        return self.home / f"seed-{self.seed}" / WARM_START

    def stages(self, **how: Any) -> Stages:
        """Return the stages that make the warm start of the search."""
        return Stages(self.recipe, self.corpus, self.home, self.seed, **how)

    def encoded(self, workers: int = 1) -> EncodedCorpus:
        """Return the encoded records that all candidates share."""
        return Stages(self.recipe, self.corpus, self.out, self.seed, workers=workers).encoded()

    def kept(self) -> dict[str, Any] | None:
        """Return its stored result, or None if it is missing."""
        return read_json(self.folder / RESULT)

    def tidy(self) -> None:
        """Remove its weights; only the numbers are needed."""
        checkpoint.discard(self.folder, checkpoint.FOLDER, checkpoint.BEST)

    def run(self) -> dict[str, Any]:
        """Train the candidate and store its validation losses."""
        result = _trained(self)
        write_json(self.folder / RESULT, result)
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
    recipe: Recipe, corpus: Path, out: Path, seed: int, rates: Sequence[float]
) -> list[Candidate]:
    """Return a candidate for every distinct rate, the smallest first.

    Raises:
        ConfigError: if there are too many rates, or the seed is reserved for arms.
    """
    if seed not in SEEDS:
        raise ConfigError(
            f"--seed must be from {SEEDS.start} to {SEEDS.stop - 1}: smaller ones are the paired "
            "seeds of arms"
        )
    tried = sorted(set(rates))
    if len(tried) > MOST:
        raise ConfigError(f"{len(tried)} candidates are too many; give at most {MOST} --rates")
    return [Candidate(recipe, corpus, out, seed, rate) for rate in tried]


def settle(candidate: Candidate, corpus: Path | None) -> None:
    """Write the settings that all candidates of a folder share, or compare them with the file.

    Args:
        candidate: any of the candidates.
        corpus: the requested corpus, if any.

    Raises:
        ConfigError: if the folder holds another search.
    """
    recipe = candidate.recipe
    asked = {
        "recipe": recipe.model_dump(
            mode="json",
            exclude={"run": True, "transitions": True, "stage_two": {"rate"}},
        ),
        "run": recipe.run.fixed(),
        "seed": candidate.seed,
        "corpus": corpus and str(corpus),
    }  # fmt: skip
    path = candidate.out / SETTINGS
    known = read_json(path)
    if known is None:
        write_json(path, asked)
    elif known != json.loads(json.dumps(asked)):
        raise ConfigError(
            f"{candidate.out} holds a search with other settings; choose another --out or delete it"
        )


def prepare(candidate: Candidate, workers: int = 1) -> None:
    """Encode the data of all candidates, once."""
    with candidate.encoded(workers) as corpus:
        _data(candidate, corpus)


def _data(candidate: Candidate, corpus: EncodedCorpus) -> tuple[Batches, Rows]:
    """Return batches and validation records; transitions are not read."""
    recipe, seed = candidate.recipe, derive(candidate.seed, "stage two")
    validation = corpus.decisions("validation", recipe.run.validation_records)
    return decision_batches(corpus, recipe.stage_two, seed), validation


def _trained(candidate: Candidate) -> dict[str, Any]:
    """Train stage two without heads: only the decision loss is computed."""
    recipe = candidate.recipe
    student = student_of(recipe if recipe.run.compile_arms else recipe.uncompiled())
    checkpoint.restore_best(student.trainable(), candidate.start)
    with candidate.encoded() as corpus:
        batches, validation = _data(candidate, corpus)
    store = Store(candidate.corpus)
    identity = {
        "recipe": recipe.model_dump(mode="json", exclude={"run", "corpus", "transitions"}),
        "rate": candidate.rate, "seed": candidate.seed, "dtype": recipe.run.dtype,
        "corpus": [s.sha256 for some in store.splits("decisions").values() for s in some],
    }  # fmt: skip
    stage = recipe.stage_two.model_copy(update={"rate": candidate.rate})
    plan = Plan(
        stage, recipe.run, derive(candidate.seed, "stage two"), identity,
        f"{recipe.name}, {candidate.name}",
    )  # fmt: skip
    trainer = Trainer(
        student, Objective(stage, mean=recipe.reduction == "mean"), batches, validation, plan,
        candidate.folder,
    )  # fmt: skip
    progress = trainer.train()
    if not math.isfinite(progress.best_loss):
        raise TrainError("its validation loss is not finite; try smaller --rates")
    return {
        "rank": recipe.adaptation.rank if recipe.adaptation.kind == "lora" else None,
        "rate": candidate.rate,
        "updates": progress.update,
        "best": progress.best_loss,
        "best update": progress.best_update,
        "last": last(candidate.folder, "validation.nll"),
        # The time of all updates and validations but the first update, which may compile.
        "seconds": round(progress.seconds, 2),
        "validation records": len(validation),
        "teacher": store.manifest().settings.get("decisions", {}).get("teacher", "unknown"),
        "warm start": trained_by(candidate.start / LAW),
    }


def choose(results: Sequence[Result]) -> Result:
    """Return the result with the smallest validation loss; ties go to the smaller rate.

    Raises:
        WaggleError: if there are no results.
    """
    if not results:
        raise WaggleError("no candidate could be trained; see above which failed, and why")
    return min(results, key=lambda found: (found["best"], found["rate"]))


def advice(recipe: Recipe, file: Path, chosen: Result) -> str:
    """Return one line on whether a recipe has the chosen rate, and if not, how to change it."""
    rate, own = chosen["rate"], recipe.stage_two.rate
    if rate == own:
        return f"{file} has what was chosen: [stage_two] rate = {rate!r}"
    return (
        f"{file} does not have what was chosen: write rate = {rate!r} in [stage_two] (it has "
        f"{own!r})"
    )


def taken(
    found: Result, folder: Path, recipe: Recipe, corpus: Path | None
) -> tuple[Recipe, Path, Path]:
    """Return what arms use of a search: their recipe with its rate, its warm start and corpus.

    Args:
        found: the summary of the search.
        folder: the folder of the search.
        recipe: the recipe of the arms.
        corpus: the requested corpus, if any.

    Raises:
        ConfigError: if the search was for another recipe.
    """
    if found.get("recipe") != recipe.name:
        raise ConfigError(
            f"{folder} holds a search for recipe {found.get('recipe')!r}, not {recipe.name!r}; "
            "search again with `waggle tune`"
        )
    stage = recipe.stage_two.model_copy(update={"rate": found["chosen"]["rate"]})
    start = folder / recipe.adaptation.kind / f"seed-{found['seed']}" / WARM_START
    asked = (read_json(folder / SETTINGS) or {}).get("corpus")
    own = Path(asked) if asked else folder / "corpus"
    return recipe.model_copy(update={"stage_two": stage}), start, corpus or own


def at_end(tried: Sequence[float], chosen: Result) -> bool:
    """Return whether the chosen rate is the smallest or largest of several rates tried."""
    return len(set(tried)) > 1 and chosen["rate"] in (min(tried), max(tried))


def summary(
    planned: Sequence[Candidate], results: Sequence[Result], lost: Mapping[str, str]
) -> dict[str, Any]:
    """Return the summary of a search, with the settings needed to interpret the numbers.

    Args:
        planned: all candidates.
        results: the numbers of the candidates that were trained.
        lost: the names of the others, each with the reason for the missing result.

    Raises:
        WaggleError: if no candidate could be trained.
    """
    chosen, recipe = choose(results), planned[0].recipe
    return {
        "recipe": recipe.name,
        "backbone": recipe.backbone,
        "adaptation": recipe.adaptation.kind,
        "order": recipe.order,
        "teacher": results[0]["teacher"],
        "seed": planned[0].seed,
        "validation records": results[0]["validation records"],
        "warm starts": list(dict.fromkeys(found["warm start"] for found in results)),
        "candidates": results,
        "lost": lost,
        "chosen": chosen,
        "at the end of": ["rate"] * at_end([each.rate for each in planned], chosen),
    }
