"""`waggle serve` in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def serving(law: str, *options: str) -> Iterator[str]:
    """Serve a law while the caller asks it; yield the address that clients take."""
    pytest.importorskip("uvicorn", reason="needs the serve extra")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "waggle", "serve", "--law", law, "--port", str(port)]
    with subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/v1/models")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
