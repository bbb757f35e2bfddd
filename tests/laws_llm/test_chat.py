"""laws/chat against endpoints that time out, refuse, babble, cut and hang up."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="needs the chat extra")

from tests.laws_llm.conftest import RECORD, Hurried
from waggle import plugins
from waggle.core.errors import ConfigError, EndpointError
from waggle.core.protocols import Case, Request
from waggle.core.schema import private_decision
from waggle.laws.chat import ChatLaw
from waggle.runtime.records import RecordFile, read
from waggle.runtime.sync import Engine

PATIENT: dict[str, Any] = {"timeout": 20.0, "retries": 0, "concurrency": 4}
"""For servers that answer: a loaded machine may take its time."""
HANGING = ("slow", "trickle", "dawdle")


def test_answers_come_back_in_order_with_their_cost(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good")
    law = ChatLaw(server.url, "m", **PATIENT)
    decodes = law.decide([Request(view) for view in beacon_views[:6]])
    assert [d.output for d in decodes] == [RECORD] * 6
    assert {(d.usage.calls, d.usage.input_tokens, d.usage.output_tokens) for d in decodes} == {
        (1, 7, 5)
    }
    assert {body["response_format"]["type"] for body in server.seen} == {"json_object"}


FAULTS = {
    "slow": "no answer within 20 s", "broken": "500 Internal Server Error: oops",
    "busy": "429 Too Many Requests: slow down (it asks to wait 1 s)", "half": "no JSON",
    "megabytes": "over 4 MiB", "strange": "no chat completion", "hangup": "RemoteProtocolError",
    "trickle": "no answer within", "boastful": "token counts", "flattering": "token counts",
    "far_off": "429", "locked": "401 Unauthorized: your key is [key]",
    "circle": "307 Temporary Redirect: it points to /v1", "tool": "no text", "nan": "token counts",
    "deep": "no JSON", "packed": "no JSON", "lumps": "RemoteProtocolError",
    "dawdle": "no answer within", "curt": "ended by 'length'; raise --law.max-tokens",
}  # fmt: skip
"""What a server does, and what is said about it."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    return "sk-secret"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_degrades_to_the_private_proposal_and_is_counted(
    unruly: Any, beacon_views: Any, fault: str, caplog: pytest.LogCaptureFixture, hurried: Hurried
) -> None:
    law = ChatLaw(unruly("good", fault).url, "m", **PATIENT)
    law.decide([Request(beacon_views[0])])
    with hurried(0.5 if fault in HANGING else 20):
        (decode,) = law.decide([Request(beacon_views[1])])
    assert decode.output == private_decision(beacon_views[1])
    assert decode.usage.failures == 1
    assert FAULTS[fault] in law.trouble and FAULTS[fault] in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_the_first_question_is_an_error_that_names_the_fix(
    unruly: Any, beacon_views: Any, fault: str, hurried: Hurried
) -> None:
    server = unruly(fault)
    law = ChatLaw(server.url, "m", **PATIENT)
    for _ in range(2):
        with pytest.raises(EndpointError) as caught, hurried(0.5 if fault in HANGING else 20):
            law.decide([Request(view) for view in beacon_views[:4]])
    said = str(caught.value)
    assert FAULTS[fault] in said and "; " in said and "secret" not in said and "\n" not in said
    assert len(server.seen) <= 1, "a dead endpoint was asked again"
    server.script = ["good"]
    law.load()
    assert {d.output for d in law.decide([Request(view) for view in beacon_views[:4]])} == {RECORD}


@pytest.mark.parametrize(("fault", "code"), [("no_text", "text.encoding"), ("babble", "text.size")])
def test_a_text_that_cannot_be_read_is_a_bad_decode(
    unruly: Any, tmp_path: Path, fault: str, code: str
) -> None:
    cache, path = str(tmp_path / "replies.sqlite3"), tmp_path / "record.jsonl.gz"
    law = ChatLaw(unruly(fault).url, "m", cache=cache, **PATIENT)
    case = Case("beacon", "beacon", 3, 10_003, 2)
    with RecordFile(path) as sink:
        Engine(plugins.get_substrate("beacon").open(case), law, case, sinks=[sink]).play()
    updates = [update for entry in read(path).rounds for update in entry.updates]
    assert {update.codes for update in updates} == {(code,)}
    assert all(update.usage.calls == 2 for update in updates)


def test_a_dead_address_says_what_to_do(beacon_views: Any) -> None:
    law = ChatLaw("http://127.0.0.1:9/v1", "m", **PATIENT)
    with pytest.raises(EndpointError, match=r"ConnectError.*start the server"):
        law.decide([Request(view) for view in beacon_views[:3]])


