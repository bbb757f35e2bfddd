"""Measuring a few updates of either stage, and a whole stage in several calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import train as bench
from benchmarks import train_host as bench_host
from waggle.scd.config import Recipe


@pytest.mark.parametrize("stage", [1, 2])
def test_updates_of_either_stage_are_measured(
    recipe: Recipe, corpus: Path, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    monkeypatch.setattr(bench, "WARM", 1)
    monkeypatch.setattr(bench_host, "UPDATES", 1)
    data = recipe.model_dump()
    data["run"] |= {"capture": True}
    chosen = Recipe.model_validate(data)
    speed = bench.bench_train(chosen, corpus, 1, stage=stage, profile=True)  # type: ignore[arg-type]
    assert speed.passes == "ragged"
    assert 0 < speed.run <= speed.tokens and speed.seconds > 0
    assert speed.tokens_per_second == pytest.approx(speed.tokens / speed.seconds)
    assert len(speed.host) == bench_host.FUNCTIONS
    assert " ms, " in speed.host[0]


def test_the_command_prints_json(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from waggle.cli.main import main

    monkeypatch.setattr(bench, "WARM", 1)
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'backbone = "{recipe.backbone}"\nmax_context = 4000\n'
        '[stage_one]\nbatch = 2\n[run]\ndevice = "cpu"\ndtype = "float32"\n',
        encoding="utf-8",
    )
    asked = ["bench", "train", str(path), "--corpus", str(corpus), "--updates", "1", "--first"]
    assert main([*asked, "--tree", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passes"] == "ragged, tree" and told["busy"] == 0.0 and told["host"] == []


def test_a_killed_call_of_a_stage_counts_and_the_next_goes_on(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "WRITTEN", 1)
    said: list[str] = []

    def killed(update: int, _updates: int, _values: object) -> None:
        if update == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.bench_stage(recipe, corpus, tmp_path, None, watch=killed, tell=said.append)
    assert said == ["weights are there", "records are prepared"]
    before = json.loads((tmp_path / "calls.json").read_text(encoding="utf-8"))
    assert [call["updates"] for call in before] == [2] and before[0]["seconds"] > 0
    whole = bench.bench_stage(recipe, corpus, tmp_path, None)
    assert (whole.updates, whole.calls) == (recipe.stage_two.updates, 2)
    assert whole.seconds > before[0]["seconds"]
    assert whole.tokens_per_second > 0 and 0 <= whole.padding < 1


def test_a_stage_says_how_far_it_is(
    recipe: Recipe, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from waggle.cli.main import main

    path = tmp_path / "recipe.toml"
    path.write_text(
        f'backbone = "{recipe.backbone}"\nmax_context = 4000\n[stage_two]\nbatch = 2\n'
        'transition_batch = 2\nupdates = 3\n[run]\ndevice = "cpu"\ndtype = "float32"\n'
        "validation_records = 2\n",
        encoding="utf-8",
    )
    stage = str(tmp_path / "stage")
    asked = ["bench", "train", str(path), "--corpus", str(corpus), "--stage", stage, "--tree"]
    assert main([*asked, "--json"]) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out)["updates"] == 3
    lines = [line.split(": ", 1)[1] for line in seen.err.splitlines() if " s: " in line]
    assert lines[:2] == ["weights are there", "records are prepared"]
    assert lines[2].startswith("1/3 nll") and "validation.nll" in lines[-1]


@pytest.mark.parametrize("text", ["", "[{", "7", '[{"updates": "many"}]'])
def test_a_broken_file_of_times_is_one_clear_line(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    from waggle.cli.main import main

    (tmp_path / "calls.json").write_text(text, encoding="utf-8")
    asked = ["bench", "train", "recipes/tiny.toml", "--corpus", str(corpus)]
    assert main([*asked, "--stage", str(tmp_path)]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "calls.json" in told and "--stage another folder" in told
