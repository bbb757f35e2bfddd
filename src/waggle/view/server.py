"""The viewer's server on this machine, in the foreground or in a thread beside an episode."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import uvicorn

from waggle.compat import limits
from waggle.compat.meters import Meters
from waggle.view.app import HOST, app
from waggle.view.library import Library

PORT = 8010
"""The port of the page; `BackgroundViewer` takes any free port if this one is in use."""


def server(library: Library, port: int) -> uvicorn.Server:
    """Return a server for a library."""
    meters = Meters()
    config = uvicorn.Config(
        app(library, meters), host=HOST, port=port, log_level="error", ws="none", backlog=128,
        http=limits.limited(meters, 64), h11_max_incomplete_event_size=limits.MAX_HEADERS,
        server_header=False,
    )  # fmt: skip
    return uvicorn.Server(config)


class BackgroundViewer:
    """A viewer thread for a folder into which this process writes records."""

    def __init__(self, folder: Path) -> None:
        """Start the server; create the folder if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        self._socket = _listen()
        self.address = f"http://{HOST}:{self._socket.getsockname()[1]}/"
        self._server = server(Library(folder, empty=True), PORT)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="viewer", daemon=True
        )
        self._thread.start()

    def stay(self) -> None:
        """Keep serving until Ctrl-C."""
        try:
            while self._thread.is_alive():
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Stop the server."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def _listen() -> socket.socket:
    for port in (PORT, 0):
        # asyncio sets TCP_NODELAY only on a socket whose protocol is given explicitly.
        made = socket.socket(proto=socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, port))
            made.listen(128)  # Requests before the thread runs wait instead of failing.
            return made
        except OSError:
            made.close()
            if not port:
                raise
    raise AssertionError
