"""Files, lines and modules with one importer, by package: `python -m tools.census [BEFORE] [NOW]`.

Prints a Markdown table of two commits side by side; without arguments, of HEAD. A module with one
importer is imported by exactly one other module of the package or of the benchmarks, at top level
or inside a function. Many such modules are a sign that one idea was cut into pieces. `__init__.py`
is not counted as one. Naming a module in a string, as is done for commands, is not an import.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "benchmarks")


class Count(NamedTuple):
    """The counts of one package."""

    files: int
    lines: int
    one_importer: int


def main(commits: list[str]) -> int:
    """Print the table of one commit, or of two side by side."""
    counts = [census(sources(commit)) for commit in commits or ["HEAD"]]
    print("| package |" + " files | lines | one importer |" * len(counts))
    print("|---|" + "---|---|---|" * len(counts))
    nothing = Count(0, 0, 0)
    for package in sorted({package for found in counts for package in found}):
        row(package, [found.get(package, nothing) for found in counts])
    ours = [[n for name, n in found.items() if name != "benchmarks"] for found in counts]
    row("all but benchmarks", [Count(*map(sum, zip(*found, strict=True))) for found in ours])
    return 0


def row(name: str, counts: list[Count]) -> None:
    """Print one row of the table."""
    print(f"| {name} | " + " | ".join(f"{n:,}" for count in counts for n in count) + " |")


def sources(commit: str) -> dict[str, str]:
    """Return the Python files of a commit, by their paths."""
    there = subprocess.run(
        ["git", "ls-tree", "--name-only", commit, *FOLDERS],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    packed = subprocess.run(
        ["git", "archive", commit, *there], cwd=ROOT, capture_output=True, check=True
    ).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            text = archive.extractfile(member)
            if member.name.endswith(".py") and text is not None:
                found[member.name] = text.read().decode()
    return found


def census(texts: Mapping[str, str]) -> dict[str, Count]:
    """Count the files, lines and modules with one importer in every package."""
    modules = {module(path): text for path, text in texts.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, text in modules.items():
        for imported in imports(text) & (modules.keys() - {name}):
            importers[imported].add(name)
    single = {name for name, found in importers.items() if len(found) == 1}
    packages: dict[str, list[str]] = defaultdict(list)
    for path in texts:
        packages[package(path)].append(path)
    return {
        name: Count(
            len(paths),
            sum(len(texts[path].splitlines()) for path in paths),
            sum(module(path) in single for path in paths if not path.endswith("__init__.py")),
        )
        for name, paths in packages.items()
    }


def module(path: str) -> str:
    """Return the dotted name of a file: `waggle.core.orbit` for `src/waggle/core/orbit.py`."""
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def package(path: str) -> str:
    """Return the folder under `waggle` that a file belongs to; `(top)` if it is in none."""
    parts = PurePosixPath(path).parts
    if parts[0] != "src":
        return parts[0]
    return parts[2] if len(parts) > 3 else "(top)"


def imports(text: str) -> set[str]:
    """Return every dotted name that a file may import: modules, and names that may be modules."""
    return {name for node in ast.walk(ast.parse(text)) for name in _imported(node)}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
