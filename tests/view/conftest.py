"""Two small episodes, a record with markup in every string, and the viewer of a folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import uvicorn

import waggle
from tests.waiting import until
from waggle.core.protocols import Shock
from waggle.core.record import EpisodeRecord, WriteRecord
from waggle.core.schema import Decision
from waggle.runtime.records import RecordFile
from waggle.view.app import app
from waggle.view.chromium import PROGRAM, Chromium
from waggle.view.library import Library

MARKUP = "<img src=x onerror='window.broken=1'><script>window.broken=1</script>&amp;"


def write(path: Path, record: EpisodeRecord) -> Path:
    with RecordFile(path) as sink:
        sink.header(record.header)
        for entry in record.rounds:
            sink.round(entry)
        sink.footer(record.footer)
    return path


def marked_up(record: EpisodeRecord) -> EpisodeRecord:
    """Return a record with markup wherever a record holds text."""
    replace = msgspec.structs.replace
    text = MARKUP.replace('"', "'")
    first = record.rounds[0].updates[0]
    view = msgspec.json.decode(bytes(first.view))
    view["private"]["observation"] = {text: text}
    update = replace(
        first, view=msgspec.Raw(msgspec.json.encode(view)), raw=(text,), mode=text, codes=(text,),
        decision=Decision(text, text, (), None), native=text, claim=text, reopened=text,
        bottom=text, writes=(WriteRecord(text, (1,), True, False),
                             WriteRecord(text, (1,), True, False, cause=text)),
    )  # fmt: skip
    entry = replace(
        record.rounds[0], updates=(update,), score={text: 1.0, "score": 0.5},
        shock=Shock(0, (text,), (text,), (0, 99), text),
    )  # fmt: skip
    case = replace(record.header.case, task=text, substrate=text)
    contract = replace(record.header.contract, goal=text, actions=(text, "WAIT"))
    header = replace(record.header, case=case, law=text, contract=contract, engine=text)
    footer = replace(record.footer, rounds=1, scores={text: 1.0, "score": 0.5})
    return EpisodeRecord(header, (entry,), footer)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, a map, markup, and a record that was cut."""
    folder = tmp_path_factory.mktemp("runs")
    beacon = waggle.run("beacon", n=12, seed=3, law="expert", shock=True)
    beacon.save(folder / "beacon.jsonl.gz")
    pursuit = waggle.run("pursuit", n=8, seed=10_001, law="expert", rounds=12)
    pursuit.save(folder / "maps" / "pursuit.jsonl.gz")
    write(folder / "markup.jsonl.gz", marked_up(beacon.record))
    whole = (folder / "beacon.jsonl.gz").read_bytes()
    (folder / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    return folder


@pytest.fixture(scope="session")
def address(runs: Path) -> Iterator[str]:
    """The viewer of the folder, on a port of this machine."""
    config = uvicorn.Config(app(Library(runs)), port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser; tests that need it are skipped where there is none."""
    if PROGRAM is None:
        pytest.skip("no chromium on this machine")
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(started: Chromium) -> Iterator[Chromium]:
    """A page whose console must be empty after the test."""
    started.troubles.clear()
    started.size(1200, 900)
    yield started
    assert started.troubles == []
