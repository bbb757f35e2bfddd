"""`waggle tune RECIPE`: choose the learning rate of a factorial before its arms."""

from __future__ import annotations

import json as encoding
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waggle.api.progress import Progress
from waggle.cli import console
from waggle.cli.options import AsJson, at_least_one
from waggle.cli.setup.recipes import bundled
from waggle.cli.training.common import FailedJobs, Phases, updates_on
from waggle.core.errors import ConfigError
from waggle.evaluate.factorial import SEARCH
from waggle.evaluate.sessions import command_line
from waggle.report import diagnoses
from waggle.report.tables import markdown

if TYPE_CHECKING:
    from waggle.scd.run.tune import Candidate
    from waggle.scd.run.workers import Failed, Workers


def tune(
    recipe: Path,
    /,
    *,
    rates: str,
    updates: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    workers: int = 1,
    corpus: Path | None = None,
    out: Path = Path("runs/tune"),
    seed: int = 1000,
    json: AsJson = False,
) -> int:
    """Choose the learning rate by the validation loss of the decision-only arm.

    Trains every candidate from one warm start on decision records alone: no orbit images, heads or
    transitions. Chooses the lowest validation loss and, among ties, the smaller rate. Write the
    chosen rate to the recipe, then train all arms with it. The same command resumes an interrupted
    search, and can add rates. Example, taking a few minutes on a CPU:

    `waggle tune recipes/tiny.toml --rates 5e-4,1e-3,2e-3 --out runs/tiny-tune`

    Args:
        recipe: Training recipe: a file, or a name of `waggle recipes list`.
        rates: Comma-separated learning rates of stage two, above 0 and at most 1, such as
            1e-5,2e-5,5e-5.
        updates: Number of updates of stage two in the search. Default: the recipe's.
        seconds: Time budget of the warm start in seconds. Default: the recipe's.
        jobs: Number of processes that train candidates in parallel.
        workers: Number of processes that build and encode the corpus.
        corpus: Folder of the corpus; built and labelled if missing. Default: OUT/corpus.
        out: Folder of the search.
        seed: Training seed of the search, 1000 or above; arms use seeds from 0.
    """
    from waggle.scd.config import read_recipe
    from waggle.scd.run import tune as search
    from waggle.scd.run.workers import started

    at_least_one(jobs=jobs, workers=workers)
    own = read_recipe(bundled(recipe))
    planned = search.candidates(
        search.shortened(own, updates, seconds), corpus or out / "corpus", out, seed,
        _rates(rates),
    )  # fmt: skip
    search.settle(planned[0], corpus)
    lost, phases = FailedJobs(), Phases()
    left = [candidate for candidate in planned if candidate.kept() is None]
    with started(left, jobs) as processes:
        if left:
            _warm(left[0], phases, workers)
        with phases("candidates"):
            results = _results(planned, jobs, lost, processes)
    found = search.summary(planned, results, lost)
    found |= {"command": command_line(), "advice": search.advice(own, recipe, found["chosen"])}
    (out / SEARCH).write_text(encoding.dumps(found, indent=1), encoding="utf-8")
    if json:
        console.dump(found)
        return 1 if lost else 0
    if left:
        phases.show(out)
    for table in diagnoses.search(out):
        console.say(markdown(table))
    console.say(found["advice"])
    return 1 if lost else 0


def _rates(text: str) -> list[float]:
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < rate <= 1 for rate in found):
        raise ConfigError(
            f"--rates takes rates above 0 and at most 1 such as 1e-5,2e-5, not {text!r}"
        )
    return found


def _warm(first: Candidate, phases: Phases, workers: int) -> None:
    """Make the shared inputs of the candidates: tokens, corpus, warm start, encoded records."""
    from waggle.scd.run import tune as search
    from waggle.scd.run.data import StageTwoData

    with Progress() as tell:
        stages = first.stages(watch=updates_on(tell), workers=workers)
        if stages.harvested and not stages.warm:
            with phases("tokens"):
                stages.tokens(tell)
        data = StageTwoData(first.recipe, first.corpus, [], workers, False)
        with data.made_beside(stages.harvested, phases), phases("stage one"):
            stages.warm_start()
        stages.release()
    with phases("preparation"):
        search.prepare(first, workers)


def _results(
    ready: Sequence[Candidate], jobs: int, lost: Failed[Candidate], processes: Workers | None
) -> list[dict[str, Any]]:
    """Train the candidates that are not trained yet; return the results of all, by rate."""
    from waggle.scd.run.workers import run_all

    found = []
    with Progress() as tell:
        for result in run_all(ready, jobs, lost, processes):
            found.append(result)
            now = f"rate {result['rate']!r}: validation loss {result['best']:.5f}"
            tell("candidates", len(found), len(ready), now=now, line=True)
    return sorted(found, key=lambda result: float(result["rate"]))
