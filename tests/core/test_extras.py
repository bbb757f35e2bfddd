"""The extras that messages name are those of the package, and bring what they say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from waggle.core.extras import EXTRAS, extra_of, install

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_messages_say_it_does(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = project["optional-dependencies"][extra]
    assert [re.split(r"[<>=]", need)[0] for need in brought] == list(EXTRAS[extra])


def test_a_module_inside_a_library_has_its_extra() -> None:
    assert extra_of("torch.nn.functional") == "llm"
    assert extra_of("uvicorn") == "serve"
    assert extra_of("waggle.typo") is None and extra_of(None) is None


def test_the_command_pins_torch_where_pins_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert install("llm") == "pip install 'waggle-swarm[llm]'"
    (tmp_path / "constraints.txt").touch()
    assert install("llm") == "pip install -c constraints.txt 'waggle-swarm[llm]'"
