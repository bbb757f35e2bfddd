"""`waggle check …`, `list`, `doctor`, `bench`: exit codes and both kinds of output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, refused
from tests.substrates.golden import SAMPLE

MACHINE = {
    "run", "list", "replay", "doctor", "check substrate", "check law", "check record",
    "check vectors", "check graphs", "bound silo", "bound swarmbench", "bench runtime",
    "bench swarmbench", "bench silo", "bench engine",
}  # fmt: skip
"""Commands with machine output."""
KINDS = ("substrates", "tasks", "laws", "metrics")


def golden(*parts: str) -> Path:
    """Return a folder of recorded vectors: the sample that every clone has."""
    return SAMPLE.joinpath(*parts)


def test_list_shows_all_kinds(waggle: Command) -> None:
    said = waggle("list")
    assert said.code == 0
    for word in ("Substrates", "Tasks", "Laws", "Metrics", "beacon", "heuristic", "random-legal"):
        assert word in said.out
    assert "cannot be imported" not in said.out


@pytest.mark.parametrize("kind", KINDS)
def test_list_has_machine_output(waggle: Command, kind: str) -> None:
    data = waggle("list", kind, "--json").data
    assert list(data) == [kind]
    assert kind == "metrics" or data[kind]


def test_every_listed_task_can_be_named(waggle: Command, tmp_path: Path) -> None:
    from waggle import plugins

    for row in waggle("list", "tasks", "--json").data["tasks"]:
        for name in row["tasks"]:
            assert plugins.find_task(name).name == name


def test_doctor_finds_this_installation_sound(waggle: Command) -> None:
    said = waggle("doctor", "--json")
    assert said.code == 0
    assert {"python", "numpy", "torch", "disk"} <= {f["topic"] for f in said.data["findings"]}
    assert waggle("doctor").out.splitlines()[-1].strip() == "ready"


def test_doctor_names_a_missing_part(waggle: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waggle.cli.doctor._CORE", ("numpy", "no-such-package"))
    said = waggle("doctor")
    assert said.code == 1
    assert "MISSING" in said.out and "no-such-package" in said.out


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


def test_an_unknown_command_gets_a_suggestion(waggle: Command) -> None:
    assert "did you mean 'replay'" in refused(waggle("repaly", "x"))


def test_an_option_before_the_command_is_refused(waggle: Command) -> None:
    assert "no option '--verson' before a command" in refused(waggle("--verson"))
    assert waggle("--version").code == 0


def test_the_word_help_asks_for_help(waggle: Command) -> None:
    assert waggle("help").out == waggle("--help").out
    assert waggle("help", "check", "law").out == waggle("check", "law", "--help").out
    assert "no command 'nothing'" in refused(waggle("help", "nothing"))


def test_the_overview_names_every_command(waggle: Command) -> None:
    from waggle.cli.main import COMMANDS, GROUPS

    for words in ([], *([group] for group in GROUPS)):
        said = waggle(*words, "--help")
        assert said.code == 0
        here = [c.split()[-1] for c in COMMANDS if c.split()[:-1] == words]
        assert here and all(name in said.out for name in here)


def test_every_command_has_its_own_help(waggle: Command) -> None:
    from waggle.cli.main import COMMANDS

    for name in COMMANDS:
        said = waggle(*name.split(), "--help")
        assert said.code == 0, said
        assert f"Usage: waggle {name}" in said.out
        assert "--json" in said.out or name not in MACHINE, name


def test_the_runtime_bench_prints_both_figures_and_the_slope(waggle: Command) -> None:
    said = waggle("bench", "runtime", "--repeats", 1, "--largest", 200)
    assert said.code == 0
    for text in ("N = 64", "limit 200", "N = 200 over N = 100", "limit 1.5", "slope"):
        assert text in said.out
    assert "--largest" in refused(waggle("bench", "runtime", "--largest", 3))


def test_bound_prints_the_ceilings_of_silo(waggle: Command) -> None:
    words = ("bound", "silo", "III-26", "-n", 8, "-n", 16, "--seeds", 2, "--rounds", 3)
    said = waggle(*words)
    assert said.code == 0 and "round" in said.out and "1 tasks" in said.out
    rows = waggle(*words, "--json").data["rows"]
    assert {row["n"] for row in rows} == {8, 16}
    assert all(0 <= row["coverage"] <= 1 for row in rows)


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["III-99"], "III-99"), (["-n", 0], "at least 1"), (["-n", 5], "5"), (["--seeds", 0], "1")],
)
def test_mistakes_in_bound_are_one_line(waggle: Command, words: list[object], hint: str) -> None:
    assert hint in refused(waggle("bound", "silo", *words))


def test_bound_prints_what_free_communication_brings_on_swarmbench(waggle: Command) -> None:
    words = ("bound", "swarmbench", "pursuit", "-n", 8, "--seeds")
    said = waggle(*words, 2)
    assert said.code == 0 and "flooding" in said.out and "2 seeds from 10000" in said.out
    rows = waggle(*words, 1, "--json").data["rows"]
    assert [row["above_private"]["mean"] for row in rows if row["reach"] == "nobody"] == [0]
    assert "pursuit or foraging" in refused(waggle("bound", "swarmbench", "flocking"))
    assert "at least 1" in refused(waggle("bound", "swarmbench", "--seeds", 0))


def test_the_silo_bench_prints_a_mean_and_its_limit(waggle: Command) -> None:
    said = waggle("bench", "silo", "I-01")
    assert said.code == 0 and "limit 0.25" in said.out
    data = waggle("bench", "silo", "silo/I-01", "-n", 8, "--json").data
    assert data["n"] == 8 and data["mean"] > 0 and list(data["seconds"]) == ["I-01"]


def test_the_swarmbench_bench_prints_rates_beside_the_official_ones(waggle: Command) -> None:
    said = waggle("bench", "swarmbench", "--seconds", 0.001)
    assert said.code == 0 and "28.1" in said.out and "Transport" in said.out
    rows = waggle("bench", "swarmbench", "--seconds", 0.001, "--json").data["speeds"]
    assert len(rows) == 20 and all(row["ratio"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["silo", "I-99"], "I-99"),
        (["silo", "-n", 0], "at least 1"),
        (["silo", "--law", "heuristc"], "did you mean 'heuristic'"),
        (["swarmbench", "--seconds", "nan"], "--seconds"),
        (["engine", "--model", "no-such-model"], "waggle models list"),
        (["engine", "--batch", 0], "at least 1"),
    ],
)
def test_mistakes_in_bench_are_one_line(waggle: Command, words: list[object], hint: str) -> None:
    assert hint in refused(waggle("bench", *words))
