"""Files stay small: one idea each, and a cap that is enforced and not only intended."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parent.parent
CAP = 420
"""Lines of a source file."""
TYPICAL = 170
"""Lines of the median file."""
FUNCTION = 12
"""Lines of the median function."""

SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_a_file_stays_under_the_cap(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= CAP, f"{path.name} has {lines} lines; split it by idea (cap {CAP})"


def test_the_typical_file_and_function_are_small() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    assert median(len(text.splitlines()) for text in texts) <= TYPICAL
    assert median(length for text in texts for length in _functions(text)) <= FUNCTION


def _functions(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            yield node.end_lineno - node.lineno + 1
