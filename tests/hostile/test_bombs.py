"""Small files that ask for gigabytes: counted, measured and refused before they are unfolded."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.hostile.commands import GIGABYTE, waggle
from tests.hostile.tally import Tally
from waggle.core.errors import ConfigError, RecordError
from waggle.core.protocols import Case
from waggle.evaluate import plan, rows
from waggle.evaluate.episodes import open_engine
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import read_rows
from waggle.laws.heuristic import Heuristic
from waggle.runtime import records
from waggle.runtime.recorder import Memory

MANY = "seeds = { start = 40000, count = 10000 }"
RECIPES = {
    "varied options": f"""
        n = [16]
        {MANY}
        [blocks.vary.silo]
        @
        """,
    "populations": f"n = [{', '.join(['16'] * 2000)}]\n{MANY}",
    "rounds": f"n = [16]\nrounds = [{', '.join(['9'] * 2000)}]\n{MANY}",
}


@pytest.mark.parametrize("bomb", RECIPES)
def test_a_recipe_is_counted_before_it_is_built(
    bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    varied = "\n".join(f"o{i} = [1, 2, 3, 4, 5, 6, 7, 8, 9]" for i in range(20))
    path = tmp_path / "bomb.toml"
    path.write_text(
        'title = "bomb"\n[methods.heuristic]\nlaw = "heuristic"\n[[blocks]]\n'
        f'methods = ["heuristic"]\ntasks = ["silo/I-01"]\n{RECIPES[bomb].replace("@", varied)}\n'
    )
    recipe = plan.load(path)
    monkeypatch.setattr(plan, "_cell", lambda *_: pytest.fail("a cell was made"))
    with pytest.raises(ConfigError, match="make it smaller"):
        plan.cells(recipe)
    tally.note("Recipe: more cells than memory holds", "refused in one line")


def entry(number: int, **more: object) -> bytes:
    raw = {"kind": "round", "round": number, "updates": [], "attempted": 0, "delivered": 0,
           "score": {"a": 1.5}, **more}  # fmt: skip
    return json.dumps(raw, separators=(",", ":")).encode() + b"\n"


RECORDS: dict[str, Callable[[int], bytes]] = {
    "a line without end": lambda size: b" " * size,
    "rounds without end": lambda size: entry(0) * (size // 100),
    "numbers without end": lambda size: b"".join(
        entry(k, suspended=[0] * (size // 40)) for k in range(20)
    ),
}
"""By the bytes that they unfold to."""


def bomb_of(name: str, size: int, place: Path) -> Path:
    """Write a record with a true header that unfolds to so many bytes."""
    case = Case("beacon", "beacon", 6, 10_000, 4)
    memory = Memory()
    cell = Cell("m", "heuristic", {}, case, "shuffled", "sync", {}, {})
    open_engine(cell, Heuristic(), memory).play()
    header = msgspec.json.encode(memory.record().header) + b"\n"
    path = place / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(header + RECORDS[name](size), 6))
    return path


@pytest.mark.parametrize("bomb", RECORDS)
def test_a_record_unfolds_within_a_bound(
    bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    path = bomb_of(bomb, 4 << 20, tmp_path)
    monkeypatch.setattr(records, "ROOM", 4 << 20)
    monkeypatch.setattr(records, "MAX_LINE", 1 << 20)
    with pytest.raises(RecordError, match=r"too long|beyond its size|not complete"):
        records.read(path)
    tally.note(f"Record: {bomb}", "refused in one line")


@pytest.mark.slow
@pytest.mark.parametrize("bomb", RECORDS)
def test_a_record_takes_less_than_a_gigabyte(bomb: str, tmp_path: Path, tally: Tally) -> None:
    path = bomb_of(bomb, 100 << 20, tmp_path)
    for command in (["replay"], ["check", "record"]):
        ended = waggle([*command, str(path)])
        assert ended.code == 2 and ended.said.count("\n") == 1, ended.said[-500:]
        assert ended.peak < GIGABYTE
        tally.note(f"Record: {bomb}", "refused in one line", peak=ended.peak)


def archive(place: Path, body: bytes) -> Path:
    (place / "rows").mkdir()
    (place / "rows" / "m.jsonl.xz").write_bytes(lzma.compress(body, preset=1))
    (place / "recipe.json").write_text(
        '{"title":"t","methods":{"m":{"law":"heuristic"}},"blocks":[{"methods":["m"],'
        '"tasks":["silo/I-01"],"n":[4],"seeds":[40000]}]}'
    )
    return place


def rows_without_end(count: int) -> bytes:
    row = {"cell": "0" * 16, "method": "m", "substrate": "silo", "task": "I-01", "n": 4, "seed": 0,
           "rounds": 1, "shock": False, "options": {"o": [[]] * 100_000}, "scores": {},
           "metrics": {}, "counters": {}}  # fmt: skip
    lines = (json.dumps(row | {"cell": f"{i:016x}"}, separators=(",", ":")) for i in range(count))
    return "\n".join(lines).encode() + b"\n"


def test_an_archive_unfolds_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    place = archive(tmp_path, rows_without_end(4))
    assert len(read_rows(place)) == 4
    monkeypatch.setattr(rows, "MAX_PACKED", 20 << 20)
    with pytest.raises(RecordError, match="unfolds"):
        read_rows(place)
    tally.note("Archive: rows without end", "refused in one line")


@pytest.mark.slow
def test_an_archive_takes_less_than_a_gigabyte(tmp_path: Path, tally: Tally) -> None:
    ended = waggle(["report", str(archive(tmp_path, rows_without_end(100)))])
    assert ended.code == 2 and ended.said.count("\n") == 1, ended.said[-500:]
    assert "unfolds" in ended.said and ended.peak < GIGABYTE
    tally.note("Archive: rows without end", "refused in one line", peak=ended.peak)
