"""What the page gets: the episode of a record, its decisions, the list; and what it is refused."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.view.conftest import MARKUP, write
from waggle.api.draw import commitments
from waggle.compat import limits
from waggle.core.errors import ConfigError, RecordError
from waggle.evaluate.episodes import thin
from waggle.runtime.records import read
from waggle.view import decisions, episode, library
from waggle.view.app import app
from waggle.view.export import export
from waggle.view.library import Library


@pytest.fixture(scope="module")
def client(runs: Path) -> TestClient:
    return TestClient(app(Library(runs)), base_url="http://127.0.0.1:8010")


def asked(client: TestClient, path: str, **parameters: object) -> Any:
    answer = client.get(path, params={key: str(value) for key, value in parameters.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_changes_add_up_to_what_everybody_holds(runs: Path) -> None:
    record, shown = read(runs / "beacon.jsonl.gz"), episode.document(runs / "beacon.jsonl.gz")
    now = [-1] * record.header.case.n
    for round, held in enumerate(zip(*commitments(record), strict=True)):
        for agent, word in shown["rounds"][round]["held"]:
            now[agent] = word
        assert [None if w < 0 else shown["claims"][w] for w in now] == list(held)
    arrived = sum(len(entry["writes"]) for entry in shown["rounds"])
    assert arrived == sum(entry.attempted for entry in record.rounds)
    assert [r for r, entry in enumerate(shown["rounds"]) if "shock" in entry] == [16]


def test_a_trace_of_a_view_is_a_claim_of_the_episode(runs: Path) -> None:
    path = runs / "beacon.jsonl.gz"
    shown = episode.document(path)
    aliases = shown["aliases"]
    contacts = {(agent, handle): to for agent, handle, to in shown["handles"]}
    sent = {(to, number, by) for r in shown["rounds"][:5] for by, to, number, _ in r["writes"]}
    known = 0
    for update in decisions.updates(path, 5):
        for _, alias, handle in update["traces"]:
            sender = contacts.get((update["agent"], handle))
            known += sender is not None
            assert sender is None or (update["agent"], aliases.index(alias), sender) in sent
    assert known > 5, "the contact behind a handle sent the trace that is seen there"


def test_a_map_has_a_free_cell_for_every_agent(runs: Path) -> None:
    scene = episode.document(runs / "maps" / "pursuit.jsonl.gz")["scene"]
    assert scene["kind"] == "grid" and len(scene["maps"]) == len(scene["cells"]) == 12
    for rows, cells in zip(scene["maps"], scene["cells"], strict=True):
        assert {rows[i][j] for i, j in cells} <= set("Aa"), "agents stand where the map shows them"


def test_a_large_file_is_streamed_to_the_same_document(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runs / "beacon.jsonl.gz"
    held, decided = episode.document(path), decisions.updates(path, 7, 3)
    monkeypatch.setattr(decisions, "MAX_HELD", 0)
    streamed = episode.document(path)
    assert decisions.updates(path, 7, 3) == decided
    for scene in (held.pop("scene"), streamed.pop("scene")):
        assert scene["kind"] == "graph" and scene["edges"]
    assert streamed == held


def test_a_record_of_measures_says_that_it_has_no_views(runs: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "thin.jsonl.gz", thin(read(runs / "beacon.jsonl.gz")))
    assert decisions.updates(path, 3, 2)[0]["saw"] is None
    assert episode.document(path)["rounds"]


def test_the_list_names_every_record_and_says_what_is_wrong(client: TestClient) -> None:
    found = asked(client, "/api/runs")
    rows = {row["run"]: row for row in found["runs"]}
    assert found["total"] == len(rows) == 4
    assert rows["beacon.jsonl.gz"]["score"] == 1.0 and rows["beacon.jsonl.gz"]["n"] == 12
    assert rows["maps/pursuit.jsonl.gz"]["task"] == "swarmbench/pursuit"
    assert "cut" in rows["cut.jsonl.gz"]["error"]


def test_pages_of_the_list_are_bounded(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "PAGE", 3)
    shelf = Library(runs)
    assert [len(shelf.page(start)["runs"]) for start in (0, 3, 6)] == [3, 1, 0]
    monkeypatch.setattr(library, "MAX_RUNS", 2)
    assert len(Library(runs).names) == 2


@pytest.mark.parametrize(
    "run", ["../beacon.jsonl.gz", "/etc/passwd", "..%2f..%2fetc/passwd", "", "beacon\x00", "maps"]
)
def test_nothing_outside_the_folder_is_read(client: TestClient, run: str) -> None:
    for path in ("/api/episode", "/api/update"):
        answer = client.get(path, params={"run": run})
        assert answer.status_code == 400 and "no such record" in answer.json()["error"]


def test_a_link_out_of_the_folder_is_refused(runs: Path, tmp_path: Path) -> None:
    os.symlink(runs / "beacon.jsonl.gz", tmp_path / "link.jsonl.gz")
    shelf = Library(tmp_path)
    with pytest.raises(RecordError, match="out of its folder"):
        shelf.path("link.jsonl.gz")
    assert "out of its folder" in shelf.page(0)["runs"][0]["error"]


def test_static_files_are_a_fixed_set(client: TestClient) -> None:
    page = client.get("/")
    assert (
        page.status_code == 200 and "script-src 'self'" in page.headers["content-security-policy"]
    )
    assert client.get("/main.js").headers["content-type"].startswith("text/javascript")
    for path in ("/..%2fapp.py", "/app.py", "/static/main.js", "/%2e%2e/app.py"):
        assert client.get(path).status_code == 404


def test_another_name_of_the_machine_is_refused(client: TestClient) -> None:
    assert client.get("/api/runs", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("given", ["-1", "x", "1e3", "9" * 12, "²"])
def test_a_round_is_a_number(client: TestClient, given: str) -> None:
    answer = client.get("/api/update", params={"run": "beacon.jsonl.gz", "round": given})
    assert answer.status_code == 400 and "must be a number" in answer.json()["error"]


def test_what_is_not_there_is_one_line(client: TestClient) -> None:
    answer = client.get("/api/update", params={"run": "beacon.jsonl.gz", "round": "999"})
    assert (answer.status_code, answer.json()) == (
        400, {"error": "there is no round 999 in this record"},
    )  # fmt: skip
    assert asked(client, "/api/update", run="beacon.jsonl.gz", round=1, agent=999) is None


def test_a_record_may_take_longer_than_a_body(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 1.0)  # as long as a busy machine may take

    def slow(path: Path) -> dict[str, bool]:
        time.sleep(1.2)
        return {"slow": True}

    monkeypatch.setattr(episode, "document", slow)
    assert asked(client, "/api/episode", run="beacon.jsonl.gz") == {"slow": True}


def test_a_cut_record_and_a_large_one_are_one_line(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, runs: Path
) -> None:
    answer = client.get("/api/episode", params={"run": "cut.jsonl.gz"})
    assert answer.status_code == 400 and "cut" in answer.json()["error"]
    assert str(runs) not in answer.text
    monkeypatch.setattr(decisions, "MAX_FILE", 10)
    answer = client.get("/api/episode", params={"run": "beacon.jsonl.gz"})
    assert answer.status_code == 400 and "shows records up to" in answer.json()["error"]


def test_a_header_that_claims_a_crowd_is_refused(runs: Path, tmp_path: Path) -> None:
    record = read(runs / "beacon.jsonl.gz")
    case = msgspec.structs.replace(record.header.case, n=10**12)
    header = msgspec.structs.replace(record.header, case=case)
    path = write(tmp_path / "many.jsonl.gz", msgspec.structs.replace(record, header=header))
    with pytest.raises(RecordError, match="agents"):
        episode.document(path)


def test_agents_that_are_not_there_are_refused(runs: Path, tmp_path: Path) -> None:
    record = read(runs / "beacon.jsonl.gz")
    case = msgspec.structs.replace(record.header.case, n=4)
    header = msgspec.structs.replace(record.header, case=case)
    path = write(tmp_path / "few.jsonl.gz", msgspec.structs.replace(record, header=header))
    with pytest.raises(RecordError, match="names agent"):
        episode.document(path)


def test_markup_is_passed_on_as_text(client: TestClient) -> None:
    shown = asked(client, "/api/episode", run="markup.jsonl.gz")
    assert MARKUP[:100] in shown["claims"][1] and shown["rounds"][0]["shock"]["nodes"] == [0]
    update = asked(client, "/api/update", run="markup.jsonl.gz", round=0, agent=0)
    assert MARKUP in update["raw"][0] and update["codes"][0][0].startswith("<img")


@pytest.mark.parametrize("view", [b"3", b"[]", b'{"private":1}', b'{"private":{}}'])
def test_a_view_that_is_none_says_so(runs: Path, tmp_path: Path, view: bytes) -> None:
    record = read(runs / "beacon.jsonl.gz")
    update = msgspec.structs.replace(record.rounds[0].updates[0], view=msgspec.Raw(view))
    first = msgspec.structs.replace(record.rounds[0], updates=(update,))
    rounds = (first, *record.rounds[1:])
    path = write(tmp_path / "v.jsonl.gz", msgspec.structs.replace(record, rounds=rounds))
    assert decisions.updates(path, 0)[0]["saw"] == [("view", "cannot be read")]


def test_an_empty_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no record"):
        Library(tmp_path)
    with pytest.raises(ConfigError, match="there is no"):
        Library(tmp_path / "none")


def test_a_name_that_is_no_text_is_one_row(runs: Path, tmp_path: Path) -> None:
    record = (runs / "beacon.jsonl.gz").read_bytes()
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl.gz")).write_bytes(record)
    except OSError:
        pytest.skip("this file system has no such names")
    (tmp_path / "sound.jsonl.gz").write_bytes(record)
    client = TestClient(app(Library(tmp_path)), base_url="http://127.0.0.1")
    rows = {row["run"]: row for row in asked(client, "/api/runs")["runs"]}
    assert "rename it" in rows["\ufffd.jsonl.gz"]["error"]
    assert rows["sound.jsonl.gz"]["n"] == 12


def test_the_current_folder_takes_an_export_where_it_is_empty(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert export(Library(runs / "beacon.jsonl.gz"), Path()) == 1
    assert (tmp_path / "index.html").is_file()


def test_the_name_of_a_machine_is_the_same_in_any_letters(client: TestClient) -> None:
    assert client.get("/api/runs", headers={"host": "LocalHost:8010"}).status_code == 200
    assert limits.names_of("Box.Example") == frozenset({"box.example"})


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl.gz")
    rows: list[Any] = []
    look = threading.Thread(
        target=lambda: rows.extend(Library(tmp_path).page(0)["runs"]), daemon=True
    )
    look.start()
    look.join(60)
    assert rows and "is no file" in rows[0]["error"]
