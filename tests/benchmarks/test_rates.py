"""Tokens per second mean the same in every row, and count what they say they count."""

import pytest

from benchmarks.engine import bench
from benchmarks.rates import MEANING, Batch, Rates, by_difference, by_parts, told
from benchmarks.report import lines
from benchmarks.setup import Ask, mean, prepare
from waggle.engine.beginnings import Beginnings
from waggle.engine.request import Prompt


def asks(count: int, prefix: int = 60, tail: int = 40) -> list[Ask]:
    return [Ask((1,) * tail, (2,) * prefix, None, int) for _ in range(count)]


def answers(count: int, length: int) -> list[tuple[int, ...]]:
    return [(3,) * length for _ in range(count)]


def test_decoding_is_what_longer_answers_take() -> None:
    first = Batch(asks(2), answers(2, 1), 0.5)
    whole = Batch(asks(4), answers(4, 25), 3.0)
    rates = by_difference(first, whole, run=124)
    assert rates.prefill == 2 * 100 / 0.5
    assert rates.decode == 4 * 25 / (3.0 - 2 * 0.5), "twice the prompts take twice the reading"
    assert rates.run == 124


def test_a_time_too_short_to_be_seen_is_no_rate() -> None:
    first, whole = Batch(asks(2), answers(2, 1), 0.5), Batch(asks(2), answers(2, 9), 0.4)
    assert by_difference(first, whole, run=1).decode == 0


def test_the_engine_reads_own_parts_and_everything_else_is_decoding() -> None:
    batch = Batch(asks(2), answers(2, 30), 2.0)
    plain = by_parts(batch, 120, 0.5, {"prompt": 80, "steps": 58})
    assert plain.prefill == 2 * 100 / 0.5
    assert plain.decode == 2 * 30 / 1.5
    assert plain.run == (80 + 58) / 2


def test_drafts_behind_prompts_are_decoding() -> None:
    """Half of the tokens in the passes with prompts are drafts: so is half of the time."""
    batch = Batch(asks(2), answers(2, 30), 2.0)
    drafted = by_parts(batch, 120, 1.0, {"prompt": 160, "steps": 0})
    assert drafted.prefill == 2 * 100 / 0.5
    assert drafted.decode == 2 * 30 / 1.5


def test_every_row_says_its_rates() -> None:
    report = bench("tiny-random", "cpu", "float32", 3, 64, 64, 12, 1)
    text = "\n".join(lines(report))
    assert text.count(MEANING) == 1
    assert text.count("prefill/s") == text.count("decode/s") == len(report.cells)
    rates = {cell.mode: cell.rates for cell in report.cells}
    assert all(found.prefill > 0 for found in rates.values())
    setup = prepare("tiny-random", "cpu", "float32", (3, 1), 64, 64, 12)
    # The prompts that warm up show what all tails begin with.
    asked = [Prompt(ask.tail, ask.prefix) for ask in setup.warm]
    extra = len(Beginnings().stretched(asked)[0].prefix) - 64
    own = mean([len(ask.tail) for ask in setup.fresh]) - extra
    assert extra > 8
    run = rates["free, no drafts"].run
    assert run == pytest.approx(own + 11), "every step but the last, nothing of what is shared"
    longest = max(len(ask.tail) for ask in (*setup.work, *setup.warm, *setup.fresh))
    assert rates["generate, dynamic cache"].run == 64 + longest + 11
    assert "9 run" in told(Rates(1, 1, 9))


def test_nothing_of_a_batch_is_lost() -> None:
    """Prefill and decode together take the time of the batch that was waited for."""
    report = bench("tiny-random", "cpu", "float32", 2, 32, 64, 8, 1)
    cell = next(cell for cell in report.cells if cell.mode == "free, no drafts")
    parts = {name: ms for name, ms in cell.shares.items() if name != "passes"}
    decoding = 2 * 8 / cell.rates.decode
    assert decoding == pytest.approx((sum(parts.values()) - parts["prompt"]) / 1e3)
