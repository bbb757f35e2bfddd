"""Parsers of named replies: official quirks, and no reply that can hurt."""

from waggle.substrates.agentsnet.vectors import MAX_REPLY, parse_answer, parse_messages


def test_an_object_must_end_at_the_last_brace() -> None:
    assert parse_messages('{"Alan": "x"} and }') is None
    assert parse_messages('{"Alan": "one"} then {"Mary": "two"}') == {"Mary": "two"}


def test_an_escaped_newline_breaks_the_string() -> None:
    assert parse_messages('{"Alan": "a\\nb"}') is None


def test_silence_is_not_failure() -> None:
    assert parse_messages("{}") == {}
    assert parse_messages("nothing") is None


def test_hostile_replies_are_unreadable_not_fatal() -> None:
    assert parse_messages('{"a":' * 6_000 + "}") is None
    assert parse_messages("{" * MAX_REPLY + "}") is None
    assert parse_messages('{"Alan": "' + "x" * MAX_REPLY + '"}') is None
    assert parse_answer("### Final Answer ###" + " " * MAX_REPLY, ["Yes"]) is None
    assert parse_answer("### Final Answer ### Yes", []) is None


def test_answers_are_prefixes_in_list_order() -> None:
    assert parse_answer("### Final Answer ### Anna", ["Ann", "Anna"]) == "Ann"
    assert parse_answer("### Final Answer ### Anna", ["Anna", "Ann"]) == "Anna"
    assert parse_answer("### Final Answer ### ? ### Final Answer ###No", ["Yes", "No"]) == "No"
