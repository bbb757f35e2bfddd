"""Requests that share a batch answer for themselves alone."""

import json
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the serve extra")

from tests.waiting import LONGEST, until
from waggle import plugins
from waggle.compat.batcher import Batcher
from waggle.compat.meters import Meters
from waggle.core import prompt
from waggle.core.errors import ConfigError
from waggle.core.protocols import Decode, Request


class Squeamish:
    """A law that cannot take corrections, and then fails for its whole batch."""

    name = "squeamish"

    def __init__(self) -> None:
        self.gate = threading.Event()

    def decide(self, requests: Any) -> Any:
        self.gate.wait(LONGEST)
        if any(request.feedback for request in requests):
            raise ConfigError("the prompt is too long; shorten it")
        return [Decode(f"{request.entropy}") for request in requests]


def post(url: str, body: Any) -> tuple[int, Any]:
    """Send a chat as any program would; return status and answer."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/chat/completions", data)
    try:
        with urllib.request.urlopen(request, timeout=LONGEST) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_caller_that_is_gone_harms_no_other(beacon_views: Any) -> None:
    gate = threading.Event()

    class Waiting:
        name = "waiting"

        def decide(self, requests: Any) -> Any:
            gate.wait(LONGEST)
            return [Decode("ok") for _ in requests]

    batcher = Batcher([Waiting()], 8, 4)
    first, *others = [batcher.submit(Request(view)) for view in beacon_views[:4]]
    for one in others[:2]:
        one.cancel()
    gate.set()
    batcher.close()
    assert first.result(LONGEST).output == others[-1].result(LONGEST).output == "ok"


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_request_that_cannot_be_decided_harms_no_other(beacon_views: Any, place: int) -> None:
    law = Squeamish()
    batcher = Batcher([law], 16, 16)
    feedback: list[tuple[str, ...]] = [()] * 8
    feedback[place] = ("json.syntax",)
    asked = [batcher.submit(Request(beacon_views[0], i, f)) for i, f in enumerate(feedback)]
    law.gate.set()
    batcher.close()
    for i, future in enumerate(asked):
        if i == place:
            assert isinstance(future.exception(LONGEST), ConfigError)
        else:
            assert future.result(LONGEST).output == f"{i}"


def test_a_law_that_miscounts_is_an_error_for_every_caller(beacon_views: Any) -> None:
    class Stingy:
        name = "stingy"

        def decide(self, requests: Any) -> Any:
            return []

    batcher = Batcher([Stingy()], 8, 4)
    asked = [batcher.submit(Request(view)) for view in beacon_views[:3]]
    batcher.close()
    assert all(isinstance(future.exception(LONGEST), ValueError) for future in asked)


def test_what_a_law_refuses_is_told_to_who_asked(serve: Any, beacon_views: Any) -> None:
    law = Squeamish()
    law.gate.set()
    url = serve(law)
    chats = [prompt.messages(view) for view in beacon_views[:7]]
    chats.append(prompt.messages(beacon_views[7], ("json.syntax",), "{"))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda turns: post(url, {"messages": turns}), chats))
    assert [status for status, _ in answers] == [200] * 7 + [400]
    assert answers[-1][1]["error"]["message"] == "the prompt is too long; shorten it"


@pytest.mark.parametrize(
    ("extra", "words"),
    [({"n": 2}, "leave out n"), ({"n": 0}, "leave out n"), ({"seed": "x"}, "whole number"),
     ({"seed": 1.5}, "whole number"), ({"seed": True}, "whole number")],
)  # fmt: skip
def test_what_is_not_offered_is_refused(
    serve: Any, beacon_views: Any, extra: dict[str, Any], words: str
) -> None:
    url = serve(plugins.get_law("heuristic"))
    body = {"messages": prompt.messages(beacon_views[0]), **extra}
    status, answer = post(url, body)
    assert status == 400 and words in answer["error"]["message"]


@pytest.mark.parametrize("seed", [-1, 0, 2**31, 2**70, 10**60])
def test_any_whole_number_is_a_seed(serve: Any, beacon_views: Any, seed: int) -> None:
    url = serve(plugins.get_law("random-legal"))
    body = {"messages": prompt.messages(beacon_views[0]), "seed": seed, "n": 1, "max_tokens": 0}
    first, second = post(url, body), post(url, body)
    assert first[0] == second[0] == 200
    assert first[1]["choices"] == second[1]["choices"]


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3)])
def test_a_law_that_ends_or_runs_out_is_answered_and_goes_on(
    serve: Any, beacon_views: Any, error: BaseException
) -> None:
    class Leaving:
        name = "leaving"

        def decide(self, requests: Any) -> Any:
            if any(request.entropy == 1 for request in requests):
                raise error
            return [Decode("ok") for _ in requests]

    url = serve(Leaving())
    chat = {"messages": prompt.messages(beacon_views[0])}
    status, answer = post(url, {**chat, "seed": 1})
    assert status == 500 and "the law failed" in answer["error"]["message"]
    assert post(url, {**chat, "seed": 2})[0] == 200


def test_a_question_is_given_up_when_its_caller_hangs_up(serve: Any, beacon_views: Any) -> None:
    asked: list[int] = []
    gate = threading.Event()

    class Waiting:
        name = "waiting"

        def decide(self, requests: Any) -> Any:
            asked.extend(request.entropy for request in requests)
            gate.wait(LONGEST)
            return [Decode("ok") for _ in requests]

    meters = Meters()
    url = serve(Waiting(), max_batch=1, meters=meters)
    chat = {"messages": prompt.messages(beacon_views[0])}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(post, url, {**chat, "seed": 1})
        until(lambda: asked)
        host, _, port = url.removeprefix("http://").removesuffix("/v1").partition(":")
        body = json.dumps({**chat, "seed": 2}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(head.encode() + body)
            until(meters.gauges["queue"][1])
        until(lambda: meters.dropped["gone"])
        last = pool.submit(post, url, {**chat, "seed": 3})
        until(lambda: meters.gauges["queue"][1]() == 2)
        gate.set()
        assert first.result(LONGEST)[0] == last.result(LONGEST)[0] == 200
    assert asked == [1, 3]
    until(lambda: meters.answers.total() > 1)  # counted by the server's thread, after it has sent
    assert meters.answers == {("/v1/chat/completions", 200): 2}, "nobody got the other answer"
