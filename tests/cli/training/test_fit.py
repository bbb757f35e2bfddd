"""`waggle fit`: budget first, digest before and after, resumable, development seeds only."""

from __future__ import annotations

from pathlib import Path

import pytest

from waggle import plugins
from waggle.cli.main import main

RECIPE = """
tasks = ["silo/I-05"]
n = [8]
seeds = {{ start = {start}, count = 2 }}
steps = 2
"""


def recipe(folder: Path, start: int = 20_000) -> str:
    path = folder / "fit.toml"
    path.write_text(RECIPE.format(start=start), encoding="utf-8")
    return str(path)


def test_a_fit_prints_its_budget_and_makes_parameters_that_play(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gptswarm.json"
    assert main(["fit", "gptswarm", recipe(tmp_path), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "budget: 8 episodes of 2 development cases"
    assert lines[1].startswith("before: ") and lines[1].endswith("untrained")
    law = plugins.get_law("gptswarm", parameters=str(out))
    assert lines[2].startswith(f"after: {law.digest}, ")  # type: ignore[attr-defined]
    assert main(["fit", "gptswarm", recipe(tmp_path), "--out", str(out)]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[1].endswith("2 of 2 steps")
    assert again[2].split(",")[0] == lines[2].split(",")[0]
    case = ["silo/I-05", "-n", "8", "--seed", "10000", "--out", str(tmp_path / "runs")]
    assert main(["run", *case, "--law", "gptswarm", "--law.parameters", str(out)]) == 0


@pytest.mark.parametrize(
    ("method", "start", "why"),
    [
        ("gptswarm", 40_000, "seed 40000"),
        ("swarmsys", 20_000, "not trained"),
        ("gptswrm", 20_000, "did you mean"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    method: str, start: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", method, recipe(tmp_path, start), "--out", str(tmp_path / "p.json")]) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "p.json").exists()
