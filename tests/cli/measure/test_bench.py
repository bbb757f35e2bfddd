"""`waggle bench runtime|silo|swarmbench`, and mistakes in all of them."""

from __future__ import annotations

import pytest

from benchmarks.swarmbench import measure
from tests.cli.conftest import Command, refused


def test_the_runtime_bench_prints_both_figures_and_the_slope(waggle: Command) -> None:
    said = waggle("bench", "runtime", "--repeats", 1, "--largest", 200)
    assert said.code == 0
    for text in ("N = 64", "limit 200", "N = 200 over N = 100", "limit 1.5", "slope"):
        assert text in said.out
    assert "--largest" in refused(waggle("bench", "runtime", "--largest", 3))


def test_the_silo_bench_prints_a_mean_and_its_limit(waggle: Command) -> None:
    said = waggle("bench", "silo", "I-01")
    assert said.code == 0 and "limit 0.25" in said.out
    data = waggle("bench", "silo", "silo/I-01", "-n", 8, "--json").data
    assert data["n"] == 8 and data["mean"] > 0 and list(data["seconds"]) == ["I-01"]


def test_the_swarmbench_bench_prints_rates_beside_the_official_ones(
    waggle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = measure(seconds=0.001)
    monkeypatch.setattr("benchmarks.swarmbench.measure", lambda **_: measured)
    said = waggle("bench", "swarmbench")
    assert said.code == 0 and "28.1" in said.out and "Transport" in said.out
    rows = waggle("bench", "swarmbench", "--json").data["speeds"]
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
