"""Commands against hostile endpoints: what is printed, what the row says, what repairs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="needs the chat extra")

from tests.laws_llm.conftest import Hurried
from waggle import plugins
from waggle.cli.main import main
from waggle.evaluate.rows import read_rows
from waggle.runtime.records import read

KEY = "sk-very-secret"
FAULTS = {
    "locked": "401 Unauthorized: your key is [key]",
    "lukewarm": "400 Bad Request: 'temperature' does not support 0 here",
    "busy": "429 Too Many Requests: slow down (it asks to wait 1 s)",
    "broken": "500 Internal Server Error: oops",
    "slow": "no answer within 20 s",
    "dawdle": "no answer within 20 s",
    "half": "the answer is no JSON",
    "megabytes": "the answer is over 4 MiB long",
    "elsewhere": "307 Temporary Redirect: it points to http://127.0.0.1:",
    "hangup": "RemoteProtocolError",
}
"""What a server does, and what is said about it."""
SECONDS = {"slow": 0.5, "dawdle": 0.5}
"""What is left of the 20 s where a server hangs."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def endpoint(unruly: Any) -> Any:
    """A server, and another one to which it may point."""
    other = unruly("good")

    def start(*script: str) -> Any:
        server = unruly(*script)
        server.other, server.elsewhere = other, f"{other.url}/chat/completions"
        return server

    return start


class Run:
    """A recipe of two episodes of one endpoint and two of a rule, and its run directory."""

    def __init__(self, place: Path, url: str, **more: Any) -> None:
        options = {"base_url": url, "timeout": 20, "retries": 0, "patience": 4,
                   "extra": {"temperature": 0}, **more}  # fmt: skip
        written = ", ".join(
            f"{k} = {json.dumps(v).replace(': ', ' = ')}" for k, v in options.items()
        )
        self.recipe, self.folder = place / "small.toml", place / "run"
        self.recipe.write_text(
            'title = "Endpoints"\ntables = ["scores", "inference"]\n'
            f'[methods.asked]\nlaw = "chat"\noptions = {{ {written} }}\n'
            '[methods.rule]\nlaw = "heuristic"\n'
            '[[blocks]]\nmethods = ["asked", "rule"]\ntasks = ["beacon"]\nn = [3]\nrounds = [2]\n'
            "seeds = { start = 10000, count = 2 }\n"
        )

    def play(self, *more: str) -> int:
        words = ("eval", str(self.recipe), "--out", str(self.folder), "--executor", "inline")
        return main([*words, *more])

    @property
    def asked(self) -> list[Any]:
        return [row for row in read_rows(self.folder) if row.method == "asked"]

    def written(self) -> bytes:
        return b"".join(p.read_bytes() for p in self.folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_dead_endpoint_is_no_result_and_a_second_call_repairs_it(
    endpoint: Any, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], hurried: Hurried
) -> None:
    server = endpoint(fault)
    run = Run(tmp_path, server.url)
    with hurried(SECONDS.get(fault, 20)):
        assert run.play() == 1
    shown = capsys.readouterr()
    assert "2 episodes played, 0 known, 2 failed" in shown.out
    assert shown.err.count("failed: asked beacon N=3 seed 1000") == 2
    assert FAULTS[fault] in shown.err and "; " in shown.err
    assert [(row.scores, FAULTS[fault] in row.error) for row in run.asked] == [({}, True)] * 2
    assert server.other.seen == [], "a redirect was followed"
    assert main(["report", str(run.folder)]) == 0
    shown_report = capsys.readouterr().out
    assert "episodes: 2, failed: 2" in shown_report and FAULTS[fault] in shown_report
    assert KEY not in shown.err + shown.out + shown_report and KEY.encode() not in run.written()
    server.script = ["good"]
    assert run.play() == 0
    assert "2 episodes played, 2 known, 0 failed" in capsys.readouterr().out
    assert all(row.scores and not row.error for row in run.asked)


@pytest.mark.parametrize("fault", ["locked", "lukewarm", "slow", "elsewhere"])
def test_a_single_run_says_the_servers_sentence(
    endpoint: Any, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], hurried: Hurried
) -> None:
    server, words = endpoint(fault), ["run", "beacon", "-n", "3", "--rounds", "2", "--law", "chat"]
    words += ["--law.timeout", "20", "--law.retries", "0", "--law.extra", '{"temperature": 0}']
    words += ["--law.base-url", server.url, "--out", str(tmp_path)]
    with hurried(SECONDS.get(fault, 20)):
        assert main(words) == 2
    said = capsys.readouterr().err
    assert FAULTS[fault] in said and said.count("\n") == 1 and KEY not in said
    assert list(tmp_path.iterdir()) == []
    server.script = ["good"]
    assert main(words) == 0


