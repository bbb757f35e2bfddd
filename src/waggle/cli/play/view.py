"""`waggle view`: records as a page in the browser."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, TypeAlias
from urllib.parse import urlencode

from cyclopts import Parameter

from waggle.cli import console
from waggle.cli.options import Flag, require_free, require_port
from waggle.core.errors import ConfigError
from waggle.extras import install
from waggle.runtime.records import SUFFIX

Place: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""A path, or `-`."""


def view(
    runs: Place = "runs", /, *, export: Path | None = None, port: int = 8010, browser: Flag = False
) -> None:
    """Show episodes in the browser.

    Shows which agents hold which claims over the rounds, the messages between agents, the curves,
    and the view, answer and effect of every decision. The page is served to this machine only,
    until Ctrl-C. No law is run, and the network is not used. Needs the extra `serve`. Examples:

    `waggle view runs`

    `waggle view runs/RECORD.jsonl.gz --export site`

    Args:
        runs: Record, folder of records, or `-` for a record from standard input.
        export: Write the page and its records to this new folder instead of serving it; the page
            opens from disk or from any web server.
        port: Port to listen on.
        browser: Open the page in the default browser.
    """
    require_port(port)
    with tempfile.TemporaryDirectory(prefix="waggle-view-") as own:
        _show(_standard_input(Path(own)) if runs == "-" else Path(runs), export, port, browser)


def _show(place: Path, export: Path | None, port: int, browser: bool) -> None:
    serving = _serving()
    from waggle.view import export as exporting
    from waggle.view.library import Library

    library = Library(place)
    if export is not None:
        count = exporting.export(library, export)
        console.say(f"{count} record{'' if count == 1 else 's'}: {export / 'index.html'}")
        return
    require_free(serving.HOST, port)
    address = f"http://{serving.HOST}:{port}/"
    console.note(f"{len(library.names)} records at {address}; stop with Ctrl-C")
    if browser:
        import webbrowser

        webbrowser.open(address)
    serving.server(library, port).run()


def _serving() -> ModuleType:
    """Return the module of the viewer's server.

    Raises:
        ConfigError: if its libraries are not installed.
    """
    try:
        from waggle.view import server
    except ImportError as error:
        raise ConfigError(
            f"the viewer needs starlette and uvicorn; install them with `{install('serve')}`"
        ) from error
    return server


def show_live(folder: Path, run: str = "") -> Callable[[], None]:
    """Show a folder in the browser while episodes are being recorded in it.

    Args:
        folder: folder of the records.
        run: name of the record that is being written, if there is only one.

    Returns:
        a function to call at the end: on a terminal it keeps the page until Ctrl-C.
    """
    page = _serving().BackgroundViewer(folder)
    address = page.address + (f"#{urlencode({'run': run})}" if run else "")
    console.note(f"watch it at {address}")

    def end() -> None:
        if not sys.stderr.isatty():
            page.stop()
            return
        console.note(f"the page stays at {address} until Ctrl-C")
        page.stay()

    return end


def _standard_input(folder: Path) -> Path:
    """Save a record from standard input to a file, up to the largest size that is shown."""
    from waggle.view.decisions import MAX_FILE

    data = sys.stdin.buffer.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ConfigError(f"the record on standard input is larger than {MAX_FILE >> 20} MB")
    path = folder / f"standard-input{SUFFIX}"
    path.write_bytes(data)
    return path
