"""Trajectories that must be the same: resumed, accumulated, with unused losses, of one seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.scd.runs import changed, last_weights, same, with_warm_start
from waggle.scd.config import Recipe
from waggle.scd.files import TrainError, read_tensors, write_tensors
from waggle.scd.forward import prefix_tree
from waggle.scd.run.stages import Stages
from waggle.scd.ship import export
from waggle.scd.train.trackers import JsonLines
from waggle.scd.train.trainer import Trainer


def nlls(stage: Path) -> list[tuple[int, float]]:
    lines = (stage / "metrics.jsonl").read_text().splitlines()
    return [(value["update"], value["nll"]) for value in map(json.loads, lines)]


def test_resume_is_the_uninterrupted_run(
    recipe: Recipe, corpus: Path, trained: Path, started: Path
) -> None:
    for until in (1, 3):
        Stages(recipe, corpus, started, 0).arm("scd", until=until)
        assert not (started / "seed-0/scd/law").exists()
    Stages(recipe, corpus, started, 0).arm("scd")
    whole, part = trained / "seed-0/scd", started / "seed-0/scd"
    assert same(last_weights(whole), last_weights(part))
    assert nlls(part) == nlls(whole) and [update for update, _ in nlls(part)] == [0, 1, 2, 3]


@pytest.mark.parametrize(("kind", "tree"), [("lora", True), ("dense", False), ("full", False)])
def test_every_adaptation_resumes_to_the_same_weights(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str,
    tree: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(prefix_tree, "COMMON", (2, 1))
    # Compiled adapters drop by a hash; what they compute needs no compiler to be shown.
    monkeypatch.setattr(torch.nn.Module, "compile", lambda *_, **__: None)
    run = {"log_every": 2, "tree": tree, "compile": tree, "save_every": 1}
    chosen = changed(
        recipe, run=run, adaptation={"kind": kind}, stage_one={"updates": 1},
        stage_two={"updates": 2},
    )  # fmt: skip
    assert chosen.adaptation.dropout > 0
    stages = Stages(chosen, corpus, tmp_path / "a", 0)
    start = stages.warm_start().parent
    whole = last_weights(stages.arm("scd").parent)
    other = Stages(chosen, corpus, with_warm_start(tmp_path / "b", start), 0)
    other.arm("scd", until=1)
    again = Stages(chosen, corpus, tmp_path / "b", 0).arm("scd")
    assert same(whole, last_weights(again.parent))


def test_losses_of_weight_zero_change_nothing(
    recipe: Recipe, corpus: Path, trained: Path, started: Path
) -> None:
    Stages(recipe, corpus, started, 0).arm("decision")
    zero = changed(recipe, stage_two={"lambda_orbit": 0.0, "lambda_field": 0.0})
    Stages(zero, corpus, started, 0).arm("scd")
    one, other = (last_weights(started / "seed-0" / arm) for arm in ("decision", "scd"))
    assert same(one, other) and not same(one, last_weights(trained / "seed-0/scd"))


def test_accumulated_gradients_equal_those_of_one_pass(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    still = changed(recipe, adaptation={"dropout": 0.0}, stage_one={"updates": 2})
    found = []
    for name, budget in (("one", 100_000), ("many", 300)):
        small = changed(still, run={"tokens_per_pass": budget})
        stage = Stages(small, corpus, tmp_path / name, 0).warm_start().parent
        lines = (stage / "metrics.jsonl").read_text().splitlines()
        assert (json.loads(lines[0])["passes"] == 1) == (name == "one")
        found.append(last_weights(stage))
    for name, one in found[0].items():
        assert torch.allclose(one, found[1][name], atol=2e-5), name


def test_the_least_validation_loss_selects_what_ships(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 1.0])
    monkeypatch.setattr(Trainer, "_measure", lambda _self: (next(losses), 1.0))
    often = changed(recipe, run={"evaluate_every": 1, "save_every": 1}, stage_one={"updates": 4})
    Stages(often, corpus, tmp_path, 0).warm_start(until=2)
    second = tmp_path / "seed-0/warm-start/checkpoints/update-000002/trainable.safetensors"
    want = read_tensors(second)
    losses = iter([2.0, 4.0])
    law = Stages(often, corpus, tmp_path, 0).warm_start()
    told = json.loads((law / "waggle.json").read_text())["card"]
    assert (told["selected update"], told["validation NLL per token"]) == (2, 1.0)
    best = read_tensors(law.parent / "best" / "trainable.safetensors")
    assert same(best, want) and not same(best, last_weights(law.parent))


def test_a_kill_while_saving_leaves_the_older_checkpoint(
    recipe: Recipe, corpus: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = Stages(recipe, corpus, started, 0)
    stages.arm("field", until=2)
    real = write_tensors

    def full(path: Path, tensors: object) -> None:
        if "update-000003" in str(path):
            raise OSError(28, "No space left on device")
        real(path, tensors)  # type: ignore[arg-type]

    monkeypatch.setattr("waggle.scd.train.checkpoint.write_tensors", full)
    with pytest.raises(TrainError, match=r"No space left on device.*resume") as error:
        stages.arm("field", until=3)
    assert "\n" not in str(error.value)
    folder = started / "seed-0/field/checkpoints"
    assert sorted(p.name for p in folder.iterdir())[-1] == "update-000002"
    monkeypatch.undo()
    assert Stages(recipe, corpus, started, 0).arm("field").name == "law"


def test_a_kill_while_metrics_are_written_loses_no_line(
    recipe: Recipe, corpus: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JsonLines.log

    def killed(self: JsonLines, update: int, values: Mapping[str, float]) -> None:
        if update == 2:
            raise KeyboardInterrupt
        real(self, update, values)

    monkeypatch.setattr(JsonLines, "log", killed)
    with pytest.raises(KeyboardInterrupt):
        Stages(recipe, corpus, started, 0).arm("decision")
    monkeypatch.undo()
    stage = Stages(recipe, corpus, started, 0).arm("decision").parent
    assert [update for update, _ in nlls(stage)] == [0, 1, 2, 3]


def test_a_stage_whose_time_was_up_is_not_trained_further(
    recipe: Recipe, corpus: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = changed(recipe, stage_two={"updates": 9, "seconds": 1e-4})
    monkeypatch.setattr(export, "export", lambda *_: 1 / 0)
    stage, trained = started / "seed-0/field", []
    expected: list[int] = []
    for _ in range(2):  # the law could not be written the first time
        with pytest.raises(ZeroDivisionError):
            watch = lambda update, updates, values: expected.append(updates)  # noqa: E731
            Stages(timed, corpus, started, 0, watch=watch).arm("field")
        trained.append((last_weights(stage), nlls(stage)))
    (one, before), (other, after) = trained
    assert len(before) < 9 and before == after and same(one, other)
    assert expected[0] == 9 and expected[-1] == len(before), "as many as the time allows"


def test_a_run_with_other_settings_is_not_resumed(
    recipe: Recipe, corpus: Path, started: Path
) -> None:
    Stages(recipe, corpus, started, 0).arm("orbit", until=1)
    for part, values in (("stage_two", {"beta": 0.3}), ("run", {"validation_records": 2})):
        other = changed(recipe, **{part: values})
        with pytest.raises(TrainError, match="other settings"):
            Stages(other, corpus, started, 0).arm("orbit")
    Stages(changed(recipe, run={"tokens_per_pass": 900}), corpus, started, 0).arm("orbit", until=2)


def test_canonical_order_trains_on_one_text_per_pair(
    recipe: Recipe, corpus: Path, trained: Path, tmp_path: Path
) -> None:
    small = changed(recipe, stage_one={"updates": 1}, stage_two={"updates": 1})
    stages = Stages(small.model_copy(update={"order": "canonical"}), corpus, tmp_path, 0)
    stages.warm_start()
    canonical, shuffled = (
        json.loads((stage / "metrics.jsonl").read_text().splitlines()[0])["tokens"]
        for stage in (stages.arm("scd").parent, trained / "seed-0/scd")
    )
    assert canonical < 0.75 * shuffled


def test_an_update_that_diverged_is_not_saved_even_where_nothing_is_logged(
    recipe: Recipe, corpus: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Trainer._work

    def diverged(self: Trainer, batch: list[Any]) -> Any:
        sums = work(self, batch)
        late = self.progress.update == 2
        return sums | ({"gradient.backbone": torch.tensor(float("nan"))} if late else {})

    monkeypatch.setattr(Trainer, "_work", diverged)
    run = {"log_every": 100, "save_every": 3}
    with pytest.raises(TrainError, match="not finite; lower the learning rate"):
        Stages(changed(recipe, run=run), corpus, started, 0).arm("scd")
    assert not list((started / "seed-0/scd").glob("checkpoints/update-*"))
