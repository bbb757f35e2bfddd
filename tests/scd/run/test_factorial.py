"""The factorial driver: four arms from one warm start, measured and kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from waggle.core.errors import ConfigError
from waggle.evaluate.factorial import read_arms, structural
from waggle.laws.shipped import of_folder
from waggle.scd.config import ARMS, Adaptation, Recipe, Run, StageOne, StageTwo
from waggle.scd.diagnose import law as diagnosis
from waggle.scd.diagnose import probe
from waggle.scd.run import factorial
from waggle.scd.run.stages import Stages
from waggle.scd.run.workers import run_all
from waggle.scd.train.trainer import Trainer


@pytest.mark.parametrize("kind", ["full", pytest.param("dense", marks=pytest.mark.slow)])
def test_four_arms_share_a_warm_start_and_are_measured(
    backbone: Path, corpus: Path, tmp_path: Path, kind: Literal["full", "dense"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    recipe = Recipe(
        backbone=str(backbone), max_context=4000, adaptation=Adaptation(kind=kind, rank=4),
        stage_one=StageOne(updates=2, batch=2), stage_two=StageTwo(updates=2, batch=2,
                                                                   transition_batch=2),
        run=Run(device="cpu", dtype="float32", evaluate_every=2, save_every=2,
                validation_records=2),
    )  # fmt: skip
    monkeypatch.setattr(probe, "UPDATES", 10)
    monkeypatch.setattr(diagnosis, "law_of", partial(diagnosis.law_of, max_new_tokens=8))
    Stages(recipe, corpus, tmp_path, 4).warm_start()
    planned = factorial.cells(recipe, corpus, tmp_path, [4], views=2, native=0, transitions=8)
    factorial.prepare(planned)
    rows = factorial.relative(list(run_all(planned, 1)))
    assert [row["arm"] for row in rows] == list(ARMS)
    assert rows[0]["probe all, relative"] == 1.0
    assert all("equivariance shuffled decoded" in row and "train head field" in row for row in rows)
    assert all(len(row["units"]["summary"]) == 2 == len(row["units"]["nll"]) for row in rows)
    for row in rows:
        units = row["units"]
        assert sum(units["nll"]) / 2 == pytest.approx(row["nll"], rel=1e-5)
        assert sum(units["probe all"]) / len(units["probe all"]) == pytest.approx(
            row["probe all"], rel=1e-4
        )
        assert len(row["unit names"]["transitions"]) == len(units["probe all"])
    for row in rows:
        law = of_folder(tmp_path / "seed-4" / row["arm"] / "law")
        assert row["weights"] == law.digest != ""
        factorial.write_arm(tmp_path / "arms", row)
    found = read_arms(tmp_path)
    assert [each.method for each in found] == [f"{arm}-4" for arm in ARMS]
    effect = structural(found, "scd", "probe all", "probe all", relative=True)
    assert effect is not None
    assert "2 updates of 2 records and 2 transitions" in found[3].notes["trained by"]
    assert "2 updates of 2, rate" in found[0].notes["warm start"]
    for arm in ARMS:
        left = {p.name for p in (tmp_path / "seed-4" / arm).iterdir() if p.is_dir()}
        assert left == {"best", "law"}
    assert (tmp_path / "seed-4/warm-start/checkpoints/update-000002").exists()
    (tmp_path / "seed-4/decision/checkpoints/update-000002").mkdir(parents=True)
    monkeypatch.setattr(Trainer, "train", lambda *_: pytest.fail("trained again"))
    again = list(run_all(planned[:1], 3))
    assert again[0]["synthetic exact"] == rows[0]["synthetic exact"]
    assert not (tmp_path / "seed-4/decision/checkpoints").exists()
    (other,) = run_all([planned[0]._replace(views=1)], 1)
    assert other["nll"] != rows[0]["nll"] and other[factorial.ASKED]["views"] == 1


def test_arms_begin_with_the_warm_start_they_are_given(
    recipe: Recipe, corpus: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, out = trained / "seed-0" / "warm-start", tmp_path / "arms"
    with pytest.raises(ConfigError, match="no whole warm start; leave --start out"):
        Stages(recipe, corpus, out, 0, start=tmp_path / "none").warm_start()
    given = Stages(recipe, corpus, out, 3, start=start)
    assert given.warm and given.warm_start() == start / "law" and not out.exists()
    monkeypatch.setattr(probe, "UPDATES", 10)
    monkeypatch.setattr(diagnosis, "law_of", partial(diagnosis.law_of, max_new_tokens=8))
    (cell,) = factorial.cells(
        recipe, corpus, out, [3], views=1, native=0, transitions=8, start=start
    )[:1]
    assert cell.warm == start / "law" and cell.run()["warm start"].startswith("seed-0: ")
    assert not (out / "seed-3" / "warm-start").exists()


def test_an_arm_whose_diagnosis_fails_keeps_what_it_resumes_from(
    recipe: Recipe, corpus: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = factorial.cells(recipe, corpus, started, [0], views=2, native=0, transitions=8)[:1]
    Stages(recipe, corpus, started, 0).arm("decision", until=2)
    began: list[int] = []
    real = Trainer.steps

    def steps(self: Trainer, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        began.append(first)
        return real(self, first, last)

    monkeypatch.setattr(Trainer, "steps", steps)
    monkeypatch.setattr("waggle.scd.diagnose.law.diagnose_folder", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cell.run()
    assert began == [2] and (cell.result.parent / "checkpoints/update-000004").exists()


def test_a_result_that_measured_something_else_is_made_again(tmp_path: Path) -> None:
    (cell,) = factorial.cells(Recipe(), tmp_path, tmp_path, [0], views=3, native=0)[:1]
    assert cell.kept() is None
    cell.result.parent.mkdir(parents=True)
    cell.result.write_text(json.dumps({"arm": "decision", factorial.ASKED: cell.asked()}))
    assert list(run_all([cell], 1)) == [cell.kept()]
    assert cell._replace(views=4).kept() is None
    cell.result.write_text('{"arm": "deci')
    assert cell.kept() is None
