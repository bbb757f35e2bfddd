"""The prompt is the same for every node up to the view, and its prefix for a whole episode."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from tests.core.examples import VIEW
from tests.core.strategies import views
from waggle.core.canon import decode_view, encode_view
from waggle.core.prompt import INSTRUCTION, MAX_PREVIOUS, messages, prefix, tail
from waggle.core.schema import View

PAPER = Path(__file__).parents[3] / "shared" / "paper"


@given(views())
def test_prefix_and_tail_are_the_user_turn(view: View) -> None:
    turns = messages(view)
    assert [t["role"] for t in turns] == ["system", "user"]
    user = turns[1]["content"]
    assert user == prefix(view.contract) + tail(view)
    assert decode_view(user[user.index('{"contract"') :].encode()) == view
    assert encode_view(view).decode() in user


def test_prefix_does_not_depend_on_the_node() -> None:
    other = msgspec.structs.replace(VIEW, budget=0, traces=(), commitment=None)
    first, second = messages(VIEW)[1]["content"], messages(other)[1]["content"]
    shared = prefix(VIEW.contract)
    assert first.startswith(shared) and second.startswith(shared)
    assert messages(VIEW)[0] == messages(other)[0]


def test_regeneration_quotes_the_codes() -> None:
    turns = messages(VIEW, ("relay.ttl",), "x" * 10_000)
    assert [t["role"] for t in turns] == ["system", "user", "assistant", "user"]
    assert len(turns[2]["content"]) == MAX_PREVIOUS
    assert "relay.ttl" in turns[3]["content"] and "ttl step" in turns[3]["content"]


def test_instruction_is_the_paper_word_for_word() -> None:
    if not PAPER.is_dir():
        pytest.skip("the paper's text is not beside this checkout")
    text = " ".join(" ".join(f.read_text() for f in PAPER.glob("*.txt")).split())
    assert INSTRUCTION in text
