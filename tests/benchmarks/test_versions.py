"""Two checkouts play the same episodes, and a difference between their records is seen."""

from __future__ import annotations

from benchmarks.versions import HERE, Cell, Player, play

CELL = Cell("beacon/beacon", 4, 2)


def test_another_process_writes_the_same_record_and_another_order_does_not() -> None:
    player = Player(HERE)
    there = player.play(CELL)
    player.close()
    assert there.digest == play(CELL, {}).digest
    assert there.digest != play(CELL._replace(order="canonical"), {}).digest
    assert there.microseconds > 0
