"""Real views from played episodes, a served law, and an endpoint that misbehaves on demand."""

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import LONGEST, until
from waggle import plugins
from waggle.core.protocols import Case, Decode, Request
from waggle.core.schema import View
from waggle.runtime.sync import Engine


class Watcher:
    """A law that passes views on to another and keeps them."""

    name = "watcher"

    def __init__(self) -> None:
        self.inner = plugins.get_law("random-legal")
        self.views: list[View] = []

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        self.views.extend(request.view for request in requests)
        return self.inner.decide(requests)


def played(task: str, n: int, rounds: int, seed: int = 10_001) -> list[View]:
    found = plugins.find_task(task)
    case = Case(found.substrate, found.task, n, seed, rounds)
    law = Watcher()
    Engine(plugins.get_substrate(found.substrate).open(case), law, case).play()
    return law.views


@pytest.fixture(scope="session")
def beacon_views() -> list[View]:
    return played("beacon", 8, 4)


@pytest.fixture(scope="session")
def ending() -> Iterator[list[tuple[threading.Thread, socket.socket]]]:
    """Servers that were told to end, which takes each of them a fifth of a second."""
    told: list[tuple[threading.Thread, socket.socket]] = []
    yield told
    for thread, sock in told:
        thread.join(LONGEST)
        assert not thread.is_alive(), "a server did not end"
        sock.close()


