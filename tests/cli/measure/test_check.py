"""`waggle check`: exit codes and both kinds of output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, refused
from tests.substrates.golden import SAMPLE


def golden(*parts: str) -> Path:
    """Return a folder of recorded vectors: the sample that every clone has."""
    return SAMPLE.joinpath(*parts)


def test_agentsnet_vectors(waggle: Command, tmp_path: Path) -> None:
    folder, graphs = golden("agentsnet", "vectors"), golden("agentsnet", "graphs")
    said = waggle("check", "vectors", "agentsnet", folder, "--graphs", graphs, "--json")
    assert said.code == 0 and said.data["passed"] > 0 and said.data["failed"] == 0
    assert waggle("check", "graphs", graphs).code == 0


def test_vectors_that_are_passed_over_are_counted(waggle: Command, tmp_path: Path) -> None:
    chosen = sorted(golden("swarmbench").glob("flocking*.json.gz"))[0]
    (tmp_path / chosen.name).write_bytes(chosen.read_bytes())
    (tmp_path / "unknown_extra.json").write_text("{}")
    data = waggle("check", "vectors", "swarmbench", tmp_path, "--json").data
    assert data["ok"] and data["passed"] > 0 and data["skipped"] == 1


@pytest.mark.parametrize("substrate", ["agentsnet", "silo", "swarmbench"])
def test_an_empty_folder_of_vectors_is_a_failure(
    waggle: Command, tmp_path: Path, substrate: str
) -> None:
    said = waggle("check", "vectors", substrate, tmp_path)
    assert said.code in (1, 2)
    assert str(tmp_path) in said.out + said.err


@pytest.mark.parametrize("substrate", ["agentsnet", "silo", "swarmbench"])
def test_broken_vector_files_fail_with_a_reason(
    waggle: Command, tmp_path: Path, substrate: str
) -> None:
    for name in ("evaluator_x.json", "parsing.json", "instance.json", "episode.json.gz"):
        (tmp_path / name).write_text('{"cut": [')
    said = waggle("check", "vectors", substrate, tmp_path, "--json")
    assert said.code == 1
    assert said.data["failed"] > 0 and said.data["first_difference"]


def test_a_graph_file_with_a_wrong_diameter_fails(waggle: Command, tmp_path: Path) -> None:
    source = json.loads((golden("agentsnet", "graphs") / "ws_8_0.json").read_text())
    assert waggle("check", "graphs", _with(tmp_path, source)).code == 0
    key = next(k for k in source if "diameter" in k)
    source[key] += 1
    said = waggle("check", "graphs", _with(tmp_path, source))
    assert said.code == 1 and "diameter" in said.out


def _with(folder: Path, graph: object) -> Path:
    (folder / "ws_8_0.json").write_text(json.dumps(graph))
    return folder


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["vectors", "sillo", "."], "did you mean 'silo'"),
        (["vectors", "silo", "no/such/folder"], "not a folder"),
        (["vectors", "silo", ".", "--graphs", "."], "belongs to agentsnet"),
        (["graphs", "no/such/folder"], "not a folder"),
        (["substrate", "beacn"], "did you mean 'beacon'"),
        (["law", "heuristc"], "did you mean 'heuristic'"),
        (["law", "heuristic", "--substrate", "becon"], "did you mean 'beacon'"),
        (["recrod", "x"], "did you mean 'check record'"),
    ],
)
def test_mistakes_are_one_line(waggle: Command, words: list[str], hint: str) -> None:
    assert hint in refused(waggle("check", *words))
