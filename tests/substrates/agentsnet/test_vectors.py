"""Recorded vectors pass, and every kind of planted fault is counted, not raised."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.agentsnet import (
    MAX_REPLY,
    check_graphs,
    check_vectors,
    parse_answer,
    parse_messages,
)
from tests.substrates.golden import ALL, GOLDEN, GRAPHS, SAMPLE

PATH = {"names": ["James", "Mary"], "edges": [[0, 1]]}
GOOD = {
    "case": "c",
    "task": "consensus",
    "graph_id": "inline",
    "graph": PATH,
    "answers": ["0", "0"],
    "official": {"soft": 1.0, "strict": True, "error": None},
}


def test_all_recorded_vectors_pass() -> None:
    report = check_vectors(GOLDEN / "agentsnet" / "vectors")
    assert (report.failed, report.skipped, report.first_difference) == (0, 0, None)
    assert report.passed == (2009 if ALL else 338)


def test_the_sample_passes_by_itself() -> None:
    assert check_vectors(SAMPLE / "agentsnet" / "vectors").passed == 338


def test_all_recorded_graphs_are_as_recorded() -> None:
    report = check_graphs(GRAPHS)
    assert report.ok
    assert report.passed == (36 if ALL else 20)


def write(folder: Path, cases: list[dict[str, Any]], name: str = "evaluator_x.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"cases": cases}))
    return folder


def test_a_good_inline_case_passes_and_a_missing_graph_fails_with_the_fix(tmp_path: Path) -> None:
    absent = {**GOOD, "graph": None, "graph_id": "ws_8_9"}
    report = check_vectors(write(tmp_path / "vectors", [GOOD, absent]))
    assert (report.passed, report.failed, report.skipped) == (1, 1, 0)
    assert "ws_8_9" in (report.first_difference or "")
    assert "--graphs" in (report.first_difference or "")


def test_graph_ids_resolve_beside_the_folder_or_where_told(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for place in (tmp_path / "graphs", elsewhere):
        place.mkdir()
        (place / "p2.json").write_text(json.dumps(PATH))
    case = {key: value for key, value in GOOD.items() if key != "graph"} | {"graph_id": "p2"}
    folder = write(tmp_path / "vectors", [case])
    assert check_vectors(folder).ok
    (tmp_path / "graphs" / "p2.json").unlink()
    assert check_vectors(folder).failed == 1
    assert check_vectors(folder, elsewhere).ok


@pytest.mark.parametrize(
    "change",
    [
        {"official": {"soft": 0.0, "strict": False, "error": None}},
        {"official": {"soft": 1.0, "strict": False, "error": None}},
        {"official": {"soft": None, "strict": None, "error": "ZeroDivisionError"}},
        {"official": 3},
        {"task": "sorting"},
        {"answers": ["0"]},
        {"answers": ["0", 0]},
        {"answers": "00"},
        {"graph": {"names": ["a"], "edges": [[0, 9]]}},
        {"graph": None, "graph_id": None},
        {"num_groups": "many"},
    ],
)
def test_wrong_and_malformed_cases_fail_with_a_reason(tmp_path: Path, change: Any) -> None:
    report = check_vectors(write(tmp_path / "vectors", [{**GOOD, **change}]))
    assert (report.passed, report.failed) == (0, 1)
    assert report.first_difference


def test_a_planted_parser_fault_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    wrong = {"text": '{"Alan": "hi"}', "parsed": {"Alan": "ho"}}
    answer = {"text": "### Final Answer ### 1", "valid_answers": ["0", "1"], "parsed": "1"}
    parsing = {"parse_messages": [wrong, "x"], "parse_answer": [answer, {"text": "x"}]}
    (folder / "parsing.json").write_text(json.dumps(parsing))
    report = check_vectors(folder)
    assert (report.passed, report.failed) == (1, 3)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"cases": 3}', "\x00\xff", "[" * 100_000])
def test_unreadable_files_fail_without_a_traceback(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "evaluator_x.json").write_text(text, encoding="latin-1")
    assert check_vectors(folder).failed == 1
    assert check_graphs(folder).failed == 1


def test_empty_folders_are_a_failure_that_says_so(tmp_path: Path) -> None:
    assert "point at a folder" in (check_vectors(tmp_path).first_difference or "")
    assert check_graphs(tmp_path).failed == 1


def test_wrong_recorded_measures_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**PATH, "diameter": 2}))
    (tmp_path / "b.json").write_text(json.dumps({"names": ["x", "y"], "edges": []}))
    (tmp_path / "c.json").write_text(json.dumps({**PATH, "diameter": 1, "max_degree": 1, "n": 2}))
    report = check_graphs(tmp_path)
    assert (report.passed, report.failed) == (1, 2)
    assert "diameter 2" in (report.first_difference or "")


def test_the_folder_index_is_held_against_the_graphs(tmp_path: Path) -> None:
    (tmp_path / "p2.json").write_text(json.dumps(PATH))
    index = tmp_path / "MANIFEST.json"
    index.write_text(json.dumps([{"id": "p2", "n": 2, "edges": 1, "diameter": 1}]))
    assert check_graphs(tmp_path).ok
    index.write_text(json.dumps([{"id": "p2", "n": 2, "edges": 3}]))
    assert "num_edges 3" in (check_graphs(tmp_path).first_difference or "")
    index.write_text("{}")
    assert check_graphs(tmp_path).failed == 1


def test_an_object_must_end_at_the_last_brace() -> None:
    assert parse_messages('{"Alan": "x"} and }') is None
    assert parse_messages('{"Alan": "one"} then {"Mary": "two"}') == {"Mary": "two"}


def test_an_escaped_newline_breaks_the_string() -> None:
    assert parse_messages('{"Alan": "a\\nb"}') is None


def test_silence_is_not_failure() -> None:
    assert parse_messages("{}") == {}
    assert parse_messages("nothing") is None


def test_hostile_replies_are_unreadable_not_fatal() -> None:
    assert parse_messages('{"a":' * 6_000 + "}") is None
    assert parse_messages("{" * MAX_REPLY + "}") is None
    assert parse_messages('{"Alan": "' + "x" * MAX_REPLY + '"}') is None
    assert parse_answer("### Final Answer ###" + " " * MAX_REPLY, ["Yes"]) is None
    assert parse_answer("### Final Answer ### Yes", []) is None


def test_answers_are_prefixes_in_list_order() -> None:
    assert parse_answer("### Final Answer ### Anna", ["Ann", "Anna"]) == "Ann"
    assert parse_answer("### Final Answer ### Anna", ["Anna", "Ann"]) == "Anna"
    assert parse_answer("### Final Answer ### ? ### Final Answer ###No", ["Yes", "No"]) == "No"
