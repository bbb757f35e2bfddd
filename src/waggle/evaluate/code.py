"""The plug-in files that laws and worlds come from, and the digests of their contents.

A law or a world of a single file (`--plugin FILE.py`) changes with that file, so its rows carry the
digest of the file as it was loaded. Files that a plug-in imports do not count, nor do built-in
names and those of installed packages.
"""

from __future__ import annotations

from pathlib import Path
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
    files = {name: Path(path).name for path, name in plugin_files.loaded.items()}
    return Source(files[module], plugin_files.digests[module][:DIGITS]) if module in files else None


def code_of(cell: Cell) -> dict[Part, str]:
    """Return the digests of the plug-in files that a cell is played with; often there are none."""
    parts: tuple[Part, ...] = ("law", "substrate")
    found = {part: source_of(part, name_in(cell, part)) for part in parts}
    return {part: source.digest for part, source in found.items() if source is not None}
