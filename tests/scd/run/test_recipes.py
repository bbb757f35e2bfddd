"""The whole pipeline as its script says: corpus, labels, training, diagnosis."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

from waggle.cli.main import main
from waggle.laws.shipped import of_folder
from waggle.scd.config import Recipe, read_recipe
from waggle.scd.diagnose import probe

ROOT = Path(__file__).parents[3]
SMALL = """
name = "two-minutes"
backbone = "{backbone}"
max_context = 4000
[corpus]
tasks = ["beacon"]
bundles = 2
validation = 1
test = 1
native = 4
n = [6]
rounds = 6
[transitions]
tasks = ["beacon"]
law = "warm-start"
train = 8
validation = 4
probe = 6
test = 6
n = [4]
rounds = 3
episodes = 1
[adaptation]
rank = 4
alpha = 8
[stage_one]
updates = 6
batch = 4
rate = 3e-3
[stage_two]
updates = 4
batch = 2
transition_batch = 2
rate = 1e-3
warm_up = 0
ramp = 2
[run]
device = "cpu"
dtype = "float32"
evaluate_every = 3
validation_records = 4
"""


def run(script: Path, recipe: Path, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(script), str(recipe), str(folder)],
        capture_output=True, text=True, check=False, timeout=600, cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(folder.parent),
             "WAGGLE": f"{sys.executable} -m waggle", **env},
    )  # fmt: skip


def test_the_script_leads_from_corpus_to_diagnosed_law(
    tmp_path: Path, backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "UPDATES", 10)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(SMALL.format(backbone=backbone), encoding="utf-8")
    # The commands of the script, here: five processes would mostly import.
    told = run(ROOT / "recipes" / "speedrun.sh", recipe, tmp_path / "out", WAGGLE="echo")
    assert told.returncode == 0, told.stderr
    commands = [shlex.split(line) for line in told.stdout.splitlines()]
    assert [words[0] for words in commands] == ["corpus"] * 3 + ["train", "diagnose"]
    # Laws as young as this one never end a record.
    monkeypatch.setattr("waggle.scd.run.data.of_folder", partial(of_folder, max_new_tokens=8))
    for words in commands:
        shorter = ["--law.max_new_tokens", "8"] if words[0] == "diagnose" else []
        assert main([*words, *shorter]) == 0, words
    law = tmp_path / "out/seed-0/scd/law"
    assert (law / "adapter_config.json").exists() and (law / "README.md").exists()
    result = json.loads((tmp_path / "out/scd.json").read_text(encoding="utf-8"))
    assert result["synthetic views"] == 8
    assert result["equivariance canonical admitted"] == 1.0
    assert result["probe all"] > 0


@pytest.mark.slow
def test_the_tiny_recipe_runs(tmp_path: Path) -> None:
    done = run(ROOT / "recipes" / "speedrun.sh", ROOT / "recipes" / "tiny.toml", tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_recipes_can_be_read() -> None:
    files = [
        path
        for path in (ROOT / "recipes").rglob("*.toml")
        if {"backbone", "extends"} & set(tomllib.loads(path.read_text(encoding="utf-8")))
        and path.parent.name != "fit"
    ]
    found = {str(path.relative_to(ROOT / "recipes")): read_recipe(path) for path in files}
    assert len({recipe.name for recipe in found.values()}) == len(found) >= 15
    # The table of the paper is what an empty recipe means; only the machine's part differs.
    paper = found["paper.toml"].model_dump(exclude={"run"})
    assert paper == Recipe(name="paper").model_dump(exclude={"run"})


def test_factorials_begin_without_orbit_images_and_play_their_own_transitions() -> None:
    for name in ("nano", "smollm2"):
        recipe = read_recipe(ROOT / "recipes" / f"factorial_{name}.toml")
        assert recipe.harvest.as_seen and recipe.order == "shuffled"
        assert recipe.transitions.law == "warm-start" and recipe.stage_two.updates == 648
        assert recipe.corpus == Recipe().corpus


def test_specialists_differ_from_the_joint_law_in_their_views_alone() -> None:
    folder = ROOT / "recipes" / "specialists"
    joint = read_recipe(folder / "joint.toml")
    told = {"name": True, "corpus": {"tasks", "families"}, "transitions": {"tasks"}}
    for pair in ("matched", "oracle"):
        for substrate in ("swarmbench", "silo"):
            own = read_recipe(folder / f"{pair}_{substrate}.toml")
            assert own.model_dump(exclude=told) == joint.model_dump(exclude=told)
            assert own.name == f"{pair}-{substrate}"
            assert {task.partition("/")[0] for task in own.transitions.tasks} == {substrate}
            assert bool(own.corpus.families) == (own.corpus.tasks == joint.corpus.tasks)


def test_a_step_prints_what_it_would_run() -> None:
    for step in (
        ["factorial-nano"], ["factorial-smollm2"], ["factorial-gemma"], ["near"], ["specialists"],
        ["learn", "0", "1"], ["learn-task", "median", "0"], ["outcomes"],
    ):  # fmt: skip
        told = subprocess.run(
            ["bash", str(ROOT / "recipes/gpu.sh"), *step], capture_output=True, text=True,
            check=True, env={"PATH": "/usr/bin:/bin", "DRY": "1"},
        )  # fmt: skip
        for line in told.stdout.splitlines():
            words = shlex.split(line)
            named = [ROOT / word for word in words if word.endswith((".toml", ".py"))]
            assert all(path.is_file() for path in named), line
            assert words[1] in ("waggle", "env", "mkdir", "cp"), line


@pytest.mark.parametrize("step", [("learn", "0", "1"), ("learn-task", "median", "0"), ("near",)])
def test_a_step_on_the_gpu_fails_with_any_of_its_commands(step: tuple[str, ...]) -> None:
    for command, code in {"false": 1, "true": 0}.items():
        told = subprocess.run(
            ["bash", str(ROOT / "recipes/gpu.sh"), *step], capture_output=True, check=False,
            env={"PATH": "/usr/bin:/bin", "WAGGLE": command},
        )  # fmt: skip
        assert told.returncode == code, told.stderr


def called(folder: Path, *step: str, waggle: str = "echo") -> subprocess.CompletedProcess[str]:
    """Call a step in a folder with nothing but runs/; every command is printed and does nothing."""
    (folder / "recipes").mkdir(exist_ok=True)
    shutil.copy(ROOT / "recipes/gpu.sh", folder / "recipes")
    return subprocess.run(
        ["bash", str(folder / "recipes/gpu.sh"), *step], capture_output=True, text=True,
        check=False, env={"PATH": "/usr/bin:/bin", "WAGGLE": waggle},
    )  # fmt: skip


def test_learning_a_task_takes_seed_0_where_none_is_named(tmp_path: Path) -> None:
    told = called(tmp_path, "learn-task", "synchronization").stdout
    assert "--seed 0 --processes 14 --out runs/learn/synchronization/0" in told


def test_a_run_of_learning_that_is_finished_is_not_finished_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs/learn"
    for name in ("agentsnet/2-1", "foraging/2"):  # not better: finished without a law
        (runs / name).mkdir(parents=True)
        (runs / name / "learn.json").touch()
    done = called(tmp_path, "learn", "2"), called(tmp_path, "learn-task", "foraging", "2")
    assert [(each.returncode, each.stdout) for each in done] == [(0, ""), (0, "")]


def test_learning_explores_and_then_cools_the_law_down(tmp_path: Path) -> None:
    runs = tmp_path / "runs/learn/agentsnet"
    told = called(tmp_path, "learn", "1").stdout
    assert "--out runs/learn/agentsnet/1-1" in told and "--start" not in told
    command = tmp_path / "command"  # exports a law, and finishes
    command.write_text(
        '#!/bin/sh\nout=$(echo "$@" | sed "s/.*--out //;s/ .*//")\n'
        "mkdir -p $out/law && touch $out/learn.json && echo $out >$out/law/card.md\n"
    )
    command.chmod(0o755)
    for number in (1, 2):
        called(tmp_path, "learn", "1", waggle=str(command))
        assert (runs / "1/law/card.md").read_text().strip() == f"runs/learn/agentsnet/1-{number}"
    (runs / "1-3").mkdir()
    (runs / "1-3/learn.json").touch()  # a run that was not better
    told = called(tmp_path, "learn", "1").stdout
    assert "--out runs/learn/agentsnet/1-4" in told
    assert "--start runs/learn/agentsnet/1/law --temperature 2" in told


def test_runs_of_learning_side_by_side_share_processes_and_memory(tmp_path: Path) -> None:
    command = tmp_path / "command"
    command.write_text('#!/bin/sh\necho "share=$WAGGLE_GPU_SHARE" "$@"\n')
    command.chmod(0o755)
    for seeds, processes, memory in (("0", 14, 0.99), ("0 1 2", 4, 0.33), ("0 1 3 4 5", 2, 0.19)):
        told = called(tmp_path, "learn-task", "foraging", *seeds.split(), waggle=str(command))
        lines = [line for line in told.stdout.splitlines() if line.startswith("share=")]
        assert len(lines) == len(seeds.split())
        assert all(line.startswith(f"share={memory} ") for line in lines)
        assert all(f" --processes {processes} " in line for line in lines)


def test_laws_from_outcomes_that_are_missing_are_not_played(tmp_path: Path) -> None:
    # A method that is named and has no weights ends `waggle eval` before any is played.
    for law in ("agentsnet/0", "agentsnet/1", "agentsnet/1-1", "synchronization/2"):
        (tmp_path / f"runs/learn/{law}/law").mkdir(parents=True)
    done = called(tmp_path, "outcomes")
    found = [line.split() for line in done.stdout.splitlines() if line.startswith("+")]
    assert done.returncode == 0
    assert [words[words.index("--methods") + 1] for words in found] == [
        "nano-outcome", "outcomes-1", "nano-outcome", "outcomes-1", "synchronization-2",
    ]  # fmt: skip


def test_a_bad_recipe_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[stage_two]\nupdatez = 3\n", encoding="utf-8")
    assert main(["train", str(bad)]) == 2
    told = capsys.readouterr().err
    assert "stage_two.updatez" in told and told.count("\n") == 1
    bad.write_text("not toml", encoding="utf-8")
    assert main(["train", str(bad)]) == 2
    assert "is not TOML" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "none.toml")]) == 2
    assert "cannot read recipe" in capsys.readouterr().err


def test_a_recipe_of_another_command_is_sent_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("silo_sources.toml", "tables/primary.toml"):
        assert main(["train", str(ROOT / "recipes" / name)]) == 2
        assert "recipe of evaluation; use `waggle eval" in capsys.readouterr().err
    assert main(["train", str(ROOT / "recipes/learn/median.toml")]) == 2
    assert "recipe of learning; use `waggle learn TASK" in capsys.readouterr().err
