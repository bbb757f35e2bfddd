"""An episode that is being played: its rounds arrive in the page, then its record takes over."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

import waggle
from waggle.api.episode import open_world
from waggle.core.errors import RecordError
from waggle.core.record import EpisodeRecord
from waggle.runtime import live
from waggle.runtime.live import LiveFile, live_path
from waggle.runtime.names import Aliases
from waggle.runtime.records import read
from waggle.view import growing
from waggle.view.app import app
from waggle.view.chromium import Chromium
from waggle.view.episode import Document, Round
from waggle.view.growing import LiveRecord
from waggle.view.library import Library
from waggle.view.server import BackgroundViewer

NAME = "playing.jsonl.gz"


class Playing:
    """An episode that is played as far as the test says."""

    def __init__(self, record: EpisodeRecord, folder: Path) -> None:
        self.record, self.path = record, folder / NAME
        self.sink = LiveFile(self.path, open_world(record.header))
        self.sink.header(record.header)
        self.played = 0

    def play(self, rounds: int) -> None:
        for entry in self.record.rounds[self.played : self.played + rounds]:
            self.sink.round(entry)
            self.played += 1

    def end(self) -> None:
        waggle.Episode(self.record).save(self.path)
        self.sink.__exit__(None, None, None)


@pytest.fixture
def playing(runs: Path, tmp_path: Path) -> Playing:
    return Playing(read(runs / "beacon.jsonl.gz"), tmp_path)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    page = BackgroundViewer(tmp_path)
    yield page.address
    page.stop()


def test_rounds_arrive_in_the_page(browser: Chromium, address: str, playing: Playing) -> None:
    browser.open(address)
    assert "1 of 1 runs, 1 being" in browser.run(
        "document.querySelector('[role=status]').innerText"
    )
    assert "live" in browser.run("document.querySelector('tbody tr').innerText")
    playing.play(3)
    browser.open(f"{address}#run={NAME}")
    episode = "waggleViewer().tracks[0].episode"
    assert browser.run(f"{episode}.length") == 3
    assert "live" in browser.run("document.querySelector('.status').innerText")
    playing.play(5)
    browser.until(f"{episode}.length === 8")
    browser.until("waggleViewer().round === 7 && !waggleViewer().playing")
    browser.run("waggleViewer().tracks[0].go(2, 3)")
    browser.until("document.querySelector('.decision h4')")
    playing.play(100)
    browser.until(f"{episode}.length === {playing.played}")
    assert browser.run("waggleViewer().round") == 2, "who looks back is not moved on"
    playing.end()
    browser.until("waggleViewer().tracks?.[0].episode.live === false")
    browser.until("document.querySelector('.decision').innerText.includes('Agent 3 in round 2')")
    assert "live" not in browser.run("document.querySelector('.status').innerText")


def test_what_grows_is_what_the_record_says(playing: Playing, tmp_path: Path) -> None:
    client = TestClient(app(Library(tmp_path, empty=True)), base_url="http://127.0.0.1:8010")

    def asked(path: str, **parameters: object) -> object:
        return client.get(path, params={"run": NAME, **parameters}).json()  # type: ignore[dict-item]

    playing.play(4)
    first = asked("/api/episode")
    playing.play(100)
    rest = asked("/api/more", start=4)
    decided = asked("/api/update", round=9, agent=2)
    playing.end()
    whole = asked("/api/episode")
    assert isinstance(first, dict) and isinstance(rest, dict) and isinstance(whole, dict)
    for name in ("rounds", "claims", "aliases", "actions"):
        assert first[name] + rest[name] == whole[name], name
    assert first["scene"] == whole["scene"]
    assert asked("/api/more", start=4) == {"live": False}
    assert asked("/api/update", round=9, agent=2) == decided


def test_a_map_grows_with_its_rounds(runs: Path, tmp_path: Path) -> None:
    record = read(runs / "maps" / "pursuit.jsonl.gz")
    started = Playing(record, tmp_path)
    started.play(2)
    found = growing.LiveRecord(live_path(started.path))
    told = found.document()
    assert told["scene"]["kind"] == "grid" and len(told["scene"]["maps"]) == 2
    with open(live_path(started.path), "ab") as file:  # a map whose round is still written
        file.write(msgspec.json.encode(live.place_of(open_world(record.header))) + b"\n" + b'{"ki')
    more = found.since(2)
    assert more is not None and more["rounds"] == [] and more["scene"]["maps"] == []


def test_an_episode_that_starts_again_is_read_again(tmp_path: Path, runs: Path) -> None:
    record, following = read(runs / "beacon.jsonl.gz"), growing.LiveRecords()
    started = Playing(record, tmp_path)
    started.play(6)
    path = live_path(started.path)
    assert following.ask(path, lambda found: len(found.document()["rounds"])) == 6
    again = Playing(record, tmp_path)
    again.play(1)
    assert following.ask(path, lambda found: found.since(6)) is None
    assert following.ask(path, lambda found: len(found.document()["rounds"])) == 1
    again.end()
    assert following.ask(path, growing.LiveRecord.document) is None


def test_what_is_held_is_bounded(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, following = read(runs / "beacon.jsonl.gz"), growing.LiveRecords()
    for name in "abc":
        (tmp_path / name).mkdir()
        started = Playing(record, tmp_path / name)
        started.play(2)
        following.ask(live_path(started.path), growing.LiveRecord.document)
    assert len(following._held) == growing.MAX_HELD
    monkeypatch.setattr(live, "MAX_BYTES", 200_000)
    started = Playing(record, tmp_path)
    started.play(100)
    assert live_path(started.path).stat().st_size <= 200_000


def test_a_full_disk_does_not_end_the_episode(runs: Path, tmp_path: Path) -> None:
    record = read(runs / "beacon.jsonl.gz")
    (tmp_path / "no").write_text("a file where a folder should be")
    started = Playing(record, tmp_path / "no" / "folder")
    started.play(3)
    assert started.played == 3


def test_a_round_that_cannot_be_read_is_one_line(runs: Path, tmp_path: Path) -> None:
    with gzip.open(runs / "beacon.jsonl.gz") as lines:
        header, first = lines.readline(), msgspec.json.decode(lines.readline())
    first["updates"][0]["stage"] = "nonsense"
    path = tmp_path / "growing.partial"
    path.write_bytes(header + msgspec.json.encode(first) + b"\n")
    growing = LiveRecord(path)
    assert len(growing.document()["rounds"]) == 1
    with pytest.raises(RecordError, match="wait for its end"):
        growing.update(0, 0)


def test_claims_that_draw_one_alias_are_told_apart_in_later_rounds(runs: Path) -> None:
    header = read(runs / "beacon.jsonl.gz").header
    both = ["c1605", "c1850"]  # of the seed of this record, and without salt
    assert len({Aliases(header.case.seed, header.salt).alias(claim) for claim in both}) == 1
    made = Document("the episode", header)
    for round, claim in enumerate(both):
        update = {"node": 0, "decision": {"task_action": "WAIT", "deposits": []}, "claim": claim}
        row = {"round": round, "updates": [update], "score": {}, "attempted": 0, "delivered": 0}
        made.add(msgspec.convert(row | {"kind": "round"}, Round))
    assert made.since(1)["claims"] == both[1:]
    assert made.since(1)["aliases"] == made.since(0)["aliases"][2:]
    assert len(set(made.since(0)["aliases"])) == 3
