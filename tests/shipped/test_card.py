"""The model card: every number from results, the same results the same card, failures named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, refused, waggle
from tests.shipped.conftest import Export
from tests.shipped.recipes import RECIPE
from waggle import shipped
from waggle.evaluate import plan
from waggle.laws.digest import of_manifest
from waggle.laws.shipped import of_folder
from waggle.report.model_card import card, failures
from waggle.scd.config import Adaptation, Recipe, Run
from waggle.scd.model import Student
from waggle.scd.ship.export import export
from waggle.shipped.pack import pack

__all__ = ["waggle"]

PLAYED_BY_NANO = {"methods": ["nano"], "tasks": ["beacon"], "n": [4], "seeds": [10000, 10001]}
DIAGNOSIS = {
    "order": "canonical", "synthetic views": 800, "synthetic executable": 0.9875,
    "equivariance canonical decoded": 1.0, "equivariance shuffled decoded": 0.903,
}  # fmt: skip


@pytest.fixture
def run(waggle: Command, tmp_path: Path) -> Path:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    said = waggle("eval", recipe, "--out", tmp_path / "small", "--executor", "inline")
    assert said.code == 0, said.err
    return tmp_path / "small"


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Path]:
    files = {
        "diagnosis": ("scd.json", json.dumps(DIAGNOSIS)),
        "stats": ("stats.json", json.dumps({"decisions": {"train": {"records": {"all": 4321}}}})),
        "notes": ("notes.txt", "Long texts confuse it.\n\nSo do riddles.\n"),
    }
    for name, text in files.values():
        (tmp_path / name).write_text(text)
    return {option: tmp_path / name for option, (name, _) in files.items()}


def test_what_training_left_beside_the_law_is_taken(
    waggle: Command, exported: Export, root: Path, tmp_path: Path
) -> None:
    import shutil

    run = tmp_path / "run"
    law = run / "seed-0" / "orbit" / "law"
    shutil.copytree(exported("full"), law)
    (law.parent / "diagnosis.json").write_text(json.dumps(DIAGNOSIS))
    (run / "phases.json").write_text(json.dumps({"stage one": 240.0, "stage two": 61.5}))
    shards = {"train": [{"rows": 65536}, {"rows": 10}], "validation": [{"rows": 77}]}
    (run / "tokens" / "canonical").mkdir(parents=True)
    (run / "tokens" / "canonical" / "manifest.json").write_text(json.dumps({"shards": shards}))
    said = waggle("law", "pack", law, "nano", "--out", root)
    assert said.code == 0, said.err
    text = (root / "nano" / "README.md").read_text()
    for part in ("| measure | orbit |", "stage two | 61.5", "all | 301.5", "train | 65,546"):
        assert part in text, part
    assert shipped.manifest(root / "nano").corpus["tokens"] == {"train": 65546, "validation": 77}


def test_a_law_that_learned_from_outcomes_names_every_training(
    exported: Export, root: Path, tmp_path: Path
) -> None:
    first = exported("full")
    student = Student(
        Recipe(
            backbone=str(first), order="canonical", adaptation=Adaptation(kind="full"),
            run=Run(device="cpu", dtype="float32"),
        ),
        2,
    )  # fmt: skip
    for place, task in enumerate(("agentsnet", "swarmbench/flocking")):
        start = tmp_path / str(place - 1) if place else first
        said = {"teacher": "expert", "learned from": "outcomes", "minutes of learning": place}
        learning = {"tasks": [task], "credit": "progress", "machine": {"device": "cuda"}}
        export(student, tmp_path / str(place), said, learning, str(start))
    assert f"base_model: {student.recipe.backbone}" not in (tmp_path / "1/README.md").read_text()
    found = pack(tmp_path / "1", root / "nano", {}).manifest
    assert [each["law"] for each in found.earlier] == [str(first), str(tmp_path / "0")]
    text = card(found, {})
    for part in (
        "trained by learning from outcomes, after imitation", "| tasks | swarmbench/flocking |",
        "Never trained on: Synchronization, Transport.", "| machine.device | cuda |",
        "Training 1: settings", "| stage_one.batch | 16 |", "| selected update | 7 |",
        "Training 2: settings", "| tasks | agentsnet |", "| minutes of learning | 0 |",
    ):  # fmt: skip
        assert part in text, part
    before = text.split("Training 1: settings")[0]
    assert "stage_one" not in before, "those settings are not this training's"


def test_a_law_packed_again_into_its_package_keeps_name_and_modules(
    exported: Export, tmp_path: Path
) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("law = 1\n")
    (package / "old.json").touch()
    assert pack(exported("full"), package, {}, name="hermit").manifest.name == "hermit"
    assert (package / "__init__.py").read_text() == "law = 1\n" and shipped.verify(package)
    assert not (package / "old.json").exists()


def flags(results: dict[str, Path]) -> list[object]:
    return [word for name, path in results.items() for word in (f"--{name}", path)]


def test_pack_and_card_put_every_result_in(
    waggle: Command, exported: Export, root: Path, run: Path, results: dict[str, Path]
) -> None:
    words = ("law", "pack", exported("full"), "nano", "--out", root)
    assert waggle(*words, *flags(results)).code == 0
    # The folder of a law with a distribution of its own is a module, too.
    (root / "nano" / "__init__.py").write_text("")
    said = waggle("law", "card", root / "nano", "--run", run)
    assert said.code == 0, said.err
    assert "__init__.py" not in shipped.manifest(root / "nano").files
    text = (root / "nano" / "README.md").read_text()
    for part in ("teacher | expert", "canon order | canonical", "seed: training | 3", "4,321",
                 "synthetic executable | 0.9875", "A small run", "seeds 10000 to 10001 (2)",
                 "1.25% of 800 synthetic views get no executable record",
                 "in shuffled order, 90.30% of orbit pairs", "Long texts confuse it.",
                 "So do riddles.", "stage_one.updates | 864"):  # fmt: skip
        assert part in text, part
    assert "100.00% of orbit" not in text
    law = shipped.verify(root / "nano")
    assert "trained by imitation in canonical order" in text and "lambda_orbit" not in text
    assert text == card(law, json.loads((root / "nano" / "results.json").read_text()))


def test_rows_of_other_weights_are_named_and_not_refused(
    waggle: Command, exported: Export, root: Path, run: Path
) -> None:
    waggle("law", "pack", exported("full"), "nano", "--out", root)
    law = shipped.manifest(root / "nano")
    now, rows = of_manifest(law), run / "rows.jsonl"
    recipe = run / "recipe.json"
    recipe.write_text(json.dumps(json.loads(recipe.read_text()) | {"blocks": [PLAYED_BY_NANO]}))
    played = zip(rows.read_text().splitlines(), plan.cells(plan.load(recipe)), strict=True)
    first, second = ({**json.loads(line), "cell": cell.id} for line, cell in played)
    doubt = f"nano: 1 of 2 episodes by other weights (aaaa); this law has {now}"
    for digest, said in (("aaaa", True), (now, False)):
        mine = [{**first, "method": "nano", "weights": now},
                {**second, "method": "nano", "weights": digest}]  # fmt: skip
        rows.write_text("".join(json.dumps(row) + "\n" for row in mine))
        done = waggle("law", "card", root / "nano", "--run", run)
        assert done.code == 0, done.err
        assert (f"A small run: {doubt}" in " ".join(done.err.split())) == said
        assert (doubt in (root / "nano" / "README.md").read_text()) == said
    shipped.verify(root / "nano")


def test_a_card_counts_what_tables_count(
    waggle: Command, exported: Export, root: Path, run: Path
) -> None:
    waggle("law", "pack", exported("full"), "nano", "--out", root)
    rows = run / "rows.jsonl"
    one = json.loads(rows.read_text().splitlines()[0])
    rows.write_text(rows.read_text() + json.dumps({**one, "cell": "of-another-plan"}) + "\n")
    assert waggle("law", "card", root / "nano", "--run", run).code == 0
    kept = json.loads((root / "nano" / "results.json").read_text())
    assert [cell["episodes"] for cell in kept["runs"][0]["cells"]] == [2]


def test_diagnoses_of_other_weights_are_named_in_one_line(
    waggle: Command, exported: Export, root: Path, tmp_path: Path
) -> None:
    waggle("law", "pack", exported("full"), "nano", "--out", root)
    now = of_manifest(shipped.manifest(root / "nano"))
    said = {"own": now, "other": "aaaa", "silent": None, "odd": "a\nline"}
    flags = []
    for name, weights in said.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(DIAGNOSIS | ({} if weights is None else {"weights": weights})))
        flags += ["--diagnosis", path]
    done = waggle("law", "card", root / "nano", *flags)
    line = (
        f"diagnoses not known to be of this law, which has {now}: other by other weights (aaaa), "
        "silent by weights that it does not name, odd by weights that it does not name"
    )
    fix = f"; waggle diagnose {root / 'nano'} --out FILE measures this one"
    assert done.code == 0 and line + fix in done.err.splitlines()
    text = (root / "nano" / "README.md").read_text()
    assert f"_{line}_" in text and f"| weights | {now} | aaaa | — | — |" in text
    done = waggle("law", "card", root / "nano", "--diagnosis", tmp_path / "own.json")
    assert line + fix in done.err.splitlines()  # those that are kept are named again
    shipped.verify(root / "nano")


@pytest.mark.parametrize(("kind", "rounded"), [("full", False), ("dense", False), ("lora", True)])
def test_a_diagnosis_of_the_exported_law_is_of_its_own_unless_packing_rounds(
    waggle: Command, exported: Export, root: Path, tmp_path: Path, kind: str, rounded: bool
) -> None:
    weights = of_folder(exported(kind)).digest
    path = tmp_path / "scd.json"
    path.write_text(json.dumps({**DIAGNOSIS, "weights": weights}))
    first = waggle("law", "pack", exported(kind), "nano", "--out", root, "--diagnosis", path)
    again = waggle("law", "card", root / "nano")
    for done in (first, again):
        assert done.code == 0, done.err
        assert (f"scd by other weights ({weights})" in done.err) == rounded
    assert weights != of_manifest(shipped.manifest(root / "nano"))


def test_results_of_before_are_shown_as_they_were(exported: Export, root: Path) -> None:
    law = pack(exported("full"), root / "nano", {}).manifest
    assert "not known to be of this law" not in card(law, {"diagnosis": {"scd": DIAGNOSIS}})


def test_a_second_result_of_one_name_replaces_the_first(
    waggle: Command, exported: Export, root: Path, results: dict[str, Path]
) -> None:
    waggle("law", "pack", exported("full"), "nano", "--out", root, *flags(results))
    results["diagnosis"].write_text(json.dumps({**DIAGNOSIS, "synthetic executable": 1.0}))
    said = waggle("law", "card", root / "nano", "--diagnosis", results["diagnosis"])
    assert said.code == 0, said.err
    text = (root / "nano" / "README.md").read_text()
    assert "synthetic executable | 1 |" in text and "no executable record" not in text
    assert "Long texts confuse it." in text


def test_values_per_view_are_not_shipped(
    waggle: Command, exported: Export, root: Path, results: dict[str, Path]
) -> None:
    whole = {**DIAGNOSIS, "units": {"exact": [1.0, 0.0]}, "unit names": {"views": ["a", "b"]}}
    results["diagnosis"].write_text(json.dumps(whole))
    said = waggle("law", "pack", exported("full"), "nano", "--out", root, *flags(results))
    assert said.code == 0, said.err
    kept = json.loads((root / "nano" / "results.json").read_text())["diagnosis"]
    assert kept == {"scd": {**DIAGNOSIS, "weights": ""}}


def test_shortfalls_against_expert_and_simpler_laws_are_named(exported: Export, root: Path) -> None:
    law = pack(exported("full"), root / "nano", {}).manifest

    def cell(task: str, method: str, score: float) -> dict[str, Any]:
        stages = dict.fromkeys(("first", "normalized", "regenerated", "projected", "fallback"), 2)
        return {"task": task, "n": 16, "method": method, "episodes": 1, "updates": 10,
                "score": score, "messages": 1.0, "stages": stages}  # fmt: skip

    cells = [cell("good", "mine", 0.96), cell("good", "expert", 1.0), cell("good", "plain", 0.9),
             cell("bad", "mine", 0.94), cell("bad", "expert", 1.0),
             cell("bad", "plain", 0.95)]  # fmt: skip
    run = {"title": "t", "command": "c", "seeds": [1], "failed": 0, "cells": cells,
           "laws": {"mine": "nano", "expert": "expert", "plain": "heuristic"}}  # fmt: skip
    named = failures(law, {"runs": [run]})
    assert named == ["t, bad, N = 16: mine 0.940, below expert 1.000, plain 0.950."]
    assert "| t | mine | 20 | 20.00% |" in card(law, {"runs": [run]})
    for one in cells:
        one["episodes"] = 1 if one["method"] == "plain" else 5
    assert failures(law, {"runs": [run]}) == [named[0].replace(", plain 0.950", "")]
    assert "| 0.950 / 1.00 (1) |" in card(law, {"runs": [run]})
    cells[3]["episodes"] = 2
    (left,) = failures(law, {"runs": [run]})
    assert left.startswith("t: mine has fewer episodes than others in 1 of 2 tasks and sizes")
    del cells[3]
    assert failures(law, {"runs": [run]}) == [left], "none at all are fewer, too"


def test_scores_that_are_nearly_one_are_told_apart(exported: Export, root: Path) -> None:
    law = pack(exported("full"), root / "nano", {}).manifest
    scores = {"mine": 0.34512, "plain": 0.34534}
    cells = [{"task": "near", "n": 64, "method": m, "score": s, "episodes": 5}
             for m, s in scores.items()]  # fmt: skip
    run = {"title": "t", "laws": {"mine": "nano", "plain": "heuristic"}, "cells": cells}
    assert failures(law, {"runs": [run]}) == ["t, near, N = 64: mine 0.3451, below plain 0.3453."]
    assert failures(law, {}) == [
        "None measured yet: no diagnosis and no run is part of the results."
    ]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["law", "pack", ".", "nanno"], "no law that ships"),
        (["law", "pack", ".", "nano"], "no exported law"),
        (["law", "card", "nowhere"], "holds no packed law; name the folder of one, or nano"),
        (["models", "path", "nano"], "are not here"),
        (["models", "path", "smollm2"], "are not here"),
        (["run", "beacon", "-n", "4", "--law", "nano", "--out", "."], "are not here"),
        (["serve", "--law", "nano", "--port", "8199"], "are not here"),
    ],
)
def test_mistakes_are_one_line(
    waggle: Command, root: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], hint: str
) -> None:
    monkeypatch.chdir(root)
    assert hint in refused(waggle(*words))
    assert list(root.iterdir()) == []
