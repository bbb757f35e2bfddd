"""`waggle bound`: ceilings of Silo and SwarmBench."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command, refused


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
    words = ("bound", "swarmbench", "pursuit", "-n", 8, "--seeds", 1)
    said = waggle(*words)
    assert said.code == 0 and "flooding" in said.out and "1 seeds from 10000" in said.out
    rows = waggle(*words, "--json").data["rows"]
    assert [row["above_private"]["mean"] for row in rows if row["reach"] == "nobody"] == [0]
    assert "flocking" in refused(waggle("bound", "swarmbench", "flock"))
    assert "at least 1" in refused(waggle("bound", "swarmbench", "--seeds", 0))
