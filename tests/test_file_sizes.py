"""A file holds one idea, a folder is a chapter with words of its own; both have a cap."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "benchmarks", "conformance")
SOURCES = sorted(path for top in FOLDERS for path in (ROOT / top).rglob("*.py"))
LINES = 500
"""The most lines of a source file."""
MODULES = 25
"""The most modules of a folder, `__init__.py` aside."""


def test_no_file_is_longer_than_the_cap() -> None:
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: count for path, count in lines.items() if count > LINES} == {}


def test_no_folder_holds_more_modules_than_a_chapter() -> None:
    folders = Counter(str(path.parent) for path in SOURCES if path.name != "__init__.py")
    assert {f: n for f, n in folders.items() if n > MODULES} == {}


def test_every_folder_says_what_is_in_it() -> None:
    folders = [path for path in SOURCES if path.name == "__init__.py"]
    silent = [path for path in folders if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []
