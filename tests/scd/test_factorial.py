"""The factorial driver: four arms from one warm start, measured and kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from benchmarks.train import bench_stage
from tests.scd import doomed
from waggle.core.errors import ConfigError, WaggleError
from waggle.corpus.settings import TransitionSettings
from waggle.corpus.store import Store
from waggle.corpus.transitions import write
from waggle.evaluate.factorial import read_arms, structural
from waggle.laws.shipped import of_folder
from waggle.models.nano import nano_tokenizer
from waggle.plugins import get_law
from waggle.scd.config import ARMS, Adaptation, Recipe, Run, StageOne, StageTwo
from waggle.scd.data.prepare import Prepared
from waggle.scd.data.records import encode_moves
from waggle.scd.data.tokens import Coder
from waggle.scd.diagnose import probe
from waggle.scd.run import factorial
from waggle.scd.run.stages import Stages
from waggle.scd.run.workers import hired, run_all
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
    monkeypatch.setattr(probe, "UPDATES", 30)
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
    assert effect is not None and effect.cases
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
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    searched, out = tmp_path / "search" / "seed-1000" / "warm-start", tmp_path / "arms"
    with pytest.raises(ConfigError, match="no whole warm start; leave --start out"):
        Stages(recipe, corpus, out, 0, start=searched).warm_start()
    law = Stages(recipe, corpus, tmp_path / "search", 1000).warm_start()
    given = Stages(recipe, corpus, out, 0, start=searched)
    assert given.warm and given.warm_start() == law and not out.exists()
    (cell,) = factorial.cells(
        recipe, corpus, out, [0], views=2, native=0, transitions=8, start=searched
    )[:1]
    assert cell.warm == law and cell.run()["warm start"].startswith("seed-1000: ")
    assert not (out / "seed-0" / "warm-start").exists()


def test_an_arm_whose_diagnosis_fails_keeps_what_it_resumes_from(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stages(recipe, corpus, tmp_path, 4).warm_start()
    (cell,) = factorial.cells(recipe, corpus, tmp_path, [4], views=2, native=0, transitions=8)[:1]
    Stages(recipe, corpus, tmp_path, 4).arm("decision", until=2)
    began: list[int] = []
    real = Trainer.steps

    def steps(self: Trainer, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        began.append(first)
        return real(self, first, last)

    monkeypatch.setattr(Trainer, "steps", steps)
    monkeypatch.setattr("waggle.scd.diagnose.findings.diagnose_folder", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cell.run()
    assert began == [2] and (cell.result.parent / "checkpoints/update-000004").exists()


@pytest.mark.usefixtures("workers")
def test_an_arm_that_fails_or_dies_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.scd.run.workers._open", doomed.unprepared)
    arms = factorial.cells(Recipe(), tmp_path, tmp_path, [0, 1], views=1, native=0)
    planned = [doomed.Doomed(*arm) for arm in arms]
    lost: dict[str, str] = {}
    found = list(run_all(planned, 2, lambda cell, why: lost.update({cell.name: why})))
    assert sorted((r["seed"], r["arm"]) for r in found) == sorted(
        (c.seed, c.arm)
        for c in planned
        if c.name not in ("seed 0 orbit", "seed 0 field", "seed 1 scd")
    )
    assert lost["seed 0 field"] == "ZeroDivisionError: a bug"
    assert "died 2 times" in lost["seed 0 orbit"] and len(lost) == 3
    assert "out of memory" in lost["seed 1 scd"], "tried again, and told when that failed too"
    with (
        hired(planned, 1) as nobody,
        hired(planned[2:5:2], 2) as team,
        pytest.raises(WaggleError, match="seed 0 field: ZeroDivisionError"),
    ):
        assert nobody is None and team is not None
        list(run_all([planned[2], planned[4]], 2, team=team))
    lost.clear()
    here = list(run_all(planned[2:4], 1, lambda cell, why: lost.update({cell.name: why})))
    assert [r["arm"] for r in here] == ["scd"]
    assert lost == {"seed 0 field": "ZeroDivisionError: a bug"}


def test_a_result_that_measured_something_else_is_made_again(tmp_path: Path) -> None:
    (cell,) = factorial.cells(Recipe(), tmp_path, tmp_path, [0], views=3, native=0)[:1]
    assert cell.kept() is None
    cell.result.parent.mkdir(parents=True)
    cell.result.write_text(json.dumps({"arm": "decision", factorial.ASKED: cell.asked()}))
    assert list(run_all([cell], 1)) == [cell.kept()]
    assert cell._replace(views=4).kept() is None
    cell.result.write_text('{"arm": "deci')
    assert cell.kept() is None


def test_transitions_played_in_canonical_order_are_shown_shuffled(
    corpus: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(corpus, folder)
    moves = TransitionSettings(
        tasks=("beacon",), train=16, validation=8, probe=12, test=12, n=(6,), rounds=8, episodes=4
    )
    write(Store(folder), moves, get_law("expert"), order="canonical")
    coder = Coder(nano_tokenizer())
    played = encode_moves(list(Store(folder).transitions("test")), coder, "canonical")
    found = []
    for name in ("one", "two"):
        with Prepared(
            tmp_path / name, Store(folder), nano_tokenizer(), "shuffled", longest=4000
        ) as some:
            found.append(some.transitions("test").moves())
    assert [m.source for m in found[0]] == [m.source for m in found[1]]
    assert (
        sum(a.source != b.source for a, b in zip(found[0], played, strict=True)) > len(played) // 2
    )
    for one, other in zip(found[0], played, strict=True):
        assert one.labels == other.labels and one.eventful == other.eventful
        assert np.array_equal(one.target, other.target)


def test_a_stage_measured_in_parts_is_summed(backbone: Path, corpus: Path, tmp_path: Path) -> None:
    recipe = Recipe(
        backbone=str(backbone), max_context=4000, adaptation=Adaptation(rank=4),
        stage_two=StageTwo(updates=3, batch=2, transition_batch=2),
        run=Run(device="cpu", dtype="float32", evaluate_every=2, save_every=2,
                validation_records=2),
    )  # fmt: skip
    first = bench_stage(recipe, corpus, tmp_path / "stage", 1)
    assert (first.updates, first.calls, first.stage_seconds) == (1, 1, 0.0)
    whole = bench_stage(recipe, corpus, tmp_path / "stage", None)
    assert (whole.updates, whole.calls) == (3, 2)
    assert whole.stage_seconds == whole.seconds > first.seconds
