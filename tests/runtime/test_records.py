"""Record files: whole or not at all, read with distrust, replayed to the same bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from waggle.core.decode import MAX_TEXT
from waggle.core.errors import RecordError
from waggle.core.protocols import Case, Request
from waggle.core.schema import Commitment, Decision
from waggle.laws.controls import RandomLegal, Scripted
from waggle.laws.heuristic import Heuristic
from waggle.runtime.recorder import Memory
from waggle.runtime.records import RecordFile, read, record_name
from waggle.runtime.repair import MAX_QUOTED
from waggle.runtime.replay import first_difference, replay, view_of
from waggle.runtime.sync import Engine
from waggle.substrates.beacon import Beacon

CASE = Case("beacon", "beacon", 8, 10_000, rounds=6, shock=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / record_name("beacon", 8, 10_000, "heuristic")
    with RecordFile(target) as sink:
        Engine(Beacon().open(CASE), Heuristic(), CASE, sinks=[sink]).play()
    return target


def rewrite(path: Path, change: object) -> Path:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    lines = change(lines)  # type: ignore[operator]
    path.write_bytes(gzip.compress(b"".join(lines)))
    return path


def test_file_and_memory_hold_the_same_record(path: Path) -> None:
    memory = Memory()
    Engine(Beacon().open(CASE), Heuristic(), CASE, sinks=[memory]).play()
    assert first_difference(read(path), memory.record()) == ""


def test_same_episode_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl.gz"
    with RecordFile(other) as sink:
        Engine(Beacon().open(CASE), Heuristic(), CASE, sinks=[sink]).play()
    assert other.read_bytes() == path.read_bytes()


def test_recorded_views_decode(path: Path) -> None:
    record = read(path)
    view = view_of(record.header, record.rounds[1].updates[0])
    assert view.contract == record.header.contract and len(view.private.channels) > 0


def test_interrupted_episode_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "cut.jsonl.gz"

    def stop(entry: object, world: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), RecordFile(target) as sink:
        Engine(Beacon().open(CASE), Heuristic(), CASE, sinks=[sink], watch=stop).play()
    assert list(tmp_path.iterdir()) == []


def test_replay_recomputes_the_same(path: Path) -> None:
    assert replay(read(path), Beacon().open(CASE)).same


def test_replay_of_a_sampling_law_needs_no_law() -> None:
    memory = Memory()
    Engine(Beacon().open(CASE), RandomLegal(), CASE, sinks=[memory]).play()
    assert replay(memory.record(), Beacon().open(CASE)).same


RECORD = '{"task_action":"WATCH","response":null,"deposits":[],"commit":null}'


@pytest.mark.parametrize(
    ("output", "stage", "codes"),
    [
        ("\ud800" + RECORD, "fallback", ("text.encoding",)),
        (RECORD + " " * MAX_TEXT, "fallback", ("text.size",)),
        ("so " * 2_000 + RECORD, "normalized", ()),
        (Decision(3, None, (), None), "fallback", ("shape.type",)),  # type: ignore[arg-type]
        (Decision("WATCH", None, [], None), "fallback", ("shape.type",)),  # type: ignore[arg-type]
        (Decision("\ud800", None, (), None), "fallback", ("text.encoding",)),
        (Decision("W" * MAX_TEXT, None, (), None), "fallback", ("text.size",)),
        (Decision("FLY", None, (), Commitment("z", 10**5000)), "fallback", ("json.number",)),
        (Decision("FLY", None, (), None), "projected", ("action.unknown",)),
    ],
)
def test_whatever_a_law_returns_is_written_down_and_replays(
    tmp_path: Path, output: Any, stage: str, codes: tuple[str, ...]
) -> None:
    path = tmp_path / "record.jsonl.gz"
    with RecordFile(path) as sink:
        Engine(Beacon().open(CASE), Scripted(lambda _: output), CASE, sinks=[sink]).play()
    record = read(path)
    for update in record.rounds[0].updates:
        assert (update.stage, update.codes) == (stage, codes)
    found = replay(record, Beacon().open(CASE))
    assert found.same, found.difference


def test_a_failed_text_is_quoted_in_part() -> None:
    asked: list[Request] = []

    def law(request: Request) -> str:
        asked.append(request)
        return "so " * 5_000

    Engine(Beacon().open(CASE), Scripted(law), CASE).play()
    assert {len(r.previous) for r in asked if r.feedback} == {MAX_QUOTED}


def tampered_score(lines: list[bytes]) -> list[bytes]:
    entry = json.loads(lines[3])
    entry["score"]["score"] += 0.125
    return [*lines[:3], json.dumps(entry).encode() + b"\n", *lines[4:]]


def tampered_decision(lines: list[bytes]) -> list[bytes]:
    entry = json.loads(lines[2])
    entry["updates"][0]["raw"] = [
        '{"task_action":"WAIT","response":null,"deposits":[],"commit":null}'
    ]
    return [*lines[:2], json.dumps(entry).encode() + b"\n", *lines[3:]]


def test_replay_ends_one_round_behind_the_record(path: Path) -> None:
    def endless(lines: list[bytes]) -> list[bytes]:
        return [lines[0].replace(b'"rounds":6', b'"rounds":9223372036854775807'), *lines[1:]]

    record = read(rewrite(path, endless))
    found = replay(record, Beacon().open(record.header.case))
    assert not found.same and len(found.record.rounds) == len(record.rounds) + 1


@pytest.mark.parametrize("change", [tampered_score, tampered_decision])
def test_replay_finds_what_was_changed(path: Path, change: object) -> None:
    found = replay(read(rewrite(path, change)), Beacon().open(CASE))
    assert not found.same and found.difference.startswith("round")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "no footer"),
        (lambda lines: lines[1:], "does not start"),
        (lambda lines: [*lines[:2], *lines[3:]], "not complete"),
        (lambda lines: [lines[0].replace(b'"format":1', b'"format":99'), *lines[1:]], "format 99"),
        (lambda lines: [*lines[:2], b'{"kind":"round","round":"x"}\n', *lines[2:]], "line 3"),
        (lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")], "cut"),
        (lambda lines: [], "does not start"),
        (lambda lines: [b"[" * 100_000 + b"\n"], "line 1"),
        (lambda lines: [b"\xff\xfe\n"], "line 1"),
    ],
)
def test_bad_files_are_one_clear_line(path: Path, change: object, message: str) -> None:
    with pytest.raises(RecordError, match=message) as error:
        read(rewrite(path, change))
    assert "\n" not in str(error.value)


def test_cut_gzip_and_foreign_files(path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(RecordError, match="cut"):
        read(path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(RecordError, match="not a gzipped record"):
        read(tmp_path / "text")
    with pytest.raises(RecordError, match="cannot read"):
        read(tmp_path / "missing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("rounds", [1, 200])
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path: Path, rounds: int) -> None:
    case = Case("beacon", "beacon", 8, 10_000, rounds)
    target = RecordFile(tmp_path / "record.jsonl.gz")
    target._raw.close()
    target._raw = target._gzip.fileobj = open("/dev/full", "wb")  # noqa: SIM115
    with pytest.raises(RecordError, match="free some space") as error, target as sink:
        Engine(Beacon().open(case), Heuristic(), case, sinks=[sink]).play()
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RecordError, match="choose another --out"):
        RecordFile(tmp_path / "file" / "record.jsonl.gz")
