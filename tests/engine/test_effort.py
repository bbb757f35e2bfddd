"""What drafts cost a host is seen slowly, and forgotten when nothing is drafted."""

from waggle.engine import effort
from waggle.engine.effort import Effort


def test_a_slow_host_is_noticed_slowly() -> None:
    seen = Effort()
    for _ in range(8):
        seen.opened(1.0, 300)
    assert seen.answer < 1.1 * effort.ANSWER, "the first of a kind are dear"
    for _ in range(4_000):
        seen.opened(1e-3, 600)
    assert 0.9e-3 < seen.answer < 1.1e-3 and 590 < seen.tokens < 610


def test_a_fast_host_is_noticed_too() -> None:
    seen = Effort()
    for _ in range(100):
        seen.answered(64 * 5e-6, 64)
    assert 4e-6 < seen.row < 6e-6


def test_what_is_not_seen_is_forgotten() -> None:
    seen = Effort()
    for _ in range(2_000):
        seen.opened(5e-3, 300)
        seen.answered(1e-3, 1)
    slow = seen.answer, seen.row
    for _ in range(30 * effort.SLOWLY * effort.FORGOTTEN):
        seen.rested()
    assert slow[0] > 10 * effort.ANSWER and slow[1] > 10 * effort.ROW
    assert seen.answer < 1.1 * effort.ANSWER and seen.row < 1.1 * effort.ROW
