"""`waggle view`: exports from a record, a folder or a pipe; what it cannot show is one line."""

from __future__ import annotations

import io
import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Command, refused
from waggle.laws.heuristic import Heuristic
from waggle.view import server


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
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for words in (["view", record], ["serve", "--law", "heuristic"]):
            line = refused(waggle(*words, "--port", port))
            assert f"cannot listen on 127.0.0.1:{port} (Address already in use); choose" in line
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(record.read_bytes()[:-200])
    assert "cut" in refused(waggle("view", cut, "--export", tmp_path / "site"))
    assert not (tmp_path / "site").exists()


def test_an_episode_can_be_seen_while_it_is_played(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    decide = Heuristic.decide

    def looked(law: Heuristic, requests: Any) -> Any:
        address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/api/runs"
        seen.append(json.load(urlopen(address))["live"][0]["run"])
        return decide(law, requests)

    sockets = [server._listen()]
    monkeypatch.setattr(server, "_listen", lambda: sockets[0])
    monkeypatch.setattr(Heuristic, "decide", looked)
    said = waggle("run", "beacon", "-n", 4, "--rounds", 3, "--out", tmp_path, "--view")
    assert said.code == 0 and "watch it at http://127.0.0.1:" in said.err
    assert seen == [path.name for path in tmp_path.iterdir()] * 3, "and only the record stays"


def test_cells_can_be_seen_while_they_are_played(waggle: Command, tmp_path: Path) -> None:
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'title = "own"\ntables = ["scores"]\n[methods.heuristic]\nlaw = "heuristic"\n'
        '[[blocks]]\nmethods = ["heuristic"]\ntasks = ["beacon"]\nn = [4]\nrounds = [3]\n'
        "seeds = { start = 10000, count = 1 }\n",
        encoding="utf-8",
    )
    said = waggle("eval", recipe, "--out", tmp_path / "run", "--view", "--executor", "inline")
    assert said.code == 0, said.err
    (kept,) = (tmp_path / "run" / "records").iterdir()
    assert kept.name.endswith(".jsonl.gz") and not kept.name.startswith(".")
