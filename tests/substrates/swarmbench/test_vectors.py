"""The recorded vectors replay, and the replay notices what it must notice."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.swarmbench import check_vectors
from tests.substrates.golden import ALL, GOLDEN, SAMPLE
from waggle.core.errors import ConfigError
from waggle.substrates.swarmbench.sim.config import TASKS


def _copy(name: str, folder: Path, change: Callable[[Any], object]) -> Path:
    episode = json.loads(gzip.decompress((SAMPLE / "swarmbench" / name).read_bytes()))
    change(episode)
    path = folder / name
    path.write_bytes(gzip.compress(json.dumps(episode).encode()))
    return path


def test_every_recorded_vector_passes() -> None:
    report = check_vectors(GOLDEN / "swarmbench")
    assert report.first_difference is None
    assert report.passed > (400 if ALL else 300)
    assert report.ok


def test_the_sample_holds_every_task_and_text_format() -> None:
    names = {path.name.partition("_")[0] for path in (SAMPLE / "swarmbench").iterdir()}
    assert {task.lower() for task in TASKS} | {"layouts.json.gz", "render.json"} <= names
    assert "parser.json" in names


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda e: e["rounds"][3]["agents"][0].__setitem__(0, 99), "round 3: agents"),
        (lambda e: e["rounds"][2].__setitem__("score", 7), "round 2: score"),
        (lambda e: e["rounds"][1]["state"].__setitem__("prey", [1, 1]), "round 1: state"),
        (lambda e: e["rounds"][1]["grid"].__setitem__(4, "W" * 10), "round 1: grid"),
        (lambda e: e["rounds"][2]["obs"][0]["heard"].append([0, "lie"]), "heard"),
        (lambda e: e["rounds"][2]["obs"][0]["view"].__setitem__(0, "W W W W W W"), "view"),
        (lambda e: e["initial"]["rng_state"]["words"].__setitem__(-1, 7), "from the state"),
    ],
)
def test_a_changed_vector_fails_where_it_was_changed(
    tmp_path: Path, change: Callable[[Any], object], expected: str
) -> None:
    _copy("pursuit_n8_10x10_v5_s8_greedy.json.gz", tmp_path, change)
    report = check_vectors(tmp_path)
    assert (report.passed, report.failed) == (0, 1)
    assert expected in (report.first_difference or "")


def test_a_vector_without_generator_replays_with_its_recorded_respawns(tmp_path: Path) -> None:
    _copy(
        "pursuit_n8_10x10_v5_s8_greedy.json.gz", tmp_path, lambda e: e["initial"].pop("rng_state")
    )
    assert check_vectors(tmp_path).ok


@pytest.mark.parametrize("missing", ["config", "initial", "rounds"])
def test_a_vector_without_a_part_fails_with_a_reason(tmp_path: Path, missing: str) -> None:
    _copy("flocking_n8_10x10_v5_s7_greedy.json.gz", tmp_path, lambda e: e.pop(missing))
    report = check_vectors(tmp_path)
    assert report.failed == 1
    assert missing in (report.first_difference or "")


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b"{"), gzip.compress(b"[1]"), gzip.compress(b"{}")[:-9]],
    ids=["empty", "not gzip", "cut JSON", "a list", "cut gzip"],
)
def test_a_broken_file_is_a_failed_vector(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pursuit_broken.json.gz").write_bytes(content)
    (tmp_path / "layouts.json.gz").write_bytes(content)
    report = check_vectors(tmp_path)
    assert report.passed == 0
    assert report.failed == 2
    assert not report.ok


def test_an_empty_folder_does_not_pass_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert not check_vectors(tmp_path).ok
    with pytest.raises(ConfigError, match="give the folder"):
        check_vectors(tmp_path / "nowhere")


def test_an_unknown_json_file_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "parser.json").write_text('[{"text": "ACTION: UP", "move": "UP"}]')
    report = check_vectors(tmp_path)
    assert report.ok
    assert report.skipped == 1
