"""laws/chat against endpoints that time out, refuse, babble, cut and hang up."""

import time
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
        "flattering",
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
    assert time.monotonic() - start < 8


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


def test_response_format_is_unlearned(unruly: Any, beacon_views: Any) -> None:
    server = unruly("picky", "good")
    law = ChatLaw(server.url, "m", **PATIENT)
    assert law.decide([Request(beacon_views[0])])[0].output == RECORD
    law.decide([Request(beacon_views[1])])
    assert ["response_format" in body for body in server.seen] == [True, False, False]


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
     {"response_format": "xml"}, {"temperature": 9}, {"cache": "/dev/null/x/y"}],
)  # fmt: skip
def test_bad_options_say_the_fix(options: Any) -> None:
    with pytest.raises(ConfigError):
        ChatLaw(**options)