@pytest.fixture
def serve(ending: list[tuple[threading.Thread, socket.socket]]) -> Iterator[Any]:
    """Start real servers of laws on loopback; returns their base address."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the serve extra")
    from waggle.compat.openai_server import app

    running = []

    def start(law: Any, **options: Any) -> str:
        sock = socket.socket(proto=socket.IPPROTO_TCP)  # without the name, asyncio keeps delays
        sock.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app(law, **options), log_level="critical", ws="none", timeout_keep_alive=60
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        running.append((server, thread, sock))
        return f"http://127.0.0.1:{sock.getsockname()[1]}/v1"

    yield start
    for server, thread, sock in running:
        server.should_exit = True
        ending.append((thread, sock))


RECORD = '{"task_action":"WAIT","response":null,"deposits":[],"commit":null}'


def reply(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    return json.dumps({"choices": [{"index": 0, "message": message}], "usage": usage}).encode()


class Crowd:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self._lock, self._inside, self.most = threading.Lock(), 0, 0

    def __enter__(self) -> "Crowd":
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1


class Unruly(BaseHTTPRequestHandler):
    """Answers each request by the next behaviour of its server's script; the last one repeats."""

    server: "UnrulyServer"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Else the body waits 40 ms until the headers are acknowledged."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        with self.server.lock:  # questions that come at once take one step each
            self.server.seen.append(asked)
            self.server.headers = self.headers
            script = self.server.script
            step = script.pop(0) if len(script) > 1 else script[0]
        getattr(self, step)()

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def good(self) -> None:
        self._send(200, reply(RECORD))

    def thoughtful(self) -> None:
        """Think until three have thought at once, and so long that a fourth would be seen."""
        with self.server.crowd as crowd:
            until(lambda: crowd.most >= 3)
            time.sleep(0.2)
        self.good()

    def prose(self) -> None:
        self._send(200, reply("Gladly! I would wait, since {nothing} here is urgent."))

    def busy(self) -> None:
        self._send(429, b'{"error":{"message":"slow down"}}', Retry_After="1")

    def broken(self) -> None:
        self._send(500, b"oops")

    def picky(self) -> None:
        self._send(400, b'{"error":{"message":"response_format is not known"}}')

    def modern(self) -> None:
        said = "'max_tokens' is not supported with this model; use 'max_completion_tokens'"
        self._send(400, json.dumps({"error": {"message": said}}).encode())

    def lukewarm(self) -> None:
        self._send(400, b"""{"error":{"message":"'temperature' does not support 0 here"}}""")

    def seedless(self) -> None:
        self._send(422, b'{"detail":[{"loc":["body","seed"],"msg":"Extra inputs"}]}')

    def curt_refusal(self) -> None:
        self._send(400, b"")

    def message(self) -> None:
        block = {"type": "text", "text": RECORD}
        usage = {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 5}
        body = {"type": "message", "content": [block], "stop_reason": "end_turn", "usage": usage}
        self._send(200, json.dumps(body).encode())

    def overloaded(self) -> None:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        self._send(529, json.dumps({"type": "error", "error": error}).encode())

    def parrot(self) -> None:
        """Say the key, once as it came and once in escapes."""
        key = self.headers["Authorization"].removeprefix("Bearer ")
        spelled = "".join(f"\\u{ord(letter):04x}" for letter in key)
        self._send(200, reply(f"the key is {key} and again @").replace(b"@", spelled.encode()))

    def curt(self) -> None:
        body = {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}
        self._send(200, json.dumps(body).encode())

    def elsewhere(self) -> None:
        self._send(307, b"", Location=self.server.elsewhere)

    def no_text(self) -> None:
        self._send(200, reply("\ud800" + RECORD))

    def boastful(self) -> None:
        self._send(200, reply(RECORD).replace(b": 7,", b": " + b"7" * 30 + b","))

    def flattering(self) -> None:
        self._send(200, reply(RECORD).replace(b": 7,", b": true,"))

    def far_off(self) -> None:
        self._send(429, b"{}", Retry_After="99999999999")

    def later(self) -> None:
        self._busy_until(time.time() + 3)

    def tomorrow(self) -> None:
        self._busy_until(time.time() + 86_400)

    def _busy_until(self, moment: float) -> None:
        self._send(503, b"{}", Retry_After=formatdate(moment, usegmt=True))

    def senseless(self) -> None:
        self._send(429, b"{}", Retry_After="-5")

    def locked(self) -> None:
        said = f"your key is {self.headers['Authorization'].removeprefix('Bearer ')}"
        self._send(401, json.dumps({"error": {"message": said}}).encode())

    def circle(self) -> None:
        self._send(307, b"", Location="/v1/chat/completions")

    def tool(self) -> None:
        body = {"choices": [{"message": {"content": None, "tool_calls": [{"id": "a"}]}}]}
        self._send(200, json.dumps(body).encode())

    def nan(self) -> None:
        self._send(200, reply(RECORD).replace(b": 7,", b": NaN,"))

    def deep(self) -> None:
        self._send(200, b"[" * 200_000)

    def packed(self) -> None:
        self._send(200, b"no gzip", Content_Encoding="gzip")

    def lumps(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nx")
        self.close_connection = True

    def dawdle(self) -> None:
        """Send the head line by line, each within any time-out of a read."""
        self.close_connection = True
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(600):
                self.wfile.write(b"X-Line-%d: 1\r\n" % number)
                self.wfile.flush()
                time.sleep(0.1)
        except OSError:
            pass

    def half(self) -> None:
        self._send(200, reply(RECORD)[:40])

    def babble(self) -> None:
        self._send(200, reply("x" * 1_000_000))

    def megabytes(self) -> None:
        """Send a hundred megabytes, to whoever reads them."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Length", str(100 << 20))
        self.end_headers()
        with suppress(OSError):
            for _ in range(100):
                self.wfile.write(b" " * (1 << 20))

    def strange(self) -> None:
        self._send(200, b'{"choices":[]}')

    def slow(self) -> None:
        self.server.ended.wait(LONGEST)
        self.close_connection = True

    def trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "100000")
        self.end_headers()
        try:
            for _ in range(600):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.1)
        except OSError:
            pass
        self.close_connection = True

    def hangup(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        return


class UnrulyServer(ThreadingHTTPServer):
    """What it is told to do next, and what it was asked."""

    def __init__(self, script: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), Unruly)
        self.script, self.lock, self.ended = list(script), threading.Lock(), threading.Event()
        self.seen: list[Any] = []
        self.headers: Any = None
        self.crowd = Crowd()
        self.elsewhere = ""
        self.other: UnrulyServer | None = None
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone: tests count the lines of the error stream."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@pytest.fixture
def unruly() -> Iterator[Any]:
    servers = []

    def start(*script: str) -> Any:
        server = UnrulyServer(script)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.ended.set()
        server.shutdown()
        server.server_close()


Hurried = Callable[[float], AbstractContextManager[None]]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Hurried:
    """Let no answer come within the time of a question, which is that many seconds.

    Questions that are to be answered keep their own time: a loaded machine may need it.
    """

    @contextmanager
    def within(seconds: float) -> Iterator[None]:
        # A library of its own: servers of other tests wait in this process, too.
        library = SimpleNamespace(**vars(asyncio))
        library.timeout = lambda _: asyncio.timeout(seconds)
        with monkeypatch.context() as patch:
            patch.setattr("waggle.laws.endpoint.asyncio", library)
            yield

    return within
