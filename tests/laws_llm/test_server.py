"""A real client against a real server: the openai package against a served law."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("openai", reason="needs the chat extra")
pytest.importorskip("starlette", reason="needs the serve extra")

import msgspec
import openai

from waggle import plugins
from waggle.compat.openai_server import MAX_BODY, read_request
from waggle.core import prompt
from waggle.core.canon import encode_decision, to_decision
from waggle.core.decode import parse
from waggle.core.order import canonical
from waggle.core.protocols import Case, Decode, Request
from waggle.core.schema import Decision
from waggle.laws.chat import ChatLaw
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine


@pytest.fixture
def client() -> Iterator[Any]:
    opened = []

    def connect(url: str) -> Any:
        opened.append(openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60))
        return opened[-1]

    yield connect
    for api in opened:
        api.close()


def test_the_openai_client_gets_the_laws_decision(
    client: Any, serve: Any, beacon_views: Any
) -> None:
    law = plugins.get_law("heuristic")
    api = client(serve(law))
    assert [model.id for model in api.models.list()] == ["heuristic"]
    for view in beacon_views[:8]:
        done = api.chat.completions.create(model="heuristic", messages=prompt.messages(view))
        assert (
            to_decision(done.choices[0].message.content.encode())
            == law.decide([Request(view)])[0].output
        )
        assert done.choices[0].finish_reason == "stop"


def test_anthropic_messages_get_the_same_decision(serve: Any, beacon_views: Any) -> None:
    httpx = pytest.importorskip("httpx2")
    law = plugins.get_law("heuristic")
    url = serve(law)
    for view in beacon_views[:4]:
        system, *turns = prompt.messages(view)
        body = {"model": "m", "max_tokens": 9, "system": system["content"], "messages": turns}
        said = httpx.post(f"{url}/messages", json=body).json()
        (block,) = said["content"]
        assert (said["type"], block["type"], said["stop_reason"]) == ("message", "text", "end_turn")
        assert to_decision(block["text"].encode()) == law.decide([Request(view)])[0].output
        assert said["usage"].keys() == {"input_tokens", "output_tokens"}
    refused = httpx.post(f"{url}/messages", json={"messages": []})
    assert (refused.status_code, refused.json()["type"]) == (400, "error")
    assert "`View: JSON`" in refused.json()["error"]["message"]


def test_many_clients_share_batches(client: Any, serve: Any, beacon_views: Any) -> None:
    sizes: list[int] = []

    class Counting:
        name = "counting"
        inner = plugins.get_law("heuristic")

        def decide(self, requests: Any) -> Any:
            sizes.append(len(requests))
            return self.inner.decide(requests)

    url = serve(Counting(), max_batch=8)
    api = client(url)

    def ask(view: Any) -> str:
        done = api.chat.completions.create(model="x", messages=prompt.messages(view))
        text: str = done.choices[0].message.content
        return text

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, beacon_views))
    want = [
        d.output for d in plugins.get_law("heuristic").decide([Request(v) for v in beacon_views])
    ]
    assert [to_decision(answer.encode()) for answer in answers] == want
    assert sum(sizes) == len(beacon_views)
    assert max(sizes) <= 8


def test_an_episode_through_the_server_is_the_episode(serve: Any) -> None:
    """One law, called directly and over HTTP, plays the same scores."""
    case = Case("beacon", "beacon", 8, 10_003, 5)
    scores = []
    for law in (plugins.get_law("heuristic"), ChatLaw(serve(plugins.get_law("heuristic")), "m")):
        memory = Memory()
        footer = Engine(
            plugins.get_substrate("beacon").open(case), law, case, sinks=[memory]
        ).play()
        scores.append(footer.scores)
    assert scores[0] == scores[1]


class Particular:
    """A law that reads canonical views only, and answers in text."""

    name = "particular"
    order = "canonical"
    inner = plugins.get_law("heuristic")

    def __init__(self, spoil: str = "") -> None:
        self._spoil = spoil
        self.asked: list[Request] = []

    def decide(self, requests: Any) -> Any:
        self.asked += requests
        assert all(canonical(request.view)[0] == request.view for request in requests)
        decisions = [d.output for d in self.inner.decide(requests)]
        texts = [encode_decision(d).decode() for d in decisions if isinstance(d, Decision)]
        assert len(texts) == len(requests)
        return [Decode(text[:-1] + self._spoil + text[-1:]) for text in texts]


@pytest.mark.parametrize(
    ("law", "n", "rounds"), [(Particular, 5, 3), (lambda: plugins.get_law("nano"), 3, 2)]
)
def test_a_law_of_canonical_order_is_served_to_callers_of_any_order(
    serve: Any, law: Any, n: int, rounds: int
) -> None:
    case = Case("beacon", "beacon", n, 10_003, rounds)
    found = []
    for played in (law(), ChatLaw(serve(law()), "m")):
        memory = Memory()
        engine = Engine(plugins.get_substrate("beacon").open(case), played, case, sinks=[memory])
        engine.play()
        record = memory.record()
        found.append(
            [
                (u.node, u.claim, u.reopened, u.stage, u.writes)
                for entry in record.rounds
                for u in entry.updates
            ]
        )
        assert record.header.order == ("shuffled" if len(found) == 2 else "canonical")
    assert found[0] == found[1]


def test_a_broken_record_stays_broken_in_the_callers_names(
    client: Any, serve: Any, beacon_views: Any
) -> None:
    law = Particular(',"extra":1')
    api = client(serve(law))
    seen = 0
    for view in beacon_views:
        done = api.chat.completions.create(model="x", messages=prompt.messages(view))
        text = done.choices[0].message.content
        parsed = parse(text)
        assert parsed.decision is None and "shape.unknown" in parsed.codes
        assert parsed.salvage == law.inner.decide([Request(view)])[0].output
        seen += bool(parsed.salvage.deposits)
        turns = prompt.messages(view, parsed.codes, text)
        api.chat.completions.create(model="x", messages=turns)
        again = law.asked[-1]
        assert again.feedback == parsed.codes and again.view == law.asked[-2].view
        quoted = parse(again.previous).salvage
        assert quoted == law.inner.decide([Request(again.view)])[0].output
    assert seen


def test_a_view_that_cannot_be_ordered_is_one_line(
    client: Any, serve: Any, beacon_views: Any
) -> None:
    view = next(view for view in beacon_views if view.traces)
    many = msgspec.structs.replace(view, traces=view.traces * 40)
    with pytest.raises(openai.BadRequestError):
        client(serve(Particular())).chat.completions.create(
            model="x", messages=prompt.messages(many)
        )


@pytest.mark.parametrize("law", [Particular, lambda: plugins.get_law("heuristic")])
def test_a_view_out_of_bounds_is_one_line_and_never_reaches_the_law(
    client: Any, serve: Any, beacon_views: Any, law: Any
) -> None:
    view, replace = beacon_views[0], msgspec.structs.replace
    seen = [replace(view.private, observation={key: 3}) for key in ("agent_id", "total" * 2000)]
    api = client(serve(law()))
    for broken in (replace(view, budget=9), *(replace(view, private=part) for part in seen)):
        with pytest.raises(openai.BadRequestError) as caught:
            api.chat.completions.create(model="x", messages=prompt.messages(broken))
        assert "\n" not in caught.value.message


def test_a_request_survives_the_journey(beacon_views: Any) -> None:
    for view in beacon_views:
        first = read_request({"messages": prompt.messages(view), "seed": 5})
        assert first == Request(view, 5)
        turns = prompt.messages(view, ("json.syntax", "text.none"), "{oops")
        again = read_request({"messages": turns, "seed": 5})
        assert again == Request(view, 5, ("json.syntax", "text.none"), "{oops")


@pytest.mark.parametrize(
    ("messages", "extra"),
    [
        ([], {}),
        ([{"role": "user", "content": "hello"}], {}),
        ([{"role": "user", "content": 'x\nView: {"contract":1}'}], {}),
        ([{"role": "user", "content": "x\nView: " + "[" * 5000}], {}),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], {}),
        ([{"role": "user", "content": "hello"}], {"stream": True}),
    ],
)
def test_bad_requests_get_one_line(client: Any, serve: Any, messages: Any, extra: Any) -> None:
    api = client(serve(plugins.get_law("heuristic")))
    with pytest.raises(openai.BadRequestError) as caught:
        api.chat.completions.create(model="x", messages=messages, **extra)
    assert "\n" not in caught.value.message


def test_large_bodies_are_refused(client: Any, serve: Any) -> None:
    api = client(serve(plugins.get_law("heuristic")))
    with pytest.raises(openai.APIStatusError) as caught:
        api.chat.completions.create(
            model="x", messages=[{"role": "user", "content": "x" * (MAX_BODY + 1)}]
        )
    assert caught.value.status_code == 413


def test_a_full_queue_says_come_back(client: Any, serve: Any, beacon_views: Any) -> None:
    gate = threading.Event()

    class Stuck:
        name = "stuck"

        def decide(self, requests: Any) -> Any:
            gate.wait(20)
            return [Decode("late") for _ in requests]

    api = client(serve(Stuck(), max_queue=1, max_batch=1))

    def ask(view: Any) -> int:
        try:
            api.chat.completions.create(model="x", messages=prompt.messages(view))
        except openai.RateLimitError as error:
            assert error.response.headers["Retry-After"] == "1"
            gate.set()
            return 429
        return 200

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(ask, beacon_views[:8]))
    assert {200, 429} == set(statuses)


def test_a_failing_law_is_an_error_not_a_crash(client: Any, serve: Any, beacon_views: Any) -> None:
    class Failing:
        name = "failing"

        def decide(self, requests: Any) -> Any:
            raise ValueError("no")

    class Mumbling:
        name = "mumbling"

        def decide(self, requests: Any) -> Any:
            return [Decode("\ud800") for _ in requests]

    with pytest.raises(openai.InternalServerError, match="the law failed"):
        client(serve(Mumbling())).chat.completions.create(
            model="x", messages=prompt.messages(beacon_views[0])
        )
    api = client(serve(Failing()))
    for _ in range(2):
        with pytest.raises(openai.InternalServerError, match="the law failed"):
            api.chat.completions.create(model="x", messages=prompt.messages(beacon_views[0]))
