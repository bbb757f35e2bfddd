"""Measuring a few updates of either stage, on packed and on flat passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waggle.scd import bench, bench_host
from waggle.scd.config import Recipe


@pytest.mark.parametrize("stage", [1, 2])
def test_packed_and_flat_updates_read_the_same_tokens(
    recipe: Recipe, corpus: Path, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    monkeypatch.setattr(bench, "WARM", 1)
    monkeypatch.setattr(bench_host, "UPDATES", 1)
    found = []
    for flat in (False, True):
        data = recipe.model_dump()
        data["run"] |= {"flat": flat, "capture": True}
        chosen = Recipe.model_validate(data)
        found.append(bench.bench_train(chosen, corpus, 1, stage=stage, profile=True))  # type: ignore[arg-type]
    packed, flat_ = found
    assert (packed.passes, flat_.passes) == ("packed", "flat")
    if stage == 2:
        assert packed.tokens == flat_.tokens
    for speed in found:
        assert 0 < speed.run <= speed.tokens and speed.seconds > 0
        assert speed.tokens_per_second == pytest.approx(speed.tokens / speed.seconds)
        assert len(speed.host) == bench_host.FUNCTIONS
        assert " ms, " in speed.host[0]


def test_the_command_takes_both_ways_and_prints_json(
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
    assert main([*asked, "--flat", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passes"] == "flat" and told["busy"] == 0.0 and told["host"] == []
