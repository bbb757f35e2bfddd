"""The factorial driver: four arms from one warm start, measured and kept."""

from __future__ import annotations

from pathlib import Path

from waggle.scd import factorial
from waggle.scd.config import ARMS, Adaptation, Recipe, Run, StageOne, StageTwo
from waggle.scd.stages import Stages


def test_four_arms_share_a_warm_start_and_are_measured(
    backbone: Path, corpus: Path, tmp_path: Path
) -> None:
    recipe = Recipe(
        backbone=str(backbone), max_context=4000, adaptation=Adaptation(kind="full"),
        stage_one=StageOne(updates=2, batch=2), stage_two=StageTwo(updates=2, batch=2,
                                                                   transition_batch=2),
        run=Run(device="cpu", dtype="float32", evaluate_every=2, save_every=2,
                validation_records=2),
    )  # fmt: skip
    Stages(recipe, corpus, tmp_path, 4).warm_start()
    planned = factorial.cells(recipe, corpus, tmp_path, [4], views=2, native=0, transitions=8)
    factorial.prepare(planned)
    rows = factorial.relative(list(factorial.run_all(planned, 1)))
    assert [row["arm"] for row in rows] == list(ARMS)
    assert rows[0]["probe all, relative"] == 1.0
    assert all("equivariance shuffled decoded" in row and "train head field" in row for row in rows)
    again = list(factorial.run_all(planned[:1], 1))
    assert again[0]["synthetic exact"] == rows[0]["synthetic exact"]
