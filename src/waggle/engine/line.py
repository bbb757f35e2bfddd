"""Messages between two processes of ours, over a pair of sockets.

A pass of the engine waits for a dozen of them, so each is one write and mostly one read. Invariant:
what was sent as one message is received as one.
"""

from __future__ import annotations

import select
import socket

CHUNK = 1 << 16
HEAD = 4
"""Bytes that say how long a message is."""


class Line:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._read = b""
        """What came of the next message, and of those behind it."""

    @classmethod
    def of(cls, number: int) -> Line:
        """Return the end that has this number, in a process that was given it."""
        return cls(socket.socket(fileno=number))

    def send(self, message: bytes) -> None:
        """Send a message; waits where the other end has much to read."""
        self._end.sendall(len(message).to_bytes(HEAD, "little") + message)

    def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            EOFError: where the other end is closed.
        """
        read, last = self._read, HEAD
        while len(read) < last or len(read) < (last := HEAD + _length(read)):
            more = self._end.recv(max(CHUNK, last - len(read)))
            if not more:
                raise EOFError("the other end of a line is closed")
            read += more
        self._read = read[last:]
        return read[HEAD:last]

    @property
    def waiting(self) -> bool:
        """Whether a message, or its beginning, has come."""
        return bool(self._read) or bool(select.select([self._end], [], [], 0)[0])

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def _length(read: bytes) -> int:
    return int.from_bytes(read[:HEAD], "little")
