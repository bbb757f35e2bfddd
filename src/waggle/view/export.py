"""The viewer as files: a page with its records, opened from disk or served by any web server.

Browsers load no modules from `file://`, so the modules of the page become one plain script, and
every piece of data becomes a script that the page loads when it needs the data.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec

from waggle.core.errors import ConfigError
from waggle.view import decisions, episode
from waggle.view.app import static
from waggle.view.library import PAGE, Library

MAX_RUNS = 50
"""Largest number of records in one export."""
MODULES = ("dom.js", "source.js", "model.js", "stage.js", "curves.js", "agent.js", "player.js",
           "library.js", "main.js")  # fmt: skip
"""The modules of the page, each after those it imports."""
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def bundle(pages: dict[str, str]) -> str:
    """Return the modules of the page as one plain script."""
    parts = (_EXPORT.sub("", _IMPORT.sub("", pages[name])) for name in MODULES)
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def export(library: Library, folder: Path) -> int:
    """Write the viewer with all records of a library into a folder and return their number.

    Raises:
        ConfigError: if the folder is not empty, or there are more than `MAX_RUNS` records.
        RecordError: if a record cannot be shown.
    """
    names, folder = library.names, folder.absolute()
    if len(names) > MAX_RUNS:
        raise ConfigError(f"{len(names)} records are too many; export at most {MAX_RUNS} at a time")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty; name a new folder for the export")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        write(library, partial)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return len(names)


def write(library: Library, folder: Path, *, whole: bool = True) -> None:
    """Write the files of the page; without the agents' decisions if `whole` is False."""
    names, pages, data = library.names, static(), folder / "data"
    data.mkdir(parents=True)
    for number, name in enumerate(names):
        path = library.path(name)
        document = episode.document(path)
        _write(data / f"{number}.js", f"{number}", document)
        for round in range(len(document["rounds"]) if whole else 0):
            found = {update["agent"]: update for update in decisions.updates(path, round)}
            _write(data / f"{number}-{round}.js", f"{number}-{round}", found)
    rows = [row for start in range(0, len(names), PAGE) for row in library.page(start)["runs"]]
    _write(data / "runs.js", "runs", rows)
    page = pages["index.html"].replace(
        '<script type="module" src="main.js"></script>',
        '<script src="export.js"></script>\n<script src="data/runs.js"></script>\n'
        '<script src="viewer.js" defer></script>',
    )
    files = {
        "index.html": page, "style.css": pages["style.css"], "viewer.js": bundle(pages),
        "export.js": "window.waggleExport = {};\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _write(path: Path, key: str, value: Any) -> None:
    text = msgspec.json.encode(value).decode()
    path.write_text(f'window.waggleExport["{key}"] = {text};\n', encoding="utf-8")
