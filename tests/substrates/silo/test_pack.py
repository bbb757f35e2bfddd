"""Capped frames: a shard counts once all of its bytes were sent, and no other pays for it."""

from __future__ import annotations

from waggle.substrates.silo.world import PortMemory


def bits(*shards: int) -> int:
    return sum(1 << shard for shard in shards)


def send(port: PortMemory, arrivals: list[int], sizes: list[int], cap: int) -> int:
    packed = port.pack(arrivals, sizes, cap)
    port.shared |= packed
    return packed


def test_a_large_shard_is_sent_in_pieces_and_the_next_one_fills_the_rest() -> None:
    port = PortMemory()
    sent = [send(port, [0, 1], [100, 20], 64) for _ in range(2)]
    assert sent == [0, bits(0, 1)]  # 64, then 36 and 20


def test_a_piece_of_a_shard_that_the_neighbour_sends_itself_pays_for_no_other() -> None:
    port = PortMemory()
    assert send(port, [0, 1], [100, 100], 64) == 0
    port.shared |= bits(0)  # it arrives from the neighbour
    sent = [send(port, [0, 1], [100, 100], 64) for _ in range(2)]
    assert sent == [0, bits(1)]
