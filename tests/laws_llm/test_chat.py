"""laws/chat against endpoints that time out, refuse, babble, cut and hang up."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="needs the chat extra")

from tests.laws_llm.conftest import RECORD
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Request
from waggle.core.schema import private_decision
from waggle.laws.chat import ChatLaw
from waggle.runtime.records import RecordFile, read
from waggle.runtime.sync import Engine

QUICK: dict[str, Any] = {"timeout": 0.5, "retries": 0, "concurrency": 4}
PATIENT = QUICK | {"timeout": 20.0}
"""For servers that answer: a loaded machine may take its time."""


def test_answers_come_back_in_order_with_their_cost(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good")
    law = ChatLaw(server.url, "m", **PATIENT)
    decodes = law.decide([Request(view) for view in beacon_views[:6]])
    assert [d.output for d in decodes] == [RECORD] * 6
    assert {(d.usage.calls, d.usage.input_tokens, d.usage.output_tokens) for d in decodes} == {
        (1, 7, 5)
    }
    assert {body["response_format"]["type"] for body in server.seen} == {"json_object"}


@pytest.mark.parametrize(
    "fault",
    [
        "slow", "broken", "busy", "half", "megabyte", "strange", "hangup", "trickle", "boastful",
        "flattering", "far_off", "locked", "circle", "tool", "nan", "deep", "packed", "lumps",
        "dawdle",
    ],
)  # fmt: skip
def test_a_fault_degrades_to_the_private_proposal_and_is_counted(
    unruly: Any, beacon_views: Any, fault: str
) -> None:
    law = ChatLaw(unruly(fault).url, "m", **QUICK)
    start = time.monotonic()
    decode = law.decide([Request(beacon_views[0])])[0]
    assert decode.output == private_decision(beacon_views[0])
    assert decode.usage.failures == 1
    assert time.monotonic() - start < (4 if fault == "dawdle" else 8)


def test_a_text_that_is_no_unicode_is_a_bad_decode(unruly: Any, tmp_path: Path) -> None:
    cache, path = str(tmp_path / "replies.sqlite3"), tmp_path / "record.jsonl.gz"
    law = ChatLaw(unruly("no_text").url, "m", cache=cache, **PATIENT)
    case = Case("beacon", "beacon", 3, 10_003, 2)
    with RecordFile(path) as sink:
        Engine(plugins.get_substrate("beacon").open(case), law, case, sinks=[sink]).play()
    updates = [update for entry in read(path).rounds for update in entry.updates]
    assert {update.codes for update in updates} == {("text.encoding",)}
    assert all(update.usage.calls == 2 for update in updates)


def test_a_dead_address_is_counted_too(beacon_views: Any) -> None:
    law = ChatLaw("http://127.0.0.1:9/v1", "m", **QUICK)
    decodes = law.decide([Request(view) for view in beacon_views[:3]])
    assert [d.usage.failures for d in decodes] == [1, 1, 1]


@pytest.mark.parametrize("fault", ["broken", "busy", "hangup"])
def test_retries_recover(unruly: Any, beacon_views: Any, fault: str) -> None:
    law = ChatLaw(unruly(fault, "good").url, "m", timeout=5, retries=2)
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
    """A server may ask for a longer wait than all attempts together may take."""
    law = ChatLaw(unruly(fault, "good").url, "m", timeout=1, retries=1)
    assert law.decide([Request(beacon_views[0])])[0].output == RECORD


def test_no_more_questions_are_under_way_than_may_be(unruly: Any, beacon_views: Any) -> None:
    server = unruly("thoughtful")
    law = ChatLaw(server.url, "m", **(PATIENT | {"concurrency": 3}))
    assert len(law.decide([Request(view) for view in beacon_views[:9]])) == 9
    assert server.crowd.most == 3


def test_threads_that_a_server_holds_are_bounded(unruly: Any, beacon_views: Any) -> None:
    server = unruly("dawdle", "good")
    law = ChatLaw(server.url, "m", timeout=0.25, retries=0, patience=1)
    assert law.decide([Request(beacon_views[0])])[0].usage.failures == 1
    time.sleep(0.5)  # the pause after a failure is over, but its thread still waits
    assert law.decide([Request(beacon_views[0])])[0].usage.failures == 1
    assert len(server.seen) == 1
    deadline = time.monotonic() + 30
    while law.decide([Request(beacon_views[0])])[0].usage.failures:
        assert time.monotonic() < deadline, "an endpoint that let go is asked again"
        time.sleep(0.2)


def test_a_failing_endpoint_is_told_once_without_its_words(
    unruly: Any, beacon_views: Any, caplog: pytest.LogCaptureFixture
) -> None:
    law = ChatLaw(unruly("locked").url, "m", **PATIENT)
    law.decide([Request(view) for view in beacon_views[:3]])
    assert len(caplog.messages) == 1
    assert "401" in caplog.text and "secret" not in caplog.text


def test_response_format_is_unlearned(unruly: Any, beacon_views: Any) -> None:
    server = unruly("picky", "good")
    law = ChatLaw(server.url, "m", **PATIENT)
    assert law.decide([Request(beacon_views[0])])[0].output == RECORD
    law.decide([Request(beacon_views[1])])
    assert ["response_format" in body for body in server.seen] == [True, False, False]


def test_response_format_is_kept_where_something_else_was_refused(
    unruly: Any, beacon_views: Any
) -> None:
    server = unruly("picky", "picky", "good")
    law = ChatLaw(server.url, "m", **PATIENT)
    assert law.decide([Request(beacon_views[0])])[0].usage.failures == 1
    assert law.decide([Request(beacon_views[1])])[0].output == RECORD
    assert ["response_format" in body for body in server.seen] == [True, False, True]


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
    server = unruly("broken", "good")
    law = ChatLaw(server.url, "m", cache=str(tmp_path / "r.sqlite3"), **PATIENT)
    assert law.decide([Request(beacon_views[0])])[0].usage.failures == 1
    assert law.decide([Request(beacon_views[0])])[0].output == RECORD


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
    monkeypatch.setattr("waggle.laws.endpoint.LOCK_SECONDS", 1.0)
    server, path = unruly("good"), tmp_path / "r.sqlite3"
    law = ChatLaw(server.url, "m", cache=str(path), **PATIENT)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        decodes = law.decide([Request(view) for view in beacon_views[:8]])
    assert [d.output for d in decodes] == [RECORD] * 8
    assert time.monotonic() - start < 6


def test_a_dead_endpoint_is_left_alone_after_a_while(unruly: Any, beacon_views: Any) -> None:
    server = unruly("broken")
    law = ChatLaw(server.url, "m", timeout=5, retries=0, concurrency=1, patience=3)
    decodes = law.decide([Request(view) for view in beacon_views[:10]])
    assert sum(d.usage.failures for d in decodes) == 10
    assert len(server.seen) == 3


def test_feedback_of_a_failed_decode_is_quoted(unruly: Any, beacon_views: Any) -> None:
    server = unruly("good")
    request = Request(beacon_views[0], feedback=("json.syntax",), previous='{"oops')
    ChatLaw(server.url, "m", **QUICK).decide([request])
    turns = server.seen[0]["messages"]
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert turns[2]["content"] == '{"oops'
    assert "json.syntax" in turns[3]["content"]


def test_an_episode_survives_a_dead_endpoint() -> None:
    case = Case("beacon", "beacon", 6, 10_002, 3)
    law = ChatLaw("http://127.0.0.1:9/v1", "m", patience=2, **QUICK)
    footer = Engine(plugins.get_substrate("beacon").open(case), law, case).play()
    assert footer.rounds == 3


@pytest.mark.parametrize(
    "options",
    [{"base_url": "localhost"}, {"concurrency": 0}, {"timeout": float("nan")},
     {"response_format": "xml"}, {"temperature": 9}, {"cache": "/dev/null/x/y"},
     {"base_url": "http://"}, {"base_url": "http://[h"}, {"base_url": "http://h:99999"},
     {"base_url": "http://h:port"}, {"base_url": "http://a b"}, {"base_url": "http://h\n"},
     {"base_url": "http://\u2603"}, {"max_tokens": 0}, {"api_key_env": "ODD_KEY"}],
)  # fmt: skip
def test_bad_options_say_the_fix(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", "schlüssel")
    with pytest.raises(ConfigError) as caught:
        ChatLaw(**options)
    assert "\n" not in str(caught.value) and "schl" not in str(caught.value)
