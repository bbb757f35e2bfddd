"""Episodes as OpenTelemetry spans: one trace, whole, after the conventions for generative AI."""

from __future__ import annotations

import json
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from waggle import plugins
from waggle.cli.main import main
from waggle.compat import telemetry
from waggle.core.protocols import Case
from waggle.runtime.sync import play
from waggle.workers.hire import hire


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(telemetry.EXPORTERS, "jsonl")
    monkeypatch.setenv(telemetry.FILE, str(tmp_path / "spans.jsonl"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spans(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "spans.jsonl").read_text().splitlines()]


def kinds(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(span["name"].split()[0] for span in found)


def test_a_run_is_one_trace_of_rounds_and_updates(place: Path) -> None:
    assert main(["run", "beacon", "-n", "4", "--rounds", "3", "--shock", "--otel"]) == 0
    found = spans(place)
    assert kinds(found) == {"invoke_workflow": 1, "round": 3, "invoke_agent": 12}
    assert len({span["context"]["trace_id"] for span in found}) == 1
    by_id = {span["context"]["span_id"]: span for span in found}
    parent = {"round": "invoke_workflow", "invoke_agent": "round"}
    for span in found:
        kind = span["name"].split()[0]
        above = by_id.get(span["parent_id"])
        assert (above["name"].split()[0] if above else None) == parent.get(kind)
        if above:
            assert above["start_time"] <= span["start_time"] <= span["end_time"]
            assert span["end_time"] <= above["end_time"]
    root = next(span for span in found if span["parent_id"] is None)
    assert root["attributes"]["gen_ai.workflow.name"] == "beacon"
    assert root["resource"]["attributes"]["service.name"] == "waggle"
    names = [event["attributes"]["gen_ai.evaluation.name"] for event in root["events"]]
    assert "score" in names
    update = next(span for span in found if span["name"] == "invoke_agent heuristic")
    assert update["attributes"]["gen_ai.operation.name"] == "invoke_agent"
    assert not any("messages" in key for key in update["attributes"]), "content is not sent unasked"


def test_content_is_sent_where_it_is_asked_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(telemetry.CONTENT, "true")
    assert main(["run", "beacon", "-n", "2", "--rounds", "1", "--otel"]) == 0
    for span in spans(place):
        if span["name"].startswith("invoke_agent"):
            (said,) = json.loads(span["attributes"]["gen_ai.output.messages"])
            assert said["role"] == "assistant" and "task_action" in said["parts"][0]["content"]
            assert "private" in span["attributes"]["gen_ai.input.messages"]


def test_calls_of_private_workers_are_spans_and_many_spans_are_all_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "FLUSHED", 3)
    case = Case("silo", "I-01", 4, 10_000, 2)
    world, law = plugins.get_substrate("silo").open(case), plugins.get_law("heuristic")
    with telemetry.spans() as sink:
        footer = play(world, law, case, staff=hire("native"), sinks=[sink])
    found = kinds(spans(place))
    assert found["execute_tool"] == footer.counters["worker.calls"] > 0
    assert found["invoke_agent"] == footer.counters["updates"]


def test_an_episode_that_breaks_off_is_an_error(place: Path) -> None:
    class Broken:
        name = "broken"

        def decide(self, requests: object) -> Any:
            raise ValueError("no wings")

    case = Case("beacon", "beacon", 4, 10_000, 2)
    with pytest.raises(ValueError, match="no wings"), telemetry.spans() as sink:
        play(plugins.get_substrate("beacon").open(case), Broken(), case, sinks=[sink])
    (root,) = spans(place)
    assert root["status"] == {"status_code": "ERROR", "description": "no wings"}


def test_what_is_not_there_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(telemetry.EXPORTERS, "jsonl,pigeon")
    assert main(["run", "beacon", "--otel"]) == 2
    assert "no span exporter 'pigeon'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert main(["run", "beacon", "--otel"]) == 2
    assert "waggle-swarm[otel]" in capsys.readouterr().err


def test_spans_reach_a_collector(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.delenv(telemetry.EXPORTERS)
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        assert main(["run", "beacon", "-n", "2", "--rounds", "1", "--otel"]) == 0
        server.shutdown()
    assert {path for path, _ in got} == {"/v1/traces"}
    sent = b"".join(body for _, body in got)
    assert b"invoke_workflow beacon" in sent and sent.count(b"invoke_agent heuristic") == 2
