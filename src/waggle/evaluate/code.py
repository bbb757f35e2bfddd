"""The plug-in files that laws and worlds come from, and the digests of their contents.

A law or a world of a single file (`--plugin FILE.py`) changes with that file, so its rows carry the
digest of the file. The digest is taken once for each time the file is loaded. Files that a plug-in
imports do not count, nor do built-in names and those of installed packages.
"""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple, TypeAlias

from waggle import plugin_files, plugins
from waggle.evaluate.plan import Cell
from waggle.laws.digest import DIGITS

Part: TypeAlias = Literal["law", "substrate"]
"""What a plug-in file can contribute to an episode."""


class Source(NamedTuple):
    """The plug-in file of a law or a world."""

    file: str
    """Name of the file, without its folder."""
    digest: str


def name_in(cell: Cell, part: Part) -> str:
    """Return the name of a cell's law or world."""
    return cell.law if part == "law" else cell.case.substrate


def source_of(part: Part, name: str) -> Source | None:
    """Return the plug-in file of a law or a world; None if it comes from elsewhere."""
    target = next((entry.target for entry in plugins.entries(part) if entry.name == name), "")
    module = target.partition(":")[0]
    if module not in plugin_files.loaded.values():
        return None
    return _source(sys.modules[module])


def code_of(cell: Cell) -> dict[Part, str]:
    """Return the digests of the plug-in files that a cell is played with; often there are none."""
    parts: tuple[Part, ...] = ("law", "substrate")
    found = {part: source_of(part, name_in(cell, part)) for part in parts}
    return {part: source.digest for part, source in found.items() if source is not None}


@lru_cache(maxsize=64)
def _source(module: ModuleType) -> Source | None:
    """Return file and digest of a loaded module; loading the file again gives a new module."""
    path = Path(str(module.__file__))
    try:
        return Source(path.name, hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS])
    except OSError:  # the file was removed after it was loaded
        return None
