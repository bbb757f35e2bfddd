"""The report of runs of learning: what it shows, and which files it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from waggle.cli.main import main
from waggle.core.errors import ConfigError
from waggle.learn import runs
from waggle.learn.config import Settings
from waggle.report import learning

TASKS = "beacon/beacon n=8", "agentsnet/consensus n=8"


def found(gain: float, mean: float, **more: Any) -> dict[str, Any]:
    gains = {task: [gain - 0.1, gain + 0.1] for task in TASKS}
    return {
        "gain": gain, "low": gain - 0.1, "high": gain + 0.1, "cases": 4, "executable": 0.99,
        "means": dict.fromkeys(TASKS, mean), "gains": gains, **more,
    }  # fmt: skip


def save(folder: Path, seed: int = 0, gain: float = 0.4, **changed: Any) -> Path:
    """Write a run that was never made."""
    settings = Settings(tasks=("beacon", "agentsnet/consensus"), name="hand-made")
    settings = settings.model_copy(update=changed)
    summary = {
        "settings": settings.model_dump(mode="json"), "seed": seed, "batches": 4,
        "selected batch": 2, "minutes": 1.5, "start": dict.fromkeys(TASKS, 0.3),
        "origin": {"teacher": "expert", "backbone": "nano"}, "law": found(gain, 0.3 + gain),
        "sampled": found(gain / 2, 0.3 + gain / 2),
        "controls": {"silent": found(-0.1, 0.2), "constant": found(0.0, 0.3)},
        "fidelity": {"correlation": 0.25, "decisions": 500, "mattered": 60},
    }  # fmt: skip
    if settings.rehearse:
        kept = found(-0.01, 0.49)
        summary["kept"] = {"start": dict.fromkeys(TASKS, 0.5), "law": kept}
    folder.mkdir(parents=True)
    (folder / runs.SUMMARY).write_text(json.dumps(summary), encoding="utf-8")
    lines: list[dict[str, float]] = [{"update": 0, "trial.score": 0.3, "trial.gain": 0.0}]
    same = {"dead": 0.5, "executable": 1.0, "choice.entropy": 0.1, "choice.divergence": 0.01}
    lines += [{"update": batch, "reward": 0.1 * batch, **same} for batch in range(1, 5)]
    lines[-1] |= {"trial.gain": gain, "trial.low": gain - 0.1, "trial.high": gain + 0.1,
                  "trial.executable": 0.98}  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / runs.METRICS).write_text(text, encoding="utf-8")
    return folder


def arms_of(folder: Path) -> list[learning.Arm]:
    return learning._arms([runs.read(path) for path in runs.find(folder)])


def test_a_metric_that_was_not_measured_has_no_panel(tmp_path: Path) -> None:
    folder = save(tmp_path / "run")

    def titles() -> str:
        assert main(["report", str(folder)]) == 0
        return (folder / "figures" / "learning.svg").read_text(encoding="utf-8")

    assert "<!-- divergence (nats) -->" in titles()
    lines = [json.loads(line) for line in (folder / runs.METRICS).read_text().splitlines()]
    for line in lines:
        line.pop("choice.divergence", None)
    (folder / runs.METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "<!-- divergence (nats) -->" not in titles()
    assert "<!-- entropy (nats) -->" in titles()


def cells(table: Any, row: str) -> list[str]:
    return [list(cells[1:]) for cells in table.rows if cells[0] == row][-1]


def test_the_command_reports_label_gain_controls_and_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "run")
    assert main(["report", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "start nano, teacher expert, backbone nano, credit auto" in text
    assert "+0.400 [+0.300, +0.500] | 4 | 0.990 | 0.25 (500)" in text
    assert "![Learning curves](figures/learning.svg)" in text
    assert (folder / "figures" / "learning.svg").exists()
    assert (folder / "report.tex").exists()
    assert "<h2>Learning curves</h2>" in (folder / "report.html").read_text(encoding="utf-8")
    assert "What was kept" not in text


def test_what_is_not_for_learning_is_refused(tmp_path: Path) -> None:
    assert main(["report", str(save(tmp_path / "runs" / "0")), "--records"]) == 2
    assert main(["report", str(tmp_path)]) == 2


def test_scores_name_start_law_sampled_and_every_control(tmp_path: Path) -> None:
    save(tmp_path / "a")
    save(tmp_path / "b", shuffled=True, gain=0.0)
    (arm,) = arms_of(tmp_path)
    table = learning.scores(arm)
    assert table.columns == (
        "task", "start", "law", "law, sampled", "silent", "constant", "shuffled",
    )  # fmt: skip
    assert cells(table, TASKS[0]) == ["0.300", "0.700", "0.500", "0.200", "0.300", "0.300"]
    assert cells(table, "gain over the start")[-1] == "+0.000 [-0.100, +0.100]"
    save(tmp_path / "c", shuffled=True, gain=0.0, seed=1, minutes=1.0)
    (arm,) = arms_of(tmp_path)
    assert [run.name for run in arm.shuffled] == ["b", "c"], "a control may be shorter"


def test_training_seeds_are_one_arm_whose_gain_draws_seeds_first(tmp_path: Path) -> None:
    for seed, gain in enumerate((0.2, 0.4, 0.6)):
        save(tmp_path / str(seed), seed, gain)
    (arm,) = arms_of(tmp_path)
    line = cells(learning.gains([arm]), "hand-made")
    assert line[0] == "all"
    mean, low, high = line[4].replace("[", "").replace("]", "").replace(",", "").split()
    assert float(mean) == pytest.approx(0.4)
    assert float(low) < 0.35 < 0.45 < float(high)
    assert line[5] == "12"
    batches, values = learning._points(arm.runs, "trial.gain") or (None, None)
    assert batches is not None and values is not None
    assert batches.tolist() == [0, 4]
    assert values[:, 1].tolist() == [0.2, 0.4, 0.6]


def test_arms_are_named_by_what_differs(tmp_path: Path) -> None:
    save(tmp_path / "a", credit="group")
    save(tmp_path / "b", credit="branch")
    assert [arm.label for arm in arms_of(tmp_path)] == ["credit group", "credit branch"]


def test_what_was_kept_is_a_share_of_the_start(tmp_path: Path) -> None:
    save(tmp_path / "a", rehearse=("silo",))
    (table,) = learning.kept(arms_of(tmp_path)[0])
    assert cells(table, TASKS[0]) == ["0.500", "0.490", "98.0"]


def test_early_files_without_cases_have_no_pooled_gain(tmp_path: Path) -> None:
    for seed in range(2):
        path = save(tmp_path / str(seed), seed) / runs.SUMMARY
        told = json.loads(path.read_text(encoding="utf-8"))
        del told["law"]["gains"], told["fidelity"], told["origin"], told["sampled"]
        path.write_text(json.dumps(told), encoding="utf-8")
    (arm,) = arms_of(tmp_path)
    assert cells(learning.gains([arm]), "hand-made")[4] == "—"
    assert cells(learning.scores(arm), TASKS[0])[2] == "—"


def test_means_round_alike_in_every_python(tmp_path: Path) -> None:
    run = runs.read(save(tmp_path / "run"))
    assert learning._mean([run] * 10, lambda run: 0.1) == 0.1, "from left to right a little less"


def test_a_run_without_an_end_is_named_and_left_out(tmp_path: Path) -> None:
    save(tmp_path / "done")
    (save(tmp_path / "running", 1) / runs.SUMMARY).unlink()
    assert len(arms_of(tmp_path)[0].runs) == 1
    assert learning._unfinished(tmp_path) == ["left out, not finished: running"]


def test_a_last_line_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    path = save(tmp_path / "run") / runs.METRICS
    whole = runs.read(path.parent).metrics
    path.write_text(path.read_text(encoding="utf-8") + '{"update": 5, "rew', encoding="utf-8")
    assert runs.read(path.parent).metrics == whole


def test_two_runs_of_one_seed_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a")
    save(tmp_path / "b")
    with pytest.raises(ConfigError, match="a and b are runs of the same settings"):
        learning.write(tmp_path)


def test_runs_of_one_arm_on_other_tasks_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a")
    path = save(tmp_path / "b", 1) / runs.SUMMARY
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(TASKS[0], "beacon/other n=8"), encoding="utf-8")
    with pytest.raises(ConfigError, match="other tasks"):
        learning.write(tmp_path)


def _set(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda told: told.update(values)


BAD: dict[str, Callable[[dict[str, Any]], None]] = {
    "seed is no number": _set(seed="x"),
    "gain is not finite": lambda told: told["law"].update(gain=float("nan")),
    "gain is too large": lambda told: told["law"].update(gain=10**400),
    "start names nothing": _set(start={}),
    "law names other tasks": lambda told: told["law"].update(means={"other": 1.0}),
    "gains of a task are empty": lambda told: told["law"]["gains"].update({TASKS[0]: []}),
    "a task has a line break": _set(start={"a\nb": 1.0}),
    "unknown setting": lambda told: told["settings"].update(surprise=1),
    "settings are none": _set(settings={"tasks": 5}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_summary_that_says_something_else_is_refused_in_one_line(
    tmp_path: Path, name: str
) -> None:
    path = save(tmp_path / "run") / runs.SUMMARY
    told = json.loads(path.read_text(encoding="utf-8"))
    BAD[name](told)
    path.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"learn\.json") as error:
        learning.write(path.parent)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "line",
    ["[]", "7", '{"reward": 1}', '{"update": "x"}', '{"update": 1e999}', "[" * 100_000, "\x00",
     '{"update": 1, "reward": "much"}', '{"update": 1, "reward": 1' + "0" * 400 + "}"],
)  # fmt: skip
def test_metrics_that_say_something_else_are_refused_in_one_line(tmp_path: Path, line: str) -> None:
    path = save(tmp_path / "run") / runs.METRICS
    path.write_text(f"{line}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"metrics\.jsonl .*line 1") as error:
        learning.write(path.parent)
    assert "\n" not in str(error.value)


def test_files_of_any_length_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path / "run")
    monkeypatch.setattr(runs, "MAX_BYTES", 10)
    with pytest.raises(ConfigError, match="MiB long"):
        runs.read(folder)
    monkeypatch.setattr(runs, "MOST_RUNS", 0)
    with pytest.raises(ConfigError, match="split it"):
        runs.find(tmp_path)
