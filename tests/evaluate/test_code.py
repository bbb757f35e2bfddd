"""Rows name the plug-in files that played them, and a changed file is not mixed with older rows."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

import waggle
from waggle.cli.main import main
from waggle.core.errors import ConfigError, RecordError
from waggle.evaluate.code import source_of
from waggle.evaluate.episodes import law_of
from waggle.evaluate.merge import merge
from waggle.evaluate.plan import cells, load_run
from waggle.evaluate.row_check import rules
from waggle.evaluate.rows import FILE, finished_rows, read_rows
from waggle.laws.digest import DIGITS

LAW = """
from waggle import law
from waggle.laws.controls import PrivateOnly


@law("hermit")
class Hermit(PrivateOnly):
    name = "hermit"
"""
WORLD = """
from waggle import substrate
from waggle.substrates.beacon import Beacon


@substrate("meadow")
class Meadow(Beacon):
    name, tasks = "meadow", ("meadow",)
"""
RECIPE = """
title = "Small"
[methods.one]
law = "heuristic"
[methods.two]
law = "hermit"
[[blocks]]
methods = ["one", "two"]
tasks = ["beacon", "meadow"]
n = [4]
seeds = [10000, 10001]
rounds = [3]
"""
HERE = Path("run")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_registry: None) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.toml").write_text(RECIPE)
    write("hermit.py", LAW)
    write("meadow.py", WORLD)


def write(name: str, text: str, place: float = 0) -> None:
    """Write a plug-in file; compiled code of another time is not taken for it."""
    Path(name).write_text(text)
    os.utime(name, (place, place))
    law_of.cache_clear()


def run(*words: str, out: Path = HERE) -> int:
    plugged = ("--plugin", "hermit.py", "--plugin", "meadow.py")
    call = ("eval", "r.toml", "--out", str(out), "--executor", "inline")
    return main([*call, *plugged, *words])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_rows_of_plug_in_files_carry_their_digests_and_others_do_not() -> None:
    assert run() == 0
    law, world = source_of("law", "hermit"), source_of("substrate", "meadow")
    assert law is not None and world is not None and law.file == "hermit.py"
    for row in read_rows(HERE):
        wanted = {"law": law.digest} if row.method == "two" else {}
        wanted |= {"substrate": world.digest} if row.substrate == "meadow" else {}
        assert (row.code or {}) == wanted and row.digest == wanted.get("law", "")
    plain = [line for line in (HERE / FILE).read_bytes().splitlines() if b"code" not in line]
    assert len(plain) == 2 and all(line.endswith(b',"error":""}') for line in plain)
    found = finished_rows(HERE)
    assert len(rules(cells(load_run(HERE)), found)) == len(found) == 8  # they can be played again


def test_a_changed_law_is_named_and_not_continued(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--tasks", "beacon/*", "--seeds", "1") == 0
    before = (HERE / FILE).read_bytes()
    write("hermit.py", LAW + "    louder = True\n", 1)
    capsys.readouterr()
    stale = "law 'hermit' (hermit.py) changed after 1 of its rows was played"
    assert run("--methods", "two") == 2
    assert said(capsys) == (
        f"waggle: method 'two': {stale}; --again --methods two plays them again; or leave it out "
        "with --methods"
    )
    assert (HERE / FILE).read_bytes() == before
    assert run("--dry-run") == 0 and f"left out: two ({stale}" in said(capsys)
    assert run() == 0 and f"left out: two ({stale}" in said(capsys)
    assert [row.method for row in read_rows(HERE)] == ["one", "two", *["one"] * 3]
    assert run("--again", "--methods", "two") == 0
    assert run("--methods", "two") == 0
    assert len({row.digest for row in read_rows(HERE)}) == 2  # none of "one", one of "two"
    write("hermit.py", LAW, 2)
    assert run("--methods", "two") == 2
    assert "changed after 4 of its rows were played" in said(capsys)


def test_a_changed_world_keeps_all_laws_from_going_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seeds", "1") == 0
    write("meadow.py", WORLD + "    open_air = True\n", 1)
    capsys.readouterr()
    assert run() == 0
    stale = "world 'meadow' (meadow.py) changed after 2 of its rows were played"
    assert f"left out: one, two ({stale}; --again --methods one,two plays" in said(capsys)
    assert len(read_rows(HERE)) == 4


def test_rows_of_another_version_are_not_merged_and_no_plug_in_is_no_change() -> None:
    assert run("--methods", "two", "--seeds", "1") == 0
    write("hermit.py", LAW + "    louder = True\n", 1)
    assert run("--methods", "two", out=Path("there")) == 0
    plan = cells(load_run(HERE))
    with pytest.raises(RecordError, match=r"4 rows of two, .* would lie beside"):
        merge(plan, HERE, Path("there"))
    rows = [msgspec.structs.replace(row, code=msgspec.UNSET) for row in read_rows(HERE)]
    (HERE / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    assert run("--methods", "two") == 0  # rows that do not name their code count


def test_rows_of_another_version_of_a_world_are_not_merged() -> None:
    assert run("--methods", "one", "--seeds", "1") == 0
    write("meadow.py", WORLD + "    open_air = True\n", 1)
    assert run("--methods", "one", out=Path("there")) == 0
    plan = cells(load_run(HERE))
    with pytest.raises(RecordError, match=r"world 'meadow' are of several versions .* --tasks"):
        merge(plan, HERE, Path("there"))
    assert len(read_rows(HERE)) == 2
    beacons = [cell for cell in plan if cell.case.substrate == "beacon"]
    assert merge(beacons, HERE, Path("there")).taken == 1
    assert merge(plan, HERE, Path("there"), again=True).taken == 2
    assert len({(row.code or {}).get("substrate") for row in read_rows(HERE)}) == 2


def test_a_file_that_is_edited_while_it_is_played_counts_as_it_was_loaded() -> None:
    edits = """
    def decide(self, requests):
        from pathlib import Path

        Path(__file__).write_text("# edited")
        return super().decide(requests)
"""
    write("hermit.py", LAW + edits)
    assert run("--methods", "two", "--seeds", "1") == 0
    loaded = hashlib.sha256((LAW + edits).encode()).hexdigest()[:DIGITS]
    assert [row.digest for row in read_rows(HERE)] == [loaded] * 2


def test_a_sweep_by_name_does_not_mix_versions() -> None:
    def play(seeds: int) -> waggle.Runs:
        return waggle.sweep(
            "beacon", "hermit", range(10_000, 10_000 + seeds), n=4, rounds=3, folder=HERE,
            processes=1, progress=False,
        )  # fmt: skip

    waggle.plugins.load_file("hermit.py")
    assert len(play(1)) == 1 and len(play(2)) == 2
    write("hermit.py", LAW + "    louder = True\n", 1)
    waggle.plugins.load_file("hermit.py")
    with pytest.raises(ConfigError) as caught:
        play(3)
    assert str(caught.value) == (
        "law 'hermit': law 'hermit' (hermit.py) changed after 2 of its rows were played; name "
        "another folder"
    )
