"""A server among clients that drip, leave, come in crowds, or ask under another name."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the serve extra")
pytest.importorskip("uvicorn", reason="needs the serve extra")

import uvicorn

from tests.hostile.tally import Tally
from tests.waiting import LONGEST, until
from waggle import plugins
from waggle.compat import limits
from waggle.compat.meters import Meters
from waggle.compat.openai_server import app

MOST = 40
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Server:
    """A server of the heuristic on loopback."""

    def __init__(self, **options: Any) -> None:
        self.meters = Meters()
        law = app(plugins.get_law("heuristic"), meters=self.meters, **options)
        config = uvicorn.Config(
            law, log_level="error", ws="none", http=limits.limited(self.meters, MOST)
        )
        self._server = uvicorn.Server(config)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        until(lambda: self._server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(LONGEST)
        assert not self._thread.is_alive(), "the server did not end"
        self._socket.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LONGEST)

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=LONGEST) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut nobody off who is merely slow, in tests of something else."""
    monkeypatch.setattr(limits, "HEADER_SECONDS", 10 * LONGEST)
    monkeypatch.setattr(limits, "BODY_SECONDS", 10 * LONGEST)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(hosts=limits.names_of("127.0.0.1"))
    yield made
    made.stop()


def ended(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    found = b""
    while block := _read(client):
        found += block
    return found


def _read(client: socket.socket) -> bytes:
    try:
        return client.recv(4096)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("said", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\nA: b"])
def test_headers_that_do_not_come_end_the_connection(
    said: bytes, server: Server, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.3)
    with closing(server.connect()) as client:
        with suppress(ConnectionError):  # who is slow is cut off before
            client.sendall(said)
        assert ended(client) == b""
    assert server.meters.dropped["headers"] == 1
    tally.note("Serve: headers that drip", "closed")


def test_an_idle_connection_ends(
    server: Server, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    with closing(server.connect()) as client:
        client.sendall(HEALTH)
        until(lambda: server.meters.answers.total() == 1)  # and may wait long for a second request
        monkeypatch.setattr(limits, "HEADER_SECONDS", 0.3)
        client.sendall(HEALTH)
        assert ended(client).count(b"HTTP/1.1 200") == 2
    tally.note("Serve: a connection that idles", "closed")


HALF = (
    b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"messages'
)


def test_a_body_that_does_not_come_is_answered_408(
    server: Server, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.3)
    with closing(server.connect()) as client:
        client.sendall(HALF)
        assert ended(client).startswith(b"HTTP/1.1 408")
    assert server.meters.dropped["body"] == 1
    tally.note("Serve: a body that drips", "408, closed")


def test_answers_that_nobody_reads_end_the_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr(limits, "READ_SECONDS", 0.3)
    with closing(server.connect()) as client:
        with suppress(ConnectionError):  # cut off while it sends, where buffers are small
            client.sendall(HEALTH.replace(b"health", b"metrics") * 2000)
        until(lambda: server.meters.dropped["unread"] == 1)
        until(lambda: not server.meters.gauges["connections"][1]())
    assert server.get("/health")[0] == 200
    tally.note("Serve: answers that nobody reads", "closed")


def test_a_client_that_goes_away_leaves_no_trace(
    server: Server, capfd: pytest.CaptureFixture[str], tally: Tally
) -> None:
    for _ in range(20):
        with closing(server.connect()) as client:
            client.sendall(HALF)
    until(lambda: server.meters.dropped["gone"] == 20)
    assert server.get("/health")[0] == 200
    assert capfd.readouterr().err == ""
    tally.note("Serve: a client that goes away", "no line of log", 20)


def test_a_crowd_is_turned_away_and_the_rest_is_served(server: Server, tally: Tally) -> None:
    with ExitStack() as stack:
        crowd = [stack.enter_context(closing(server.connect())) for _ in range(MOST + 20)]
        for client in crowd[MOST:]:
            assert ended(client) == b""
        for client in crowd[:3]:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert ended(client).startswith(b"HTTP/1.1 200")
    assert server.meters.dropped["crowd"] == 20
    tally.note("Serve: more connections than allowed", "turned away", 20)


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("localhost:9", 200), ("[::1]:9", 200), ("", 421)],
)
def test_another_name_is_refused(host: str, status: int, server: Server, tally: Tally) -> None:
    assert server.get("/health", Host=host)[0] == status
    tally.note("Serve: asked under a name", "421" if status == 421 else "answered")


def test_a_token_is_asked_for_where_others_can_reach_it(tally: Tally) -> None:
    assert limits.token_for("127.0.0.1", None) is None
    assert limits.token_for("127.0.0.1", "own") == "own"
    made = limits.token_for("0.0.0.0", None)
    assert made is not None and len(made) >= 32 and limits.names_of("0.0.0.0") is None
    server = Server(token=made)
    try:
        tries: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer x"},
            {"Authorization": "Bearer é"},
            {"X-Api-Key": ""},
        ]
        assert {server.get("/v1/models", **said)[0] for said in tries} == {401}
        for right in ({"Authorization": f"Bearer {made}"}, {"X-Api-Key": made}):
            assert server.get("/v1/models", **right)[0] == 200
        assert server.get("/metrics")[0] == 401 and server.get("/health")[0] == 200
    finally:
        server.stop()
    tally.note("Serve: a wrong token", "401", len(tries))


def test_prometheus_reads_the_counts(server: Server) -> None:
    server.get("/v1/models")
    server.get("/nowhere\n")
    status, text = server.get("/metrics")
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    assert status == 200 and text.endswith("\n")
    assert values['waggle_requests_total{route="/v1/models",status="200"}'] == 1
    assert values["waggle_request_seconds_count"] == sum(
        count for name, count in values.items() if name.startswith("waggle_requests_total")
    )
    assert (
        values['waggle_request_seconds_bucket{le="+Inf"}'] == values["waggle_request_seconds_count"]
    )
    assert values["waggle_connections"] >= 1 and values["waggle_queue"] == 0
    json.dumps(values)
