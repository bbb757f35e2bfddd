"""`waggle fit METHOD RECIPE`: train a learned peer with the deterministic solver."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from waggle.cli import console


def fit(method: str, recipe: Path, /, *, out: Path | None = None) -> None:
    """Train a peer of `waggle list methods` on development seeds.

    The budget in episodes is printed first. The same command goes on with an
    interrupted fit. The digest of the parameters is printed before and after; rows of an evaluation
    carry it. Give the file to the law, as `--law.parameters FILE` or in a recipe's `options`.

    Args:
        method: A trained method of `waggle list methods`.
        recipe: Tasks, sizes and development seeds, such as recipes/fit/silo.toml.
        out: File of the parameters; runs/fit/METHOD.json if unset.
    """
    from waggle.baselines.peers import training
    from waggle.evaluate import fitting

    learner = training.learner_of(method)
    asked = fitting.load(recipe)
    cases = asked.cases()
    path = out or Path("runs/fit") / f"{method}.json"
    episodes = training.episodes(learner, cases, asked.steps)
    console.say(f"budget: {episodes:,} episodes of {len(cases):,} development cases")
    console.say(f"before: {training.state_of(path, learner)}")
    began = perf_counter()

    def watch(progress: training.Progress) -> None:
        seconds = perf_counter() - began
        console.note(f"step {progress.step} of {progress.of}, {seconds:.0f} s, {progress.digest}")

    found = training.fit(learner, cases, path, steps=asked.steps, play=fitting.utility, watch=watch)
    console.say(f"after: {training.digest_of(found)}, {perf_counter() - began:.0f} s")
    console.say(f"parameters: {path}")
