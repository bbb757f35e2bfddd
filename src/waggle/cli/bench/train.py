"""`waggle bench train`: what an update costs on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from waggle.cli import console
from waggle.cli.bench.checkout import benchmark
from waggle.cli.options import Flag
from waggle.core.errors import ConfigError

TOLD = 10
"""Updates of a whole stage between two lines of progress."""


def train(
    recipe: Path,
    /,
    *,
    backbone: str | None = None,
    corpus: Path = Path("corpus"),
    updates: int = 20,
    tokens_per_pass: int | None = None,
    order: str | None = None,
    first: Flag = False,
    tree: bool | None = None,
    capture: bool | None = None,
    profile: Flag = False,
    stage: Path | None = None,
    until: int | None = None,
    json: Flag = False,
) -> None:
    """Speed of training: tokens per second, share of padding, seconds per update.

    Runs the real updates of stage two (or one) on a real corpus. `--backbone qwen3-4b-shape` and
    `smollm2-135m-shape` have random weights of that shape, for machines without the weights.

    Args:
        recipe: A recipe file.
        backbone: Another backbone than the recipe's.
        corpus: Folder of a labelled corpus with transitions.
        updates: Updates that count; eight more warm up.
        tokens_per_pass: Tokens that are run together.
        order: Another canon order than the recipe's.
        first: Measure stage one, on the decision records of the corpus.
        tree: Compute what only some sequences begin with once as well, or not.
        capture: Replay updates as CUDA graphs or not, whatever the recipe says.
        profile: Also say how busy the GPU is, and which functions take this process's time.
        stage: Run the whole stage instead, with its validation and checkpoints, in this folder;
            calls with the same folder go on where the last one ended, and their times are summed.
        until: With `--stage`: end this call after so many updates of the stage.
        json: Print one JSON object instead of text.
    """
    from waggle.scd.config import Recipe, read_recipe

    bench = benchmark("train")
    if updates < 1:
        raise ConfigError("--updates must be at least 1")
    data = read_recipe(recipe).model_dump()
    data |= {k: v for k, v in (("backbone", backbone), ("order", order)) if v is not None}
    run = {"tokens_per_pass": tokens_per_pass, "tree": tree, "capture": capture}
    data["run"] |= {k: v for k, v in run.items() if v is not None}
    chosen = Recipe.model_validate(data)
    if stage is not None:
        lines = _Lines()
        spent = bench.bench_stage(
            chosen, corpus, stage, until, watch=lines.update, tell=lines.tell
        )._asdict()
    else:
        number: Literal[1, 2] = 1 if first else 2
        spent = bench.bench_train(chosen, corpus, updates, stage=number, profile=profile)._asdict()
    if json:
        console.dump(spent)
        return
    host = spent.pop("host", [])
    console.table("Stage one" if first else "Stage two", ("measure", "value"), list(spent.items()))
    for line in host:
        console.say(line)


class _Lines:
    """Says how far a stage is, with the seconds since the call."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def tell(self, what: str) -> None:
        """Print a line."""
        console.note(f"{time.perf_counter() - self._start:.0f} s: {what}")

    def update(self, update: int, updates: int, values: Mapping[str, float]) -> None:
        """Print a line now and then, and wherever validation was measured."""
        if values and (update % TOLD == 0 or "validation.nll" in values):
            shown = ("nll", "orbit", "field", "validation.nll", "seconds", "tokens_per_second")
            told = " ".join(f"{name} {values[name]:.4g}" for name in shown if name in values)
            self.tell(f"{update + 1}/{updates} {told}")
