"""`waggle serve` in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.waiting import LONGEST, until


@contextmanager
def serving(law: str, *options: str) -> Iterator[str]:
    """Serve a law while the caller asks it; yield the address that clients take."""
    pytest.importorskip("uvicorn", reason="needs the serve extra")
    command = [sys.executable, "-m", "waggle", "serve", "--law", law, *options]
    for _ in range(3):  # another program may take the port before the server does
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL) as server:
            try:
                wait_for(f"http://127.0.0.1:{port}/v1/models", server)
                if server.poll() is None:
                    yield f"http://127.0.0.1:{port}/v1"
                    return
            finally:
                server.terminate()
    raise AssertionError("the server ended before it answered")


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers or has ended."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=LONGEST):
                return True
        except OSError:
            return False

    until(lambda: answers() or server.poll() is not None, seconds=300)
