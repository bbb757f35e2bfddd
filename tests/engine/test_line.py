"""Messages between processes: each arrives whole, however they are cut on the way."""

import socket
import threading
from collections.abc import Iterator

import pytest

from waggle.engine.line import CHUNK, Line


@pytest.fixture
def ends() -> Iterator[tuple[Line, Line]]:
    one, other = socket.socketpair()
    with one, other:
        yield Line(one), Line(other)


def test_messages_arrive_whole_and_in_order(ends: tuple[Line, Line]) -> None:
    one, other = ends
    assert not other.waiting
    sent = [b"ready", b"", b"x" * 300, bytes(range(256)) * 9]
    for message in sent:
        one.send(message)
    assert other.waiting
    assert [other.receive() for _ in sent] == sent
    assert not other.waiting


def test_a_long_message_comes_in_parts(ends: tuple[Line, Line]) -> None:
    one, other = ends
    sent = [b"a" * (5 * CHUNK + 3), b"b"]
    thread = threading.Thread(target=lambda: [one.send(message) for message in sent])
    thread.start()
    assert [other.receive() for _ in sent] == sent
    thread.join()


def test_what_was_read_too_far_still_waits(ends: tuple[Line, Line]) -> None:
    one, other = ends
    one.send(b"first")
    one.send(b"second")
    other.receive()
    assert other.waiting, "it came with the first"
    assert other.receive() == b"second"


def test_a_closed_line_is_told(ends: tuple[Line, Line]) -> None:
    one, other = ends
    one.send(b"whole")
    one._end.sendall((9).to_bytes(4, "little") + b"half")
    one.close()
    assert other.receive() == b"whole"
    with pytest.raises(EOFError):
        other.receive()
    with pytest.raises(OSError):
        other.send(b"x" * (1 << 22))
