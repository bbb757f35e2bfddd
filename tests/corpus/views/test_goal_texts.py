"""Asides change no answer, and only words that decide tell agreement from its near misses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from waggle.core.protocols import Case
from waggle.corpus.views import words
from waggle.corpus.views.goal_texts import Kind, goal, near_miss, with_asides
from waggle.corpus.views.native import open_case
from waggle.corpus.views.rng import Draw
from waggle.laws.expert import stances

COUNT = 2000
SELDOM = 0.02
"""Signs in a smaller share of the goals of either kind are left out."""
PAIR = ("IN", "OUT")


def decides(word: str) -> bool:
    """Whether the teacher reads a word: for sameness, for all, or as an exception."""
    return (
        stances.alike(f"{word} all")
        or stances.alike(f"same {word}")
        or not stances.alike(f"same all {word}")
    )


def signs(goal: str) -> list[str]:
    """Return the words and marks of a goal; all numbers are one sign."""
    return re.findall(r"[a-z]+|[^a-z\s]", re.sub(r"\d+", "0", goal.lower()))


def odds(alike: Sequence[str], misses: Sequence[str]) -> dict[str, float]:
    """Return how many times likelier each sign that does not decide makes agreement."""
    held = [Counter(sign for text in kind for sign in set(signs(text))) for kind in (alike, misses)]
    yes, no = held
    seen = {s for s in yes | no if max(yes[s] / len(alike), no[s] / len(misses)) >= SELDOM}

    def ratio(sign: str) -> float:
        for_, against = yes[sign] + 0.5, no[sign] + 0.5
        return for_ / (len(alike) - for_ + 1) / (against / (len(misses) - against + 1))

    return {sign: ratio(sign) for sign in seen if not decides(sign)}


def worst(found: Iterable[tuple[str, float]], bound: float) -> dict[str, float]:
    """Return the signs that are beyond a bound, either way."""
    return {sign: times for sign, times in found if not 1 / bound < times < bound}


@pytest.fixture(scope="module")
def kinds() -> tuple[list[str], list[str]]:
    """Make up goals of agreement and near misses for the same actions."""
    alike, misses = [], []
    for number in range(COUNT):
        draw = Draw(11, "signs", number)
        actions = words.actions(draw, 2 if draw.chance(67) else draw.between(3, 9))
        alike.append(goal(draw, "alike", actions))
        misses.append(near_miss(draw, actions, carried=draw.chance(50)))
    return alike, misses


def test_no_sign_that_does_not_decide_tells_agreement_from_near_misses(
    kinds: tuple[list[str], list[str]],
) -> None:
    found = odds(*kinds)
    assert len(found) > 150
    assert worst(found.items(), 3) == {}
    marks = (";", ":", ",", "!", "0", "contact", "contacts", "neighbour", "neighbours", "edge",
             "two", "next", "takes", "deposit")  # fmt: skip
    assert worst(((mark, found[mark]) for mark in marks), 2) == {}


def test_a_sign_on_one_side_would_be_found(kinds: tuple[list[str], list[str]]) -> None:
    alike, misses = kinds
    assert ";" in worst(odds([goal.replace(";", ".") for goal in alike], misses).items(), 3)
    renamed = [goal.replace("contact", "friend") for goal in alike]
    assert {"contact", "friend"} <= set(worst(odds(renamed, misses).items(), 3))


def test_goals_of_both_kinds_are_about_as_long(kinds: tuple[list[str], list[str]]) -> None:
    for size in (lambda goal: len(signs(goal)), lambda goal: len(re.split("[.;:!]", goal))):
        alike, misses = (sum(map(size, kind)) for kind in kinds)
        assert 0.8 < alike / misses < 1.25


def test_asides_never_ask_for_agreement_nor_take_it_back() -> None:
    said = [with_asides(Draw(1, "besides", i), "", PAIR) for i in range(3000)]
    assert not any(map(stances.alike, said))
    assert len(set(said)) > 2900
    for number in range(500):
        draw = Draw(2, "beside", number)
        assert stances.alike(with_asides(draw, "say the same word as everybody", PAIR))
        assert not stances.alike(with_asides(draw, "all but one say the same", PAIR))


def test_words_for_sameness_all_and_exceptions_occur_in_asides_too() -> None:
    said = [with_asides(Draw(3, "besides", i), "", PAIR) for i in range(1000)]
    for word in ("same", "all", "each", "not", "only", "no", "never", "different", "but"):
        assert sum(word in signs(goal) for goal in said) > 20, word


def test_actions_keep_their_spelling_and_clauses_begin_as_sentences_do() -> None:
    pair = ("go_In", "oUt 3")
    for number in range(500):
        text = with_asides(Draw(4, "besides", number), "", pair)
        assert text[-1] in ".!" and not text.endswith(("..", ";.", ":."))
        for start in re.findall(r"(?:^|[.!] )(\S+)", text):
            assert start[0].isupper() or start in ("go_In", "oUt") or not start[0].isalpha()
        assert "Go_In" not in text and "OUt" not in text


def test_agreement_is_told_from_near_misses_that_use_its_words() -> None:
    alike = [goal(Draw(1, "alike", i), "alike", PAIR) for i in range(600)]
    near: tuple[tuple[Kind, str], ...] = (("apart", "apart"), ("single", "one"), ("edges", "edges"))
    misses = [
        goal(Draw(1, name, i), kind, (*PAIR, "BY")[: 3 if kind == "apart" else 2])
        for kind, name in near
        for i in range(600)
    ]
    assert all(map(stances.alike, alike))
    assert not any(map(stances.alike, misses))
    assert len(set(alike)) > 500
    for word in ("same", "all"):
        assert sum(word in signs(text) for text in misses) > 300


def runs(text: str, size: int = 4) -> set[tuple[str, ...]]:
    """Return the runs of so many words in a text."""
    found = re.findall(r"[a-z]+", text.lower())
    return {tuple(found[i : i + size]) for i in range(len(found) - size + 1)}


def test_no_goal_holds_four_words_in_a_row_of_a_transfer_contract() -> None:
    foreign: set[tuple[str, ...]] = set()
    for task in ("coloring", "consensus", "leader_election", "matching", "vertex_cover"):
        foreign |= runs(open_case(Case("agentsnet", task, 8, 10_000))[1].contract.goal)
    for i in range(1000):
        draw = Draw(2, "goal", i)
        pair = ("Yes", "No")
        made = [goal(draw, "alike", pair), near_miss(draw, ("a", "b", "c"), carried=False)]
        made += [near_miss(draw, pair, carried=carried) for carried in (False, True)]
        assert not any(runs(text) & foreign for text in made)
