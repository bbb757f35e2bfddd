"""Replicas of a law: the answers of one, also when a process is killed under its requests."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the serve extra")
pytest.importorskip("uvicorn", reason="needs the serve extra")

import uvicorn

from tests.laws_llm.serving import serving
from tests.waiting import LONGEST, until
from waggle import plugins
from waggle.compat import replicas as replicas_module
from waggle.compat.batcher import Batcher, NoReplica
from waggle.compat.openai_server import app
from waggle.compat.replicas import Replica, ReplicaDied, Where, opened
from waggle.core import prompt
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.runtime.sync import Engine


class Waiting:
    """The heuristic; where a file lies it says its process there and waits, once."""

    name = "waiting"

    def __init__(self, gate: Path) -> None:
        self._law = plugins.get_law("heuristic")
        self._gate = gate

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        with suppress(FileNotFoundError):  # there is none, or another process was the first
            self._gate.rename(self._gate.with_suffix(f".{os.getpid()}"))
            time.sleep(300)
        return self._law.decide(requests)


def requests() -> list[Request]:
    """Return the requests of a short episode."""
    found: list[Request] = []

    class Watcher:
        name = "watcher"
        inner = plugins.get_law("heuristic")

        def decide(self, asked: Sequence[Request]) -> Sequence[Decode]:
            found.extend(asked)
            return self.inner.decide(asked)

    case = Case("beacon", "beacon", 8, 10_001, 3)
    Engine(plugins.get_substrate("beacon").open(case), Watcher(), case).play()
    return found


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """Serve a law on loopback; return its address."""
    running = []

    def start(law: Law, **options: Any) -> str:
        server = uvicorn.Server(uvicorn.Config(app(law, **options), log_level="error", port=0))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until(lambda: server.started)
        running.append((server, thread))
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(LONGEST)
        assert not thread.is_alive(), "a server did not end"


def got(url: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data), timeout=2 * LONGEST
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def decided(url: str, request: Request) -> str:
    asked = {"model": "m", "seed": request.entropy, "messages": prompt.messages(request.view)}
    status, said = got(f"{url}/v1/chat/completions", asked)
    assert status == 200, said
    text: str = json.loads(said)["choices"][0]["message"]["content"]
    return text


def killed_under_way(where: Where, served: Callable[..., str], gate: Path) -> None:
    """Kill a replica that decides, then one that idles; all are answered as by the law itself."""
    asked = requests()
    law = plugins.get_law("heuristic")
    alone = served(law)
    want = [decided(alone, request) for request in asked]
    with opened(law.name, partial(Waiting, gate), 2, where) as replicas:
        url = served(law, replicas=replicas, max_batch=4)
        health = {"status": "ok", "ready": 2, "replicas": 2}
        assert json.loads(got(f"{url}/health")[1]) == health
        gate.touch()
        with ThreadPoolExecutor(len(asked)) as pool:
            coming = [pool.submit(decided, url, request) for request in asked]
            said = f"{gate.stem}.[0-9]*"
            until(lambda: list(gate.parent.glob(said)))
            (waits,) = gate.parent.glob(said)
            os.kill(int(waits.suffix[1:]), signal.SIGKILL)
            assert [each.result() for each in coming] == want
        assert "waggle_replica_restarts_total 1\n" in got(f"{url}/metrics")[1]
        assert "waggle_replicas_ready 2\n" in got(f"{url}/metrics")[1]
        before = replicas[0].process()  # idle by now
        os.kill(before, signal.SIGKILL)
        until(lambda: "waggle_replica_restarts_total 2\n" in got(f"{url}/metrics")[1])
        assert replicas[0].process() != before


def test_what_a_killed_replica_had_under_way_is_answered(
    served: Callable[..., str], tmp_path: Path
) -> None:
    killed_under_way("here", served, tmp_path / "gate")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # warnings of Ray's own code are not ours to mend
def test_what_a_killed_actor_had_under_way_is_answered(
    served: Callable[..., str], tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray")
    try:
        killed_under_way("ray", served, tmp_path / "gate")
    finally:
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("law", ["heuristic", "nano"])
def test_the_command_serves_replicas_as_it_serves_one(law: str) -> None:
    found = []
    for options in ((), ("--replicas", "1"), ("--replicas", "2")):
        with serving(law, *options) as url:
            root = url.removesuffix("/v1")
            with ThreadPoolExecutor(4) as pool:
                found.append(list(pool.map(partial(decided, root), requests())))
            elsewhere = urllib.request.Request(f"{root}/health", headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(elsewhere, timeout=LONGEST)
    assert found[0] == found[1] == found[2]


def test_a_law_that_cannot_be_loaded_is_told_before_anybody_asks() -> None:
    with (
        pytest.raises(ConfigError, match="mode"),
        opened("local", partial(plugins.get_law, "local", mode="none"), 1),
    ):
        pass


class Home:
    """A replica's process in this one, which dies on some requests."""

    def __init__(self, poison: Sequence[Request]) -> None:
        self._poison = poison

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        if any(request in self._poison for request in requests):
            raise ReplicaDied
        return plugins.get_law("heuristic").decide(requests)

    def check(self) -> None: ...

    def process(self) -> int:
        return 0

    def close(self) -> None: ...


