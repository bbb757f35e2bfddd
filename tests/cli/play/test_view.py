"""`waggle view`: exports from a record, a folder or a pipe; what it cannot show is one line."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Command, refused


def test_a_record_and_its_folder_are_exported(
    waggle: Command, record: Path, tmp_path: Path
) -> None:
    for place, site in ((record, tmp_path / "one"), (record.parent, tmp_path / "all")):
        said = waggle("view", place, "--export", site)
        assert (said.code, said.err) == (0, "") and str(site / "index.html") in said.out
        assert record.name in (site / "data" / "runs.js").read_text(encoding="utf-8")
    assert "not empty" in refused(waggle("view", record, "--export", tmp_path / "one"))


def test_a_record_comes_from_standard_input(
    waggle: Command, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SimpleNamespace(buffer=io.BytesIO(record.read_bytes()))
    monkeypatch.setattr(sys, "stdin", given)
    assert waggle("view", "-", "--export", tmp_path / "site").code == 0
    assert "heuristic" in (tmp_path / "site" / "data" / "0.js").read_text(encoding="utf-8")


def test_what_cannot_be_shown_is_one_line(waggle: Command, record: Path, tmp_path: Path) -> None:
    assert "there is no" in refused(waggle("view", tmp_path / "none"))
    assert "--port" in refused(waggle("view", record, "--port", 0))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(record.read_bytes()[:-200])
    assert "cut" in refused(waggle("view", cut, "--export", tmp_path / "site"))
    assert not (tmp_path / "site").exists()
