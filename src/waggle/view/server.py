"""The viewer as a server of this machine: until Ctrl-C, or beside what is being played."""

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
"""The port of the page; beside a run any other one, if this is taken."""


def server(library: Library, port: int) -> uvicorn.Server:
    """Return the server of a library."""
    meters = Meters()
    config = uvicorn.Config(
        app(library, meters), host=HOST, port=port, log_level="error", ws="none", backlog=128,
        http=limits.limited(meters, 64), h11_max_incomplete_event_size=limits.MAX_HEADERS,
        server_header=False,
    )  # fmt: skip
    return uvicorn.Server(config)


class BackgroundViewer:
    """The viewer of a folder in a thread, while this process plays into the folder."""

    def __init__(self, folder: Path) -> None:
        """Start it; the folder is made if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        self._socket = _listen()
        self.address = f"http://{HOST}:{self._socket.getsockname()[1]}/"
        self._server = server(Library(folder, empty=True), PORT)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="viewer", daemon=True
        )
        self._thread.start()

    def stay(self) -> None:
        """Go on until Ctrl-C."""
        try:
            while self._thread.is_alive():
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """End it."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def _listen() -> socket.socket:
    for port in (PORT, 0):
        # With the protocol by name asyncio sends every answer at once (TCP_NODELAY).
        made = socket.socket(proto=socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, port))
            made.listen(128)  # A page that is asked for before the thread runs waits, not fails.
            return made
        except OSError:
            made.close()
            if not port:
                raise
    raise AssertionError
