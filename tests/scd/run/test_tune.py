"""The search of rate and rank: what is trained, what is kept, what is chosen."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.scd.runs import changed
from waggle.core.errors import ConfigError, WaggleError
from waggle.corpus.store import MANIFEST, Store
from waggle.scd.config import Adaptation, Recipe
from waggle.scd.run import tune
from waggle.scd.run.stages import Stages
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


def found(rank: int | None, rate: float, best: float) -> dict[str, Any]:
    return {"rank": rank, "rate": rate, "best": best}


def strict(candidate: Candidate, reason: str) -> None:
    pytest.fail(f"{candidate.name}: {reason}")


def test_the_least_loss_is_chosen_then_the_smaller_rank_then_the_smaller_rate() -> None:
    rows = [found(8, 1e-3, 0.5), found(16, 1e-5, 0.4), found(8, 1e-4, 0.4), found(8, 1e-5, 0.4)]
    assert choose(rows) == found(8, 1e-5, 0.4)
    assert choose(rows[1:3]) == found(8, 1e-4, 0.4)
    assert choose([*rows, found(64, 1.0, 0.39)]) == found(64, 1.0, 0.39)
    assert choose([found(None, 1e-3, 0.5), found(None, 1e-4, 0.5)])["rate"] == 1e-4
    with pytest.raises(WaggleError, match="no candidate"):
        choose([])


def test_the_advice_says_what_to_write_into_the_recipe() -> None:
    recipe, file = Recipe(), Path("r.toml")
    assert advice(recipe, file, found(32, 2e-6, 0.1)) == (
        "r.toml has what was chosen: [stage_two] rate = 2e-06 and [adaptation] rank = 32"
    )
    assert advice(recipe, file, found(16, 5e-5, 0.1)) == (
        "r.toml does not have what was chosen: write rate = 5e-05 in [stage_two] (it has 2e-06) "
        "and rank = 16 in [adaptation] (it has 32)"
    )
    assert "rank" not in advice(recipe, file, found(None, 5e-5, 0.1))


def test_a_choice_at_the_end_of_what_was_tried_is_named() -> None:
    tried = [(rate, rank) for rate in (1e-5, 1e-4, 1e-3) for rank in (8, 16)]
    assert at_end(tried, found(16, 1e-4, 0.1)) == ["rank"]
    assert at_end(tried, found(8, 1e-3, 0.1)) == ["rate", "rank"]
    assert at_end([(1e-5, None), (1e-4, None), (1e-3, None)], found(None, 1e-4, 0.1)) == []
    assert at_end([(1e-5, None)], found(None, 1e-5, 0.1)) == []


def test_candidates_are_every_rate_at_every_rank_once() -> None:
    made = candidates(Recipe(), HERE, HERE, 1000, [1e-4, 1e-5, 1e-4], [16, 8])
    assert [(c.rank, c.rate) for c in made] == [(8, 1e-5), (8, 1e-4), (16, 1e-5), (16, 1e-4)]
    assert {c.home.name for c in made} == {"rank-8", "rank-16"}
    assert len({c.folder for c in made}) == 4
    (alone,) = candidates(Recipe(), HERE, HERE, 1000, [1e-4], [])
    assert alone.rank == 32 and pickle.loads(pickle.dumps(alone)) == alone


@pytest.mark.parametrize("kind", ["full", "dense"])
def test_whole_matrices_have_no_rank_to_search(kind: Literal["full", "dense"]) -> None:
    recipe = Recipe(adaptation=Adaptation(kind=kind, rank=4))
    (one,) = candidates(recipe, HERE, HERE, 1000, [1e-4], [])
    assert one.rank is None and one.name == "rate 0.0001" and one.home.name == kind
    with pytest.raises(ConfigError, match="leave --ranks out"):
        candidates(recipe, HERE, HERE, 1000, [1e-4], [4])


def test_a_search_is_bounded_and_keeps_off_the_seeds_of_arms() -> None:
    rates = [i / 100 for i in range(1, 34)]
    assert len(candidates(Recipe(), HERE, HERE, 1000, rates[:32], [])) == 32
    with pytest.raises(ConfigError, match="33 candidates are too many"):
        candidates(Recipe(), HERE, HERE, 1000, rates, [])
    for seed in (0, 4, 999, 10_000):
        with pytest.raises(ConfigError, match="paired seeds of arms"):
            candidates(Recipe(), HERE, HERE, seed, [1e-4], [])


def test_a_search_may_be_shorter_than_the_recipe() -> None:
    short = tune.shortened(Recipe(), 12, 5.0)
    assert (short.stage_two.updates, short.stage_one.seconds) == (12, 5.0)
    assert tune.shortened(Recipe(), None, None) == Recipe()
    with pytest.raises(ConfigError, match=r"stage_two.updates.*got 0"):
        tune.shortened(Recipe(), 0, None)


def test_a_folder_holds_one_search(tmp_path: Path) -> None:
    def settle(recipe: Recipe, rates: list[float], ranks: list[int], **where: Path | None) -> None:
        first = candidates(recipe, tmp_path, tmp_path, 1000, rates, ranks)[0]
        tune.settle(first, where.get("corpus"), where.get("harvest"))

    settle(Recipe(), [1e-4], [8])
    settle(Recipe(), [1e-3], [16])
    settle(tune.shortened(Recipe(), None, None), [1e-3], [])
    for other in (tune.shortened(Recipe(), 9, None), tune.shortened(Recipe(), None, 9)):
        with pytest.raises(ConfigError, match="another --out"):
            settle(other, [1e-4], [8])
    with pytest.raises(ConfigError, match="another --out"):
        settle(Recipe(), [1e-4], [8], harvest=Path("tokens"))


def test_candidates_are_trained_once_on_decisions_alone_and_leave_only_numbers(
    recipe: Recipe, decisions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    planned = candidates(recipe, decisions, out, 1000, [1e-4, 1e-2], [2, 4])
    tune.warm_starts(planned, strict)
    tune.prepare(planned[0])
    assert {p.name.rpartition("-")[0] for p in (out / "prepared").iterdir()} == {
        "decisions-train", "decisions-validation",
    }  # fmt: skip
    rows = list(run_all(planned, 1, strict))
    assert [(r["rank"], r["rate"]) for r in rows] == [(c.rank, c.rate) for c in planned]
    assert len({r["best"] for r in rows}) == 4
    for row, candidate in zip(rows, planned, strict=True):
        assert row["updates"] == 4 and 0 < row["best"] <= row["last"]
        assert row["validation records"] == 4 and row["teacher"] == "expert"
        assert f"rank {candidate.rank}" in row["warm start"]
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
    (candidate,) = candidates(recipe, corpus, tmp_path, 1000, [recipe.stage_two.rate], [])
    tune.warm_starts([candidate], strict)
    law = candidate.stages().arm("decision")
    card = json.loads((law / "waggle.json").read_text())["card"]
    (row,) = run_all([candidate], 1, strict)
    assert row["best"] == pytest.approx(card["validation NLL per token"], abs=2e-5)
    assert row["best update"] == card["selected update"]


@pytest.fixture
def candidate(recipe: Recipe, corpus: Path, trained: Path, tmp_path: Path) -> Candidate:
    """A candidate whose warm start is there."""
    (found,) = candidates(recipe, corpus, tmp_path, 1000, [1e-3], [])
    found.start.parent.mkdir(parents=True)
    found.start.symlink_to(trained / "seed-0" / "warm-start")
    return found


def test_an_interrupted_candidate_goes_on_where_it_was(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = run_all([candidate], 1, strict)
    (candidate.folder / tune.RESULT).unlink()
    train, steps = Trainer.train, Trainer.steps
    began: list[int] = []

    def killed(self: Trainer, until: int | None = None) -> Progress:
        train(self, 2)
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
    assert began == [2]
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}


def test_a_failing_candidate_or_warm_start_costs_no_other(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = candidates(recipe, corpus, tmp_path, 1000, [1e-3], [2, 4])
    lost: dict[str, str] = {}

    def tell(candidate: Candidate, reason: str) -> None:
        lost[candidate.name] = reason

    real = Stages.warm_start
    monkeypatch.setattr(
        Stages, "warm_start",
        lambda self: real(self) if self.recipe.adaptation.rank == 4 else 1 / 0,
    )  # fmt: skip
    tune.warm_starts(planned, tell)
    assert lost == {"rank 2, rate 0.001": "no warm start: ZeroDivisionError: division by zero"}
    lost.clear()
    (row,) = run_all(planned, 1, tell)
    assert row["rank"] == 4
    assert "cannot read" in lost["rank 2, rate 0.001"] and len(lost) == 1
    assert planned[0].kept() is None


def test_a_loss_that_is_not_finite_is_never_chosen(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "_measure", lambda _self: (float("nan"), 1.0))
    with pytest.raises(WaggleError, match="validation loss is not finite"):
        candidate.run()
    assert candidate.kept() is None
