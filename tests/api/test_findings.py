"""What stands against an episode: illegal decisions, refused workers; nothing where all is well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import waggle
from waggle.core.schema import WAIT, Decision, private_decision

Answer = Callable[[waggle.Request], str | Decision]


def noted(answer: Answer) -> str:
    """Return the note on an episode in which every answer is made by a function."""

    class Given:
        name = "given"

        def decide(self, requests: Sequence[waggle.Request]) -> list[waggle.Decode]:
            return [waggle.Decode(answer(request)) for request in requests]

    episode = waggle.run("beacon", Given(), n=5, rounds=4, progress=False)
    assert episode.note in repr(episode)
    return episode.note


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda request: "I would rather not", "text.none: A decode holds one JSON object."),
        (lambda request: '{"task_action": "WATCH"', "json.truncated: The JSON object is closed."),
        (lambda request: Decision("FLY", None, (), None), "action.unknown: The task action is"),
    ],
)
def test_a_law_whose_answers_are_illegal_is_noted(answer: Answer, code: str) -> None:
    note = noted(answer)
    assert note.startswith(f"20 of 20 decisions were not executable (mostly {code}")
    assert note.endswith("took their place; see `episode.show(0, 0)`") and "\n" not in note


def test_a_law_that_is_legal_or_nearly_so_is_not_noted() -> None:
    assert noted(lambda request: private_decision(request.view)) == ""
    asked = iter(range(100))
    assert noted(lambda r: "?" if next(asked) < 5 else Decision(WAIT, None, (), None)) == ""


def test_a_worker_whose_answers_are_refused_gives_no_result() -> None:
    def fly(work: Any) -> str:
        return "FLY"

    episode = waggle.run("pursuit", worker=fly, n=4, rounds=3, progress=False)
    assert episode.note == (
        "no result: 12 of 12 answers of private worker 'fly' were refused, over the limit of 20%"
    )
    assert waggle.run("pursuit", worker="native", n=4, rounds=3, progress=False).note == ""
