"""A worker behind a real server of the chat protocol, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from waggle.cli.main import main
from waggle.core.errors import ConfigError, EndpointError
from waggle.core.worker import Work
from waggle.evaluate.failures import why_failed
from waggle.plugins import get_law
from waggle.workers.chat import ChatWorker, answer_of, prompt
from waggle.workers.hire import hire, worker_options

pytest.importorskip("httpx2", reason="needs the chat extra")
WORK = Work("t", "Add up.", {"piece": [0, "[1,2]"]}, {"pieces": []}, ("UP", "DOWN"))


class Server:
    """Adds up the numbers of a question, until it is told to fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lock = threading.Lock()
        self.fails_after = 10**9
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer.lock:  # questions come at once
                    outer.asked.append(body["messages"][0]["content"])
                    failed = len(outer.asked) > outer.fails_after
                text = json.dumps({"answer": "STAY"})
                reply = {
                    "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 50, "completion_tokens": 5},
                }
                data = json.dumps({"error": {"message": "no"}} if failed else reply).encode()
                self.send_response(401 if failed else 200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def command(server: Server, out: Path, *more: str) -> list[str]:
    words = ["run", "swarmbench/pursuit", "-n", "4", "--rounds", "5", "--out", str(out), "--json"]
    return [*words, "--worker", "chat", "--worker.base-url", server.url, *more]


def test_a_swarm_asks_an_endpoint(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ("--worker.cache", str(tmp_path / "answers.sqlite"))
    assert main(command(server, tmp_path, *cache, "--worker.price-input", "2")) == 0
    told = json.loads(capsys.readouterr().out)
    count = told["counters"]
    assert count["worker.calls"] == 20 and count["worker.tokens.input"] == 20 * 50
    assert count["worker.tokens.output"] == 100 and count["worker.failures"] == 0
    assert 0 < len(server.asked) <= 20 and '"window"' in server.asked[0]
    before = len(server.asked)
    assert main(command(server, tmp_path, *cache, "--worker.price-input", "2")) == 0
    again = json.loads(capsys.readouterr().out)["counters"]
    assert {k: v for k, v in again.items() if k != "worker.cost"} == {
        k: v for k, v in count.items() if k != "worker.cost"
    }
    assert len(server.asked) == before, "all answers were kept"


def test_a_dead_endpoint_is_one_line_and_a_late_one_is_a_failed_episode(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fails_after = 10
    assert main(command(server, tmp_path)) == 1
    found = capsys.readouterr()
    assert "10 of 20 calls of private workers failed" in found.err
    assert json.loads(found.out)["failed"]
    server.fails_after = 0
    assert main(command(server, tmp_path, "--worker.model", "other")) == 2
    told = capsys.readouterr().err
    assert "401 Unauthorized: no" in told and "--law." not in told


def test_the_prompt_is_a_template(tmp_path: Path) -> None:
    text = prompt("{goal}|{actions}|{state}|{delivered}|{other}", WORK)
    assert text.startswith("Add up.|Answer with one of: UP, DOWN\n|")
    assert text.endswith('|{"piece":[0,"[1,2]"]}|{"pieces":[]}|{other}')
    path = tmp_path / "mine.txt"
    path.write_text("Only {state}", encoding="utf-8")
    assert ChatWorker(template=str(path))._template == "Only {state}"
    with pytest.raises(ConfigError, match="cannot read the template"):
        ChatWorker(template=str(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": 3}', 3),
        ('```json\n{"answer": [1, 2]}\n```', [1, 2]),
        (" UP \n", "UP"),
        ("42", 42),
        ('{"other": 1}', {"other": 1}),
        ("  ", None),
        ("{half", "{half"),
        ("\ud800", "\ud800"),
    ],
)
def test_the_answer_in_a_reply(text: str, answer: Any) -> None:
    assert answer_of(text) == answer


def test_it_has_the_options_of_the_law() -> None:
    known = worker_options("chat")
    assert {"template", "base_url", "model", "rate", "extra", "api"} <= set(known)
    assert "cache" not in known and "seed" not in known
    with pytest.raises(ConfigError, match="no option 'seed'"):
        hire("chat", seed=True)
    with pytest.raises(ConfigError, match="begin it with http"):
        hire("chat", base_url="nowhere")


def test_the_first_question_must_be_answered() -> None:
    worker = ChatWorker(base_url="http://127.0.0.1:9/v1", retries=0, timeout=60.0)
    with pytest.raises(EndpointError, match="did not answer the first question"):
        worker(WORK)


def test_refused_answers_do_not_make_an_episode_fail() -> None:
    law = get_law("expert")
    assert why_failed(law, {"worker.calls": 10, "worker.refused": 10}) == ""
    assert "3 of 10" in why_failed(law, {"worker.calls": 10, "worker.failures": 3})
