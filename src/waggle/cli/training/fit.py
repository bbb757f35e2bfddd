"""`waggle fit METHOD RECIPE`: train a learned peer."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from waggle.api.progress import Progress
from waggle.cli import console
from waggle.cli.training.common import updates_on


def fit(method: str, recipe: Path, /, *, out: Path | None = None, workers: int = 1) -> None:
    """Train a peer method of `waggle list methods`.

    Organisers are trained on development seeds with the deterministic solver, Agent Distillation on
    trajectories of training seeds. The budget is printed first. The same command resumes an
    interrupted fit. The digest of the parameters is printed before and after; evaluation rows
    record it. Pass the file to the law with `--law.parameters FILE` (`--law.folder FOLDER` for
    `agentdistill`) or in a recipe's `options`.

    Args:
        method: Trained method from `waggle list methods`.
        recipe: Fitting recipe, such as recipes/fit/peers.toml or recipes/fit/agent_distill.toml.
        out: Output file for the parameters; for `agentdistill`, the run directory. Default:
            runs/fit/METHOD.json.
        workers: Number of processes that play the teacher of `agentdistill` and encode its
            trajectories.
    """
    if method == "agentdistill":
        _distil(recipe, out or Path("runs/agentdistill"), workers)
    else:
        _organiser(method, recipe, out or Path("runs/fit") / f"{method}.json")


def _organiser(method: str, recipe: Path, path: Path) -> None:
    """Fit the parameters of an organiser to development cases."""
    from waggle.baselines.peers import training
    from waggle.evaluate import fitting

    learner = training.learner_of(method)
    asked = fitting.load(recipe)
    cases = asked.cases()
    episodes = training.episodes(learner, cases, asked.steps)
    console.say(f"budget: {episodes:,} episodes of {len(cases):,} development cases")
    console.say(f"before: {training.state_of(path, learner)}")
    began = perf_counter()
    with Progress() as tell:

        def watch(at: training.Progress) -> None:
            tell("steps", at.step, at.of, now=at.digest, line=True)

        found = training.fit(
            learner, cases, path, steps=asked.steps, play=fitting.utility, watch=watch
        )
    console.say(f"after: {training.digest_of(found)}, {perf_counter() - began:.0f} s")
    console.say(f"parameters: {path}")


def _distil(recipe: Path, out: Path, workers: int) -> None:
    """Collect a teacher's trajectories and imitate those that ended well."""
    from waggle.laws.digest import digest, look
    from waggle.scd.config import read_recipe_of
    from waggle.scd.run.agent_distillation import DistillRecipe, budget, distil

    asked = read_recipe_of(recipe, DistillRecipe)
    costs = budget(asked.trajectories, asked.stage_one.batch)
    console.say("budget: " + ", ".join(f"{count:,} {name}" for name, count in costs.items()))
    began = perf_counter()
    with Progress() as tell:
        law = distil(asked, out, workers=workers, watch=updates_on(tell), progress=tell)
    console.say(f"after: {digest(look(str(law)))}, {perf_counter() - began:.0f} s")
    console.say(f"law: {law}")
