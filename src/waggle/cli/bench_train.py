"""`waggle bench train`: what an update of stage two costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from waggle.cli import console
from waggle.core.errors import ConfigError


def train(
    recipe: Path,
    /,
    *,
    backbone: str | None = None,
    corpus: Path = Path("corpus"),
    updates: int = 20,
    tokens_per_pass: int | None = None,
    order: str | None = None,
    stage: Path | None = None,
    until: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Speed of stage two: tokens per second, share of padding, seconds per update.

    Runs the real training loop on a real corpus for a few updates. `--backbone qwen3-4b-shape` and
    `smollm2-135m-shape` have random weights of that shape, for machines without the weights.

    Args:
        recipe: A recipe file.
        backbone: Another backbone than the recipe's.
        corpus: Folder of a labelled corpus with transitions.
        updates: Updates that count; three more warm up.
        tokens_per_pass: Tokens that are run together.
        order: Another canon order than the recipe's.
        stage: Run the whole stage instead, with its validation and checkpoints, in this folder;
            calls with the same folder go on where the last one ended, and their times are summed.
        until: With `--stage`: end this call after so many updates of the stage.
        json: Print one JSON object instead of text.
    """
    from waggle.scd.bench import bench_stage, bench_train
    from waggle.scd.config import Recipe, read_recipe

    if updates < 1:
        raise ConfigError("--updates must be at least 1")
    data = read_recipe(recipe).model_dump()
    data |= {k: v for k, v in (("backbone", backbone), ("order", order)) if v is not None}
    if tokens_per_pass is not None:
        data["run"] |= {"tokens_per_pass": tokens_per_pass}
    chosen = Recipe.model_validate(data)
    if stage is not None:
        spent = bench_stage(chosen, corpus, stage, until)._asdict()
    else:
        spent = bench_train(chosen, corpus, updates)._asdict()
    if json:
        console.dump(spent)
        return
    console.table("Stage two", ("measure", "value"), list(spent.items()))
