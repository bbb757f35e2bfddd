"""A bad decode is data: every text gets a decision or codes, and an envelope is only stripped."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.strategies import pairs
from waggle.core import decode
from waggle.core.canon import encode_decision
from waggle.core.decode import CODES, MAX_TEXT, parse
from waggle.core.schema import Decision, View

GOOD = '{"task_action":"GO","response":null,"deposits":[],"commit":null}'
DEPOSIT = '{"channel":"ha","claim":"z1","novelty":1,"support":1,"conflict":0,"ttl":3}'
ONE = GOOD.replace("[]", f"[{DEPOSIT}]")

BAD: dict[str, list[str | bytes]] = {
    "text.size": ["x" * (MAX_TEXT + 1), "é" * (MAX_TEXT // 2 + 1), b"{" * 1_000_000],
    "text.encoding": [b"\xff\xfe", GOOD.replace("GO", "\ud800"), GOOD.replace("GO", "\\ud800")],
    "text.none": ["", " \n", "I would rather wait.", "```json\n```"],
    "json.truncated": [GOOD[:-1], GOOD[:40], "```json\n" + GOOD[:30], '{"a": "'],
    "json.syntax": [GOOD.replace(":null", ":none"), "{'task_action': 'GO'}", '{"a" 1}', "{]}"],
    "json.depth": ['{"a":' + "[" * 5000 + "]" * 5000 + "}", '{"a":' * 200 + "1" + "}" * 200],
    "json.number": [
        ONE.replace('"ttl":3', f'"ttl":{n}')
        for n in ("NaN", "Infinity", "-Infinity", "1e2", "3.0", "9" * 400)
    ],
    "json.duplicate": [GOOD.replace("{", '{"task_action":"WAIT",', 1)],
    "shape.missing": ["{}", GOOD.replace('"response":null,', ""), ONE.replace(',"ttl":3', "")],
    "shape.unknown": [
        GOOD.replace("{", '{"mode":"Relay",', 1), ONE.replace('"ttl"', '"x":1,"ttl"'),
    ],
    "shape.type": [
        GOOD.replace('"GO"', "3"), GOOD.replace("[]", "{}"), GOOD.replace("[]", "[1]"),
        ONE.replace('"ttl":3', '"ttl":true'), ONE.replace('"ttl":3', '"ttl":"3"'),
        GOOD.replace('"commit":null', '"commit":"z1"'),
        GOOD.replace('"response":null', '"response":[]'),
        GOOD.replace('"commit":null', '"commit":{"claim":"z1","confidence_bin":false}'),
    ],
}  # fmt: skip


def test_every_code_is_triggered() -> None:
    assert set(BAD) == set(CODES)


@pytest.mark.parametrize(("code", "text"), [(c, t) for c, texts in BAD.items() for t in texts])
def test_bad_text_has_its_code(code: str, text: str | bytes) -> None:
    start = time.process_time()
    found = parse(text)
    assert found.decision is None and code in found.codes
    assert set(found.codes) <= set(CODES)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{ONE}\n```", f"```\n{ONE}```", f"Sure, here it is:\n{ONE}\nGood luck {{}}!",
        f'{{"decision":{ONE}}}', f'{{"Output": {ONE} }}', "\ufeff" + ONE, f"\n {ONE} \n",
        f'```json\n{{"decision": {ONE}}}\n```', f"``` ```\n{ONE}",
        f"The view shows {{channel, claim}} and {{}}, so: {ONE}",
    ],
)  # fmt: skip
def test_envelope_is_stripped_and_counted(text: str) -> None:
    found = parse(text)
    assert found.normalized and found.codes == ()
    assert found.decision == parse(ONE).decision


@pytest.mark.parametrize(
    "text",
    [
        '{"' + '\\"' * 8000, '{"' + "\\" * 16_001, "```" + " " * 16_000, "```" * 5000, "{" * 16_000,
        '{"a":"' * 2700, "{}" * 8000, "```{" * 4000, '"' * 16_000, "{'" * 8000, "`" * 16_000,
    ],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    start = time.process_time()
    assert parse(text).decision is None
    assert time.process_time() - start < 0.2


def test_only_one_wrapper_is_stripped() -> None:
    assert parse(f'{{"decision":{{"decision":{ONE}}}}}').decision is None


def test_strict_text_is_not_normalized() -> None:
    assert not parse(ONE).normalized and not parse(ONE.encode()).normalized


@given(pairs(), st.data())
def test_canonical_text_is_read_as_any_other(
    pair: tuple[View, Decision], data: st.DataObject
) -> None:
    """The short way for canonical texts gives what the long way gives, for broken ones too."""
    text = encode_decision(pair[1]).decode()
    at = data.draw(st.integers(0, len(text)))
    other = data.draw(
        st.sampled_from(("", " ", "0", "9" * 9, "-", ".0", '"', "{", "}", ",", "\\u0041"))
    )
    for given_text in (text, text[:at] + other + text[at:], text[:at] + text[at + 1 :]):
        found = parse(given_text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode, "_canonical", lambda plain: None)
            assert parse(given_text) == found


@pytest.mark.parametrize(
    "number", ["123456789", "1234567890", "-12345678", "-123456789", "-0", "3.0"]
)
def test_long_numbers_are_read_as_any_other(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ONE.replace('"ttl":3', f'"ttl":{number}')
    found = parse(text)
    monkeypatch.setattr(decode, "_canonical", lambda plain: None)
    assert parse(text) == found


def test_salvage_keeps_the_well_typed_rest() -> None:
    text = ONE.replace("[", "[7,").replace("{", '{"mode":"Relay",', 1)
    found = parse(text)
    assert found.decision is None and set(found.codes) == {"shape.type", "shape.unknown"}
    assert found.salvage == parse(ONE).decision


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_text_has_an_answer(text: str | bytes) -> None:
    found = parse(text)
    assert (found.decision is None) == bool(found.codes)


@given(pairs(), st.sampled_from(("{}", "Here: {}", "```json\n{}\n```", '{{"record":{}}}')))
def test_records_survive_an_envelope(pair: tuple[View, Decision], envelope: str) -> None:
    text = encode_decision(pair[1]).decode()
    assert parse(envelope.format(text)).decision == pair[1]