def test_a_request_that_kills_harms_no_other() -> None:
    asked = requests()[:16]
    replica = Replica("heuristic", lambda: Home([asked[5]]))
    batcher = Batcher([replica], 64, 16, wait=0.2)
    futures = [batcher.submit(request) for request in asked]
    want = plugins.get_law("heuristic").decide(asked)
    for place, future in enumerate(futures):
        if place == 5:
            assert isinstance(future.exception(LONGEST), ReplicaDied)
        else:
            assert future.result(LONGEST) == want[place]
    assert replica.starts <= 2 * 5 + 1
    batcher.close()


def test_a_replica_that_cannot_be_started_again_refuses_at_once(
    served: Callable[..., str],
) -> None:
    asked = requests()[0]
    homes = iter([Home([asked])])
    replica = Replica("heuristic", lambda: next(homes))
    with pytest.raises(NoReplica, match="cannot be started"):
        replica.decide([asked])
    url = served(plugins.get_law("heuristic"), replicas=[replica])
    body = {"model": "m", "messages": prompt.messages(asked.view)}
    assert got(f"{url}/v1/chat/completions", body)[0] == 503
    assert got(f"{url}/health")[0] == 503


def test_a_replica_that_cannot_be_started_now_is_started_by_a_later_check() -> None:
    class Dead(Home):
        def check(self) -> None:
            raise ReplicaDied

    homes: list[Home | None] = [Dead([]), None, None, Home([])]

    def start() -> Home:
        home = homes.pop(0)
        if home is None:
            raise MemoryError
        return home

    replica = Replica("heuristic", start)
    for ready in (False, False, True, True):
        replica.check()
        assert replica.ready is ready
    assert replica.starts == 2


def test_replicas_beside_one_that_cannot_be_started_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []

    class Counted(Home):
        def __init__(self, make: Any, index: int, count: int) -> None:
            super().__init__([])
            self._index = index
            if index == 1:
                raise ConfigError("no memory")

        def close(self) -> None:
            ended.append(self._index)

    monkeypatch.setitem(replicas_module._HOMES, "here", Counted)
    with pytest.raises(ConfigError, match="no memory"), opened("heuristic", lambda: None, 3):  # type: ignore[arg-type, return-value]
        pass
    assert sorted(ended) == [0, 2]


def test_a_closed_replica_is_not_started_again() -> None:
    """One that hung is killed at the end, and who waited for it must not start another."""
    asked, under_way, ended = requests()[:1], threading.Event(), threading.Event()

    class Hung(Home):
        def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
            under_way.set()
            ended.wait(LONGEST)
            raise ReplicaDied

        def close(self) -> None:
            ended.set()

    replica = Replica("heuristic", lambda: Hung([]))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(replica.decide, asked)
        assert under_way.wait(LONGEST)
        replica.close()
        assert isinstance(answer.exception(LONGEST), NoReplica)
    assert replica.starts == 1 and not replica.ready
