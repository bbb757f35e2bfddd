"""The notebooks of the documentation show what their code shows when it is run."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "notebooks"
TOOL = runpy.run_path(str(ROOT / "docs" / "tools" / "notebooks.py"))


@pytest.mark.parametrize(
    "name", ["five_minutes", pytest.param("your_world", marks=pytest.mark.slow)]
)
def test_a_notebook_shows_what_its_code_shows(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    kept = json.loads(path.read_text(encoding="utf-8"))
    whole = [["".join(text) for text in shown] for shown in TOOL["texts"](kept)]
    assert TOOL["texts"](TOOL["execute"](path)) == whole


def test_every_notebook_is_stored_with_its_outputs_and_is_executed() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {"five_minutes", "your_world"}
    for path in FOLDER.iterdir():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in code)
        assert sum("image/png" in o.get("data", {}) for c in code for o in c["outputs"]) == 2
        assert path.stat().st_size < 120_000
