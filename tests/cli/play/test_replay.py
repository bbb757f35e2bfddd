"""`waggle replay` and `waggle check record`: same, different, or not a record."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command, refused

LINES = Callable[[list[bytes]], list[bytes]]


def rewrite(path: Path, change: LINES) -> None:
    """Change the lines of a record file."""
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(change(lines))))


@pytest.mark.parametrize("engine", ["sync", "event"])
def test_a_record_replays_to_itself(waggle: Command, tmp_path: Path, engine: str) -> None:
    words = ("beacon", "-n", 9, "--shock", "--perturb.loss", 0.2, "--perturb.delay", 2)
    record = waggle("run", *words, "--engine", engine, "--out", tmp_path, "--json").data["record"]
    said = waggle("replay", record)
    assert said.code == 0 and "same: " in said.out, said
    assert waggle("replay", record, "--json").data["same"] is True


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"score":{"score":', b'"score":{"score":9'),
        (b'"delivered":', b'"delivered":7'),
        (b'"seed":3', b'"seed":4'),
        (b'"task_action":"WATCH"', b'"task_action":"WAIT"'),
    ],
)
def test_any_difference_is_exit_code_1(
    waggle: Command, record: Path, old: bytes, new: bytes
) -> None:
    def plant(lines: list[bytes]) -> list[bytes]:
        whole = b"".join(lines)
        assert old in whole
        return [whole.replace(old, new, 1)]

    rewrite(record, plant)
    said = waggle("replay", record)
    assert said.code == 1 and "different: " in said.out, said


def cut_in_the_middle(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_footer(path: Path) -> None:
    rewrite(path, lambda lines: lines[:-1])


def without_a_round(path: Path) -> None:
    rewrite(path, lambda lines: lines[:3] + lines[4:])


def without_header(path: Path) -> None:
    rewrite(path, lambda lines: lines[1:])


def with_a_cut_line(path: Path) -> None:
    rewrite(path, lambda lines: [*lines[:-1], lines[-1][:10]])


def with_deep_nesting(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0], b"[" * 100_000 + b"\n", *lines[1:]])


def with_foreign_bytes(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0], b"\xff\xfe{}\n", *lines[1:]])


def plain_text(path: Path) -> None:
    path.write_text("not a record")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another_format(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0].replace(b'"format":1', b'"format":99'), *lines[1:]])


def of_an_unknown_substrate(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0].replace(b'"beacon"', b'"becon"'), *lines[1:]])


def with_an_unknown_switch(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0].replace(b'"decay"', b'"decoy"'), *lines[1:]])


def with_too_few_keys(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0].replace(b'"keys":[0,', b'"keys":['), *lines[1:]])


def with_keys_out_of_range(path: Path) -> None:
    rewrite(path, lambda lines: [lines[0].replace(b'"keys":[0,', b'"keys":[99,'), *lines[1:]])


DAMAGE = [
    cut_in_the_middle, without_footer, without_a_round, without_header, with_a_cut_line,
    with_deep_nesting, with_foreign_bytes, plain_text, empty, missing, a_folder, of_another_format,
]  # fmt: skip
UNPLAYABLE = [
    of_an_unknown_substrate, with_an_unknown_switch, with_too_few_keys, with_keys_out_of_range,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_refused_with_one_line(
    waggle: Command, record: Path, damage: Callable[[Path], None]
) -> None:
    damage(record)
    assert record.name in refused(waggle("replay", record))
    assert record.name in refused(waggle("check", "record", record))


@pytest.mark.parametrize("damage", UNPLAYABLE)
def test_a_record_that_cannot_be_played_is_refused_with_one_line(
    waggle: Command, record: Path, damage: Callable[[Path], None]
) -> None:
    damage(record)
    refused(waggle("replay", record))


def test_check_record_says_what_a_sound_record_holds(waggle: Command, record: Path) -> None:
    said = waggle("check", "record", record)
    assert said.code == 0
    assert "beacon" in said.out and "rounds" in said.out
    assert waggle("check", "record", record, "--json").data["ok"] is True