def test_a_death_in_mid_episode_fails_the_episodes_it_spoiled(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = endpoint("good", "good", "good", "hangup")
    run = Run(tmp_path, server.url, price_input=1000)
    assert run.play("--keep") == 1
    shown = capsys.readouterr()
    assert "2 failed" in shown.out and "over the limit of 20%" in shown.err
    assert {row.counters["calls"] for row in run.asked} == {6}
    assert sum(row.counters["failures"] for row in run.asked) == 12 - 3
    assert sum(row.counters.get("cost", 0) for row in run.asked) == 3 * 7 * 1000
    assert all("the last: RemoteProtocolError" in row.error for row in run.asked)
    assert main(["report", str(run.folder), "--records"]) == 0
    report = capsys.readouterr().out
    assert "failed: 2" in report and "asked 9 of 12, 0 of them in episodes that count" in report
    assert main(["archive", str(run.folder), str(tmp_path / "packed")]) == 0
    assert main(["report", str(tmp_path / "packed")]) == 0
    assert "failed: 2" in capsys.readouterr().out
    server.script = ["good"]
    assert run.play("--keep") == 0


def test_a_single_run_of_a_dying_endpoint_fails_and_keeps_its_record(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "beacon", "-n", "3", "--rounds", "2", "--law", "chat", "--out", str(tmp_path)]
    server = endpoint("good", "hangup")
    words += ["--law.retries", "0", "--law.base-url", server.url]
    assert main([*words, "--json"]) == 1
    shown = capsys.readouterr()
    assert "5 of 6 calls failed" in json.loads(shown.out)["failed"] and "no result" in shown.err
    (path,) = tmp_path.glob("*.jsonl.gz")
    assert read(path).footer.counters["failures"] == 5
    server.script = ["good", "hangup"]
    assert main([*words, "--law.max-failed", "0.9"]) == 0


def test_failures_under_the_limit_count_and_are_reported(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = endpoint("good", "broken", "good")
    run = Run(tmp_path, server.url, price_output=2)
    assert run.play("--keep") == 0
    assert sum(row.counters.get("failures", 0) for row in run.asked) == 1
    capsys.readouterr()
    assert main(["report", str(run.folder)]) == 0
    shown = capsys.readouterr().out
    assert "asked 1 of 12, 1 of them in episodes that count" in shown
    assert "failed calls/ep." in shown and "cost/ep." in shown


def test_an_echoed_key_is_in_no_file_of_a_run(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, endpoint("parrot").url, cache=str(tmp_path / "run" / "replies.sqlite3"))
    assert run.play("--keep") == 0
    (path, *_) = (run.folder / "records").glob("asked*")
    texts = [raw for entry in read(path).rounds for u in entry.updates for raw in u.raw]
    assert texts and all("[key]" in str(raw) for raw in texts)
    shown = capsys.readouterr()
    records = b"".join(repr(read(p)).encode() for p in (run.folder / "records").glob("*"))
    assert KEY.encode() not in run.written() + records and KEY not in shown.out + shown.err


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_either_protocol_plays_the_law_that_is_served(
    serve: Any, api: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`waggle serve` is a real server of both protocols."""
    url = serve(plugins.get_law("heuristic"))
    run = Run(tmp_path, url, api=api, timeout=20)
    assert run.play() == 0
    rows = {(row.method, row.seed): row.scores for row in read_rows(run.folder)}
    assert all(rows["asked", seed] == rows["rule", seed] for seed in (10_000, 10_001))
    assert {row.counters["calls"] for row in run.asked} == {6}


def test_a_full_cache_needs_no_server(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = endpoint("good")
    run = Run(tmp_path, server.url, cache=str(tmp_path / "replies.sqlite3"))
    assert run.play() == 0
    server.script = ["hangup"]
    assert run.play("--again", "--methods", "asked") == 0
    assert "2 episodes played" in capsys.readouterr().out
    assert {row.counters.get("calls", 0) for row in run.asked} == {0}


def test_a_dead_endpoint_takes_the_place_of_no_result(
    endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = endpoint("good")
    run = Run(tmp_path, server.url)
    assert run.play() == 0
    before = run.asked
    server.script = ["hangup"]
    assert run.play("--again") == 1
    assert "the earlier rows stay" in capsys.readouterr().err and run.asked == before
    server.script = ["good"]
    assert run.play("--again") == 0
    assert "2 episodes played, 2 known, 0 failed" in capsys.readouterr().out
    assert not (run.folder / "again").exists() and run.asked == before
