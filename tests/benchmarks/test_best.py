"""Rounds of a measurement come together as every row at its fastest."""

import dataclasses

import pytest

from benchmarks.best import best_of
from benchmarks.engine import bench
from benchmarks.limits import Limits
from benchmarks.rates import Rates
from benchmarks.report import BenchReport, Cell, lines
from benchmarks.rivals_rows import standings
from benchmarks.standing import RivalRow
from waggle.core.errors import ConfigError


def one(generate: float, free: float, rival: float, answers: int = 2) -> BenchReport:
    """Return a round of two decisions, in which all took so many seconds."""
    report = BenchReport("m", "cpu", "float32", 1, 2, 1, 32, 64, 4, True, Limits(1, 1))
    for mode, seconds in (("generate, plain", generate), ("free", free)):
        rates = Rates(10 / seconds, 20 * seconds, 5.0)
        report.cells.append(Cell(mode, seconds, 2 / seconds, 4, 4, generate / seconds, 1, 1, rates))
    rates = Rates(8 / rival, 16 / rival, 6.0)
    report.rivals = [
        RivalRow("r", "r 1", "int8", "plain", rival, 2 / rival, 4, 1, rates, 2, answers)
    ]
    return report


def test_every_row_is_taken_at_its_fastest() -> None:
    found = best_of([one(8, 4, 3), one(6, 5, 2), one(7, 2, 4)])
    generate, free = found.cells
    assert (generate.seconds, free.seconds, found.rivals[0].seconds) == (6, 2, 2)
    assert generate.speedup == 1 and free.speedup == 3 and found.rivals[0].speedup == 3
    assert free.rates == Rates(5.0, 100.0, 5.0), "the best of each kind"
    (standing,) = standings(found, ["r"])
    assert standing.decisions == 1 and standing.prefill == 5 / 4
    assert "each row the fastest of 3 rounds" in lines(found)[0]


def test_a_row_that_was_given_up_does_not_win() -> None:
    found = best_of([one(8, 4, 1, answers=0), one(8, 4, 3)])
    assert found.rivals[0].seconds == 3 and found.rivals[0].complete


def test_what_failed_in_one_round_is_not_missing() -> None:
    failed = dataclasses.replace(one(8, 4, 3), rivals=[], missing={"r": "failed", "s": "failed"})
    assert best_of([failed, one(8, 4, 3)]).missing == {"s": "failed"}


def test_one_round_is_the_report_itself() -> None:
    only = one(8, 4, 3)
    assert best_of([only]) is only
    assert "rounds" not in lines(only)[0]


def test_rounds_are_measured_alike() -> None:
    report = bench("tiny-random", "cpu", "float32", 2, 64, 64, 6, 1, rounds=2)
    assert report.rounds == 2
    assert [cell.mode for cell in report.cells].count("free") == 1
    assert report.equal["free"] == "2 of 2 answers"
    with pytest.raises(ConfigError, match="rounds must be at least 1"):
        bench("tiny-random", rounds=0)
