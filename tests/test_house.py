"""House rules that no linter knows: named randomness, light imports, layers, no grab-bags."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
HEAVY = ("torch", "transformers", "httpx2", "matplotlib", "igraph", "pyarrow", "pandas")
IMPORT_SECONDS = 0.3
"""Of a processor: how busy the machine is does not count."""


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a chain of attributes, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def global_draws(source: str) -> Iterator[str]:
    """Name every call of a module-level generator of `random` or `numpy.random`."""
    makers = {
        "Random",
        "default_rng",
        "Generator",
        "SeedSequence",
        "Philox",
        "PCG64",
        "RandomState",
    }
    nodes = list(ast.walk(ast.parse(source)))
    imported = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    modules = {"np.random", "numpy.random"} | ({"random"} & imported)
    for node in nodes:
        if isinstance(node, ast.Call):
            module, _, name = dotted(node.func).rpartition(".")
            if module in modules and name not in makers:
                yield f"line {node.lineno}: {module}.{name}"
        if isinstance(node, ast.ImportFrom) and node.module in {"random", "numpy.random"}:
            for alias in node.names:
                if alias.name not in makers:
                    yield f"line {node.lineno}: from {node.module} import {alias.name}"


def top_imports(source: str) -> Iterator[str]:
    """Name the modules a file imports when it is itself imported."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_no_global_generator_is_drawn_from() -> None:
    draws = {str(path): list(global_draws(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert {path: found for path, found in draws.items() if found} == {}


def test_the_search_for_global_draws_finds_planted_ones() -> None:
    planted = "import random\nimport numpy as np\nrandom.random()\nnp.random.rand(3)\n"
    assert len(list(global_draws(planted))) == 2
    assert list(global_draws("from random import shuffle\n"))
    assert not list(global_draws("import random\nrandom.Random(3).random()\n"))
    assert not list(global_draws("from random import Random\nrandom = Random(3)\nrandom.random()"))


TENSORS = {"engine", "learn", "models", "scd"}
"""Folders whose modules work with tensors throughout."""


def test_only_engine_and_trainer_import_heavy_libraries_at_their_top() -> None:
    found = {
        str(path.relative_to(ROOT / "src" / "waggle")): heavy
        for path in SOURCES
        if path.relative_to(ROOT / "src" / "waggle").parts[0] not in TENSORS
        and (heavy := set(top_imports(path.read_text(encoding="utf-8"))) & set(HEAVY))
    }
    assert found == {}


def test_there_are_no_grab_bags() -> None:
    assert [p.name for p in SOURCES if p.stem in {"utils", "util", "helpers", "misc"}] == []


def test_importing_waggle_is_quick_and_light() -> None:
    probe = (
        "import sys, time; t = time.process_time(); import waggle; "
        "print(time.process_time() - t, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    seconds, *modules = done.stdout.split()
    assert float(seconds) <= IMPORT_SECONDS
    assert not {*modules} & {*HEAVY}


def test_planted_imports_across_layers_are_caught(tmp_path: Path) -> None:
    """That the layers hold is checked before the suite, by `make style`."""
    planted = {
        "laws": "import waggle.runtime.sync",
        "substrates": "def f() -> None:\n    import waggle.laws.heuristic",
        "core": "from waggle import plugins",
    }
    no_code = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=no_code)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for where, what in planted.items():
        (tmp_path / "src" / "waggle" / where / "planted.py").write_text(f"{what}\n")
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    for where in planted:
        assert f"waggle.{where}.planted" in done.stdout, done.stdout


def test_torch_is_pinned_for_every_install() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "torch==2.13.0" in constraints.split()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(need.startswith("torch") for need in extras["optional-dependencies"]["llm"])
    assert "-c constraints.txt" in (ROOT / "Makefile").read_text(encoding="utf-8")
