"""The extras that messages name are those of the package, and bring what they say."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from waggle.extras import EXTRAS, USES, extra_of, install, missing

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_messages_say_it_does(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = project["optional-dependencies"][extra]
    assert [re.split(r"[<>=]", need)[0] for need in brought] == list(EXTRAS[extra])


def test_what_users_install_has_an_upper_bound() -> None:
    """A release that the suite has not seen is taken when somebody has looked at it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    needs = [*project["dependencies"], *(n for name, own in extras if name != "dev" for n in own)]
    assert [n for n in needs if "<" not in n and not n.startswith("waggle-swarm[")] == []


def imported() -> set[str]:
    """Name what the sources import of others, at their top or inside functions."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"waggle"}


def test_what_is_imported_is_required_or_an_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {re.split(r"[<>=]", need)[0] for need in project["dependencies"]}
    brought = {library for libraries in EXTRAS.values() for library in libraries}
    # Triton comes with the torch of a GPU; Ray is for clusters, which have their own.
    tops = {library.partition("-")[0] for library in brought} | {"PIL"}  # the module of pillow
    assert imported() - required - tops == {"triton", "ray"}


def test_a_module_inside_a_library_has_its_extra() -> None:
    assert extra_of("torch.nn.functional") == "law", "the smallest that brings it"
    assert extra_of("peft") == "llm" and extra_of("uvicorn") == "serve"
    assert extra_of("opentelemetry.sdk") == "otel"
    assert extra_of("waggle.typo") is None and extra_of(None) is None


def test_a_message_names_the_extra_and_what_works_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert USES.keys() == EXTRAS.keys()
    monkeypatch.chdir(tmp_path)
    assert missing("torch") == (
        "this needs torch; add it with `pip install 'waggle-swarm[law]'`; "
        "rules such as `--law expert` play without it"
    )
    assert missing("nothing") is None


def test_the_command_pins_torch_where_pins_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert install("llm") == "pip install 'waggle-swarm[llm]'"
    (tmp_path / "constraints.txt").touch()
    assert install("llm") == "pip install -c constraints.txt 'waggle-swarm[llm]'"
