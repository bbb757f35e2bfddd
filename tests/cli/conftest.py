"""Call the command line in process and see what a user would see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from waggle.cli.main import main


class Said(NamedTuple):
    """Exit code and both streams of one command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The machine output."""
        return json.loads(self.out)


Command = Callable[..., Said]


@pytest.fixture
def waggle(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "160")

    def call(*words: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        streams = capsys.readouterr()
        return Said(code, streams.out, streams.err)

    return call


@pytest.fixture
def record(waggle: Command, tmp_path: Path) -> Path:
    """A small record with late counterevidence."""
    said = waggle("run", "beacon", "-n", 8, "--seed", 3, "--shock", "--out", tmp_path, "--json")
    assert said.code == 0, said.err
    return Path(said.data["record"])


def refused(said: Said) -> str:
    """Check that a command was refused as it should be, and return its one line."""
    assert said.code == 2, said
    assert said.out == ""
    assert said.err.startswith("waggle: ") and said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    return said.err
