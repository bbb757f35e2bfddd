"""The search of a rate: what is trained, what is kept, what is chosen."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scd.runs import changed
from waggle.core.errors import ConfigError, WaggleError
from waggle.corpus.store import MANIFEST, Store
from waggle.scd.config import Adaptation, Recipe
from waggle.scd.run import tune
from waggle.scd.run.tune import Candidate, advice, at_end, candidates, choose
from waggle.scd.run.workers import run_all
from waggle.scd.train.checkpoint import Progress
from waggle.scd.train.trainer import Trainer

HERE = Path()


@pytest.fixture
def decisions(corpus: Path, tmp_path: Path) -> Path:
    """The corpus without its transitions: a search that read them would fail."""
    folder = tmp_path / "decisions"
    shutil.copytree(corpus, folder, ignore=shutil.ignore_patterns("transitions-*"))
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["parts"]["transitions"], manifest["settings"]["transitions"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def found(rate: float, best: float) -> dict[str, Any]:
    return {"rate": rate, "best": best}


def strict(candidate: Candidate, reason: str) -> None:
    pytest.fail(f"{candidate.name}: {reason}")


def test_the_least_loss_is_chosen_then_the_smaller_rate() -> None:
    rows = [found(1e-3, 0.5), found(1e-4, 0.4), found(1e-5, 0.4)]
    assert choose(rows) == found(1e-5, 0.4)
    assert choose([*rows, found(1.0, 0.39)]) == found(1.0, 0.39)
    with pytest.raises(WaggleError, match="no candidate"):
        choose([])


def test_the_advice_says_what_to_write_into_the_recipe() -> None:
    recipe, file = Recipe(), Path("r.toml")
    assert advice(recipe, file, found(2e-6, 0.1)) == (
        "r.toml has what was chosen: [stage_two] rate = 2e-06"
    )
    assert advice(recipe, file, found(5e-5, 0.1)) == (
        "r.toml does not have what was chosen: write rate = 5e-05 in [stage_two] (it has 2e-06)"
    )


def test_a_choice_at_the_end_of_what_was_tried_is_told() -> None:
    tried = [1e-5, 1e-4, 1e-3]
    assert [at_end(tried, found(rate, 0.1)) for rate in tried] == [True, False, True]
    assert not at_end([1e-5], found(1e-5, 0.1))


def test_arms_take_rate_warm_start_and_corpus_of_their_search(tmp_path: Path) -> None:
    recipe = Recipe(name="mine")
    made = {"recipe": "mine", "seed": 1000, "chosen": found(3e-5, 0.1)}
    taken, start, corpus = tune.taken(made, tmp_path, recipe, None)
    assert taken.stage_two.rate == 3e-5 and recipe.stage_two.rate == 2e-6
    assert taken.model_dump(exclude={"stage_two"}) == recipe.model_dump(exclude={"stage_two"})
    (candidate,) = candidates(recipe, HERE, tmp_path, 1000, [3e-5])
    assert (start, corpus) == (candidate.start, tmp_path / "corpus")
    assert tune.taken(made, tmp_path, recipe, HERE)[2] == HERE
    tune.settle(candidate, tmp_path / "elsewhere")
    assert tune.taken(made, tmp_path, recipe, None)[2] == tmp_path / "elsewhere"
    with pytest.raises(ConfigError, match="a search for recipe 'mine', not 'other'"):
        tune.taken(made, tmp_path, Recipe(name="other"), None)


def test_candidates_are_every_rate_once() -> None:
    made = candidates(Recipe(), HERE, HERE, 1000, [1e-4, 1e-5, 1e-4])
    assert [c.rate for c in made] == [1e-5, 1e-4]
    assert {c.home.name for c in made} == {"lora"} and len({c.folder for c in made}) == 2
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_search_is_bounded_and_keeps_off_the_seeds_of_arms() -> None:
    rates = [i / 100 for i in range(1, 34)]
    assert len(candidates(Recipe(), HERE, HERE, 1000, rates[:32])) == 32
    with pytest.raises(ConfigError, match="33 candidates are too many"):
        candidates(Recipe(), HERE, HERE, 1000, rates)
    for seed in (0, 4, 999, 10_000):
        with pytest.raises(ConfigError, match="paired seeds of arms"):
            candidates(Recipe(), HERE, HERE, seed, [1e-4])


def test_a_search_may_be_shorter_than_the_recipe() -> None:
    short = tune.shortened(Recipe(), 12, 5.0)
    assert (short.stage_two.updates, short.stage_one.seconds) == (12, 5.0)
    assert tune.shortened(Recipe(), None, None) == Recipe()
    with pytest.raises(ConfigError, match=r"stage_two.updates.*got 0"):
        tune.shortened(Recipe(), 0, None)


def test_a_folder_holds_one_search(tmp_path: Path) -> None:
    def settle(recipe: Recipe, rate: float, corpus: Path | None = None) -> None:
        tune.settle(candidates(recipe, tmp_path, tmp_path, 1000, [rate])[0], corpus)

    settle(Recipe(), 1e-4)
    settle(tune.shortened(Recipe(), None, None), 1e-3)
    rank = Recipe(adaptation=Adaptation(rank=4))
    for other in (tune.shortened(Recipe(), 9, None), tune.shortened(Recipe(), None, 9), rank):
        with pytest.raises(ConfigError, match="another --out"):
            settle(other, 1e-4)
    with pytest.raises(ConfigError, match="another --out"):
        settle(Recipe(), 1e-4, Path("corpus"))


def test_candidates_are_trained_once_on_decisions_alone_and_leave_only_numbers(
    recipe: Recipe, decisions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    planned = candidates(recipe, decisions, out, 1000, [1e-4, 1e-2])
    planned[0].stages().warm_start()
    tune.prepare(planned[0])
    assert {p.name.rpartition("-")[0] for p in (out / "prepared").iterdir()} == {
        "decisions-train", "decisions-validation",
    }  # fmt: skip
    rows = list(run_all(planned, 1, strict))
    assert [r["rate"] for r in rows] == [c.rate for c in planned]
    assert len({r["best"] for r in rows}) == 2
    for row, candidate in zip(rows, planned, strict=True):
        assert row["updates"] == 4 and 0 < row["best"] <= row["last"]
        assert row["validation records"] == 4 and row["teacher"] == "expert"
        assert row["rank"] == 4 and "rank 4" in row["warm start"]
        assert sorted(p.name for p in candidate.folder.iterdir()) == [
            "metrics.jsonl", tune.RESULT,
        ]  # fmt: skip
    (planned[0].folder / "best").mkdir()
    monkeypatch.setattr(Trainer, "train", lambda *_: pytest.fail("trained again"))
    assert list(run_all(planned, 1, strict)) == rows
    assert not (planned[0].folder / "best").exists()
    assert "transitions" not in Store(decisions).manifest().parts


def test_a_candidate_is_the_decision_arm_of_its_seed(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    recipe = changed(recipe, adaptation={"dropout": 0.0})
    (candidate,) = candidates(recipe, corpus, tmp_path, 1000, [recipe.stage_two.rate])
    candidate.stages().warm_start()
    law = candidate.stages().arm("decision")
    card = json.loads((law / "waggle.json").read_text())["card"]
    (row,) = run_all([candidate], 1, strict)
    assert row["best"] == pytest.approx(card["validation NLL per token"], abs=2e-5)
    assert row["best update"] == card["selected update"]


@pytest.fixture
def candidate(recipe: Recipe, corpus: Path, trained: Path, tmp_path: Path) -> Candidate:
    """A candidate whose warm start is there."""
    (found,) = candidates(recipe, corpus, tmp_path, 1000, [1e-3])
    found.start.parent.mkdir(parents=True)
    found.start.symlink_to(trained / "seed-0" / "warm-start")
    return found


@pytest.mark.parametrize("done", [2, 4])
def test_an_interrupted_candidate_goes_on_where_it_was(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    (whole,) = run_all([candidate], 1, strict)
    (candidate.folder / tune.RESULT).unlink()
    train, steps = Trainer.train, Trainer.steps
    began: list[int] = []

    def killed(self: Trainer, until: int | None = None) -> Progress:
        train(self, done)
        raise KeyboardInterrupt

    def watched(self: Trainer, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        began.append(first)
        return steps(self, first, last)

    monkeypatch.setattr(Trainer, "train", killed)
    with pytest.raises(KeyboardInterrupt):
        list(run_all([candidate], 1, strict))
    monkeypatch.setattr(Trainer, "train", train)
    monkeypatch.setattr(Trainer, "steps", watched)
    (again,) = run_all([candidate], 1, strict)
    assert began == [done]
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}


def test_a_failing_candidate_costs_no_other(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: dict[str, str] = {}
    real = tune._trained
    monkeypatch.setattr(tune, "_trained", lambda c: real(c) if c.rate == 1e-3 else 1 / 0)

    def tell(candidate: Candidate, reason: str) -> None:
        lost[candidate.name] = reason

    (row,) = run_all([candidate._replace(rate=1e-4), candidate], 1, tell)
    assert row["rate"] == 1e-3
    assert lost == {"rate 0.0001": "ZeroDivisionError: division by zero"}


def test_a_loss_that_is_not_finite_is_never_chosen(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "_measure", lambda _self: (float("nan"), 1.0))
    with pytest.raises(WaggleError, match="validation loss is not finite"):
        candidate.run()
    assert candidate.kept() is None