@pytest.mark.parametrize("fault", ["broken", "busy", "hangup"])
def test_retries_recover(unruly: Any, beacon_views: Any, fault: str) -> None:
    law = ChatLaw(unruly(fault, "good").url, "m", timeout=20, retries=2)
    start = time.monotonic()
    decode = law.decide([Request(beacon_views[0])])[0]
    assert decode.output == RECORD
    assert decode.usage.failures == 0
    if fault == "busy":
        assert time.monotonic() - start >= 0.9, "Retry-After was not honoured"


@pytest.mark.parametrize("fault", ["later", "senseless"])
def test_a_wait_that_was_asked_for_costs_no_answer(
    unruly: Any, beacon_views: Any, fault: str
) -> None:
    law = ChatLaw(unruly(fault, "good").url, "m", timeout=20, retries=1)
    assert law.decide([Request(beacon_views[0])])[0].output == RECORD


def test_a_wait_beyond_the_deadline_is_not_waited_for(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good", "tomorrow")
    law = ChatLaw(server.url, "m", timeout=20, retries=5)
    assert law.decide([Request(v) for v in beacon_views[:2]])[1].usage.failures == 1
    assert len(server.seen) == 2 and "503" in law.trouble


def test_one_deadline_holds_for_all_attempts(
    unruly: Any, beacon_views: Any, hurried: Hurried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attempt fails within it, the attempts together do not."""
    monkeypatch.setattr("waggle.laws.endpoint.FIRST_WAIT", 0.01)
    server = unruly("good", "broken", "slow")
    law = ChatLaw(server.url, "m", timeout=20, retries=9)
    law.decide([Request(beacon_views[0])])
    with hurried(2):
        law.decide([Request(beacon_views[1])])
    assert law.trouble == "no answer within 20 s (before: 500 Internal Server Error: oops)"
    assert len(server.seen) == 3


def test_questions_keep_to_their_rate(
    unruly: Any, beacon_views: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    # A library of its own: servers of other tests sleep in this process, too.
    library = SimpleNamespace(**{**vars(asyncio), "sleep": wait})
    monkeypatch.setattr("waggle.laws.endpoint.asyncio", library)
    law = ChatLaw(unruly("good").url, "m", rate=0.1, **PATIENT)
    law.decide([Request(view) for view in beacon_views[:6]])
    assert [round(seconds / 600) for seconds in waits] == [0, 1, 2, 3, 4, 5]


def test_no_more_questions_are_under_way_than_may_be(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good", "thoughtful")
    law = ChatLaw(server.url, "m", **(PATIENT | {"concurrency": 3}))
    found = law.decide([Request(view) for view in beacon_views[:10]])
    assert [decode.usage.failures for decode in found] == [0] * 10
    assert server.crowd.most == 3


def test_a_failing_endpoint_is_logged_once(
    unruly: Any, beacon_views: Any, caplog: pytest.LogCaptureFixture
) -> None:
    law = ChatLaw(unruly("good", "locked").url, "m", **PATIENT)
    law.decide([Request(view) for view in beacon_views[:4]])
    assert len(caplog.messages) == 1 and "401" in caplog.text


def test_an_echoed_key_is_in_no_answer_and_no_cache(
    unruly: Any, beacon_views: Any, tmp_path: Path, key: str
) -> None:
    server, path = unruly("parrot"), tmp_path / "replies.sqlite3"
    law = ChatLaw(server.url, "m", cache=str(path), **PATIENT)
    said = law.decide([Request(beacon_views[0])])[0].output
    assert said == "the key is [key] and again [key]"
    assert server.headers["Authorization"] == f"Bearer {key}"
    assert key.encode() not in path.read_bytes()


def test_no_header_is_sent_where_there_is_no_key(
    unruly: Any, beacon_views: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    server = unruly("good")
    ChatLaw(server.url, "m", **PATIENT).decide([Request(beacon_views[0])])
    assert "Authorization" not in server.headers


@pytest.mark.parametrize(
    ("fault", "gone", "instead"),
    [
        ("picky", "response_format", ""), ("modern", "max_tokens", "max_completion_tokens"),
        ("lukewarm", "temperature", ""), ("seedless", "seed", ""),
        ("curt_refusal", "response_format", ""),
    ],
)  # fmt: skip
def test_a_refused_parameter_is_given_up_and_that_is_remembered(
    unruly: Any, beacon_views: Any, fault: str, gone: str, instead: str
) -> None:
    server = unruly(fault, "good")
    law = ChatLaw(server.url, "m", seed=True, max_tokens=77, **PATIENT)
    assert law.decide([Request(beacon_views[0])])[0].output == RECORD
    law.decide([Request(beacon_views[1])])
    assert [gone in body for body in server.seen] == [True, False, False]
    assert [body.get(instead) for body in server.seen[1:]] == ([77, 77] if instead else [None] * 2)


def test_a_parameter_that_was_asked_for_is_never_given_up(unruly: Any, beacon_views: Any) -> None:
    server = unruly("lukewarm")
    law = ChatLaw(server.url, "m", extra='{"temperature": 0.3}', **PATIENT)
    with pytest.raises(EndpointError, match=r"does not support 0.*change the param"):
        law.decide([Request(beacon_views[0])])


def test_what_was_asked_for_takes_no_other_value(unruly: Any, beacon_views: Any) -> None:
    server = unruly("modern", "good")
    law = ChatLaw(server.url, "m", extra='{"max_completion_tokens": 9}', max_tokens=77, **PATIENT)
    law.decide([Request(beacon_views[0])])
    assert "max_tokens" not in server.seen[1] and server.seen[1]["max_completion_tokens"] == 9


def test_extra_parameters_are_sent(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good")
    law = ChatLaw(server.url, "m", extra='{"top_p": 0.9, "max_tokens": null}', **PATIENT)
    law.decide([Request(beacon_views[0])])
    assert server.seen[0]["top_p"] == 0.9 and "max_tokens" not in server.seen[0]


def test_prices_become_costs(unruly: Any, beacon_views: Any) -> None:
    law = ChatLaw(unruly("good").url, "m", price_input=2.5, price_output=10, **PATIENT)
    assert law.decide([Request(beacon_views[0])])[0].usage.cost == round(7 * 2.5 + 5 * 10)


def test_anthropic_messages_go_the_same_way(
    unruly: Any, beacon_views: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    server = unruly("message", "lukewarm", "message", "overloaded")
    law = ChatLaw(server.url, "claude", "anthropic", **PATIENT)
    first, second, third = (law.decide([Request(view)])[0] for view in beacon_views[:3])
    assert first.output == second.output == RECORD
    assert (first.usage.input_tokens, first.usage.output_tokens) == (9, 5)
    assert third.usage.failures == 1 and "529: Overloaded" in law.trouble
    assert server.headers["x-api-key"] == "sk-ant-secret"
    assert server.headers["anthropic-version"] and "Authorization" not in server.headers
    asked = server.seen[0]
    assert [turn["role"] for turn in asked["messages"]] == ["user"]
    assert asked["system"].startswith("You are one anonymous member")
    assert asked.keys() == {"model", "temperature", "max_tokens", "messages", "system"}
    assert ["temperature" in body for body in server.seen] == [True, True, False, False]


def test_an_address_of_anthropic_takes_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert ChatLaw("https://api.anthropic.com/v1")._endpoint._url.endswith("/v1/messages")
    assert ChatLaw("https://anthropic.com.example/v1")._endpoint._url.endswith("/completions")


def test_response_format_is_kept_where_something_else_was_refused(
    unruly: Any, beacon_views: Any
) -> None:
    server = unruly("good", "picky", "picky", "good")
    law = ChatLaw(server.url, "m", **PATIENT)
    decodes = [law.decide([Request(view)])[0] for view in beacon_views[:3]]
    assert [decode.usage.failures for decode in decodes] == [0, 1, 0]
    assert ["response_format" in body for body in server.seen] == [True, True, False, True]


def test_replies_are_kept_and_reused(unruly: Any, beacon_views: Any, tmp_path: Path) -> None:
    server = unruly("good")
    options: Any = {**PATIENT, "cache": str(tmp_path / "deep" / "replies.sqlite3")}
    first = ChatLaw(server.url, "m", **options).decide([Request(beacon_views[0])])[0]
    again = ChatLaw(server.url, "m", **options).decide([Request(beacon_views[0])])[0]
    assert len(server.seen) == 1
    assert (first.output, first.usage.calls) == (RECORD, 1)
    assert (again.output, again.usage.calls) == (RECORD, 0)
    ChatLaw(server.url, "other", **options).decide([Request(beacon_views[0])])
    assert len(server.seen) == 2, "another model is another question"


def test_failures_are_never_kept(unruly: Any, beacon_views: Any, tmp_path: Path) -> None:
    server = unruly("good", "broken", "good")
    law = ChatLaw(server.url, "m", cache=str(tmp_path / "r.sqlite3"), **PATIENT)
    decodes = [law.decide([Request(beacon_views[place])])[0] for place in (0, 1, 1, 0)]
    assert [decode.usage.failures for decode in decodes] == [0, 1, 0, 0]
    assert [decode.usage.calls for decode in decodes] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    "damage",
    ["text = x'ff'", "text = CAST(x'ff' AS TEXT)", "sent = 'many'", "sent = 1.5", "received = -1"],
)
def test_a_kept_row_that_is_no_reply_is_not_believed(
    unruly: Any, beacon_views: Any, tmp_path: Path, damage: str
) -> None:
    server, path = unruly("good"), tmp_path / "r.sqlite3"
    ChatLaw(server.url, "m", cache=str(path), **PATIENT).decide([Request(beacon_views[0])])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE replies SET {damage}")
    again = ChatLaw(server.url, "m", cache=str(path), **PATIENT).decide([Request(beacon_views[0])])
    assert (again[0].output, again[0].usage.calls) == (RECORD, 1)


def test_a_locked_memory_is_waited_for_once(
    unruly: Any, beacon_views: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.laws.replies.LOCK_SECONDS", 1.0)
    server, path = unruly("good"), tmp_path / "r.sqlite3"
    law = ChatLaw(server.url, "m", cache=str(path), **PATIENT)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        decodes = law.decide([Request(view) for view in beacon_views[:8]])
    assert [d.output for d in decodes] == [RECORD] * 8
    assert time.monotonic() - start < 12, "each of the 16 uses of the file would take a second"


def test_a_dead_endpoint_is_left_alone_after_a_while(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good", "broken")
    law = ChatLaw(server.url, "m", patience=3, **(PATIENT | {"concurrency": 1}))
    decodes = law.decide([Request(view) for view in beacon_views[:11]])
    assert sum(d.usage.failures for d in decodes) == 10
    assert len(server.seen) == 1 + 3


def test_an_endpoint_that_was_left_alone_is_tried_by_one_question(
    unruly: Any, beacon_views: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("waggle.laws.endpoint.time", SimpleNamespace(monotonic=lambda: now[0]))
    server = unruly("good", "broken")
    law = ChatLaw(server.url, "m", patience=3, **PATIENT)
    law.decide([Request(view) for view in beacon_views[:9]])
    before = len(server.seen)
    now[0] += 21
    law.decide([Request(view) for view in beacon_views[:9]])
    assert len(server.seen) == before + 1
    now[0] += 21
    server.script = ["good"]
    law.decide([Request(beacon_views[0])])
    assert {d.usage.failures for d in law.decide([Request(v) for v in beacon_views[:9]])} == {0}


def test_feedback_of_a_failed_decode_is_quoted(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good")
    request = Request(beacon_views[0], feedback=("json.syntax",), previous='{"oops')
    ChatLaw(server.url, "m", **PATIENT).decide([request])
    turns = server.seen[0]["messages"]
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert turns[2]["content"] == '{"oops'
    assert "json.syntax" in turns[3]["content"]


def test_an_episode_survives_the_death_of_its_endpoint(unruly: Any) -> None:
    case = Case("beacon", "beacon", 6, 10_002, 3)
    law = ChatLaw(unruly("good", "hangup").url, "m", patience=2, **PATIENT)
    footer = Engine(plugins.get_substrate("beacon").open(case), law, case).play()
    assert footer.rounds == 3 and footer.counters["failures"] > 10


@pytest.mark.parametrize(
    "options",
    [{"base_url": "localhost"}, {"concurrency": 0}, {"timeout": float("nan")},
     {"response_format": "xml"}, {"temperature": 9}, {"cache": "/dev/null/x/y"},
     {"base_url": "http://"}, {"base_url": "http://[h"}, {"base_url": "http://h:99999"},
     {"base_url": "http://h:port"}, {"base_url": "http://a b"}, {"base_url": "http://h\n"},
     {"base_url": "http://a..b"}, {"max_tokens": 0}, {"api_key_env": "ODD_KEY"},
     {"api_key_env": "sk-schluessel"},
     {"base_url": "http://me:sk-schl@host/v1"}, {"api": "grpc"}, {"extra": "{"}, {"extra": "[]"},
     {"extra": '{"stream": true}'}, {"extra": '{"top_p": NaN}'}, {"extra": '{"user": "\\ud800"}'},
     {"extra": {"user": object()}}, {"extra": 5}, {"model": "\udcff"}, {"rate": -1},
     {"price_input": float("inf")}, {"max_failed": 2}, {"api": "anthropic", "seed": True}],
)  # fmt: skip
def test_bad_options_say_the_fix(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", "schlüssel")
    with pytest.raises(ConfigError) as caught:
        ChatLaw(**options)
    assert "\n" not in str(caught.value) and "schl" not in str(caught.value)


def test_equal_questions_of_a_round_are_asked_once_where_replies_are_kept(
    unruly: Any, beacon_views: Any, tmp_path: Path
) -> None:
    """Else the answer of a node would depend on what lies in the cache."""
    server = unruly("good", "prose")
    law = ChatLaw(server.url, "m", cache=str(tmp_path / "r.sqlite3"), **PATIENT)
    asked = [Request(beacon_views[k]) for k in (0, 1, 0, 1)]
    for calls in ([1, 1, 0, 0], [0, 0, 0, 0]):
        found = law.decide(asked)
        assert [decode.usage.calls for decode in found] == calls
        assert found[0].output == found[2].output == RECORD
        assert found[1].output == found[3].output != RECORD
    assert len(server.seen) == 2
