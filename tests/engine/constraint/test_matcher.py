"""A matcher spells its grammar in the tokenizer's own tokens, whatever other matches found out."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import workload
from tests.laws_llm.conftest import played
from waggle.core.forms import Literal
from waggle.core.schema import View
from waggle.engine.constraint.grammar import Grammar, SharedStates, State, choice
from waggle.engine.constraint.matcher import Matcher
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.laws.spelling import view_grammar
from waggle.models.nano import byte_tokenizer

WORDS = st.lists(st.text(alphabet='ab{"1,', min_size=0, max_size=6), min_size=1, max_size=12)
END = -1


def merged_tokenizer() -> Any:
    texts = ['{"novelty":3,"support":2,"to":"h1"}', "[{}]", '"},{"', "deposit depot"] * 20
    return byte_tokenizer(texts, 256 + 3 + 60)


@pytest.mark.parametrize("build", [byte_tokenizer, merged_tokenizer])
@given(words=WORDS)
@settings(deadline=None, max_examples=40)
def test_matches_spell_the_language_canonically(build: Callable[[], Any], words: list[str]) -> None:
    """All matches end in the language, reach all of it, and use the tokenizer's own encoding."""
    vocabulary = Vocabulary(build())
    matcher = Matcher(Grammar(choice(*words)), vocabulary, END)
    found: dict[str, tuple[int, ...]] = {}
    frontier: list[tuple[int, ...]] = [()]
    while frontier:
        taken = frontier.pop()
        state: State | None = matcher.grammar.start()
        for token in taken:
            assert state is not None
            state = matcher.accept_one(state, token)
        assert state is not None
        allowed = matcher.mask(state)
        if not allowed:
            spelled = tuple(token for token in taken if token != END)
            found[b"".join(map(vocabulary.spelling, spelled)).decode()] = spelled
        frontier.extend((*taken, token) for token in allowed)
    assert set(found) == set(words)
    for text, tokens in found.items():
        assert tokens == vocabulary.encode(text.encode())
    assert {tuple(t for t in said if t != END) for said in jumps(matcher)} == set(found.values())


def jumps(matcher: Matcher) -> set[tuple[int, ...]]:
    """Return every answer in tokens, by the jumps that sequences take."""
    found: set[tuple[int, ...]] = set()
    frontier: list[tuple[tuple[int, ...], State, tuple[int, ...]]] = [((), *matcher.start())]
    while frontier:
        before, state, forced = frontier.pop()
        said = (*before, *forced)
        if not state.edges:
            found.add(said)
        frontier += [((*said, t), *matcher.accept(state, t)) for t in matcher.mask(state)]
    return found


def test_a_token_that_is_not_allowed_leads_nowhere() -> None:
    matcher = Matcher(Grammar(choice("ab", "ac")), Vocabulary(byte_tokenizer()), END)
    token = matcher.vocabulary.encode(b"x")[0]
    assert matcher.accept_one(matcher.grammar.start(), token) is None
    assert matcher.accept_one(matcher.grammar.start(), END) is None


def by_lot(matcher: Matcher, random: Random) -> list[object]:
    """Take choices by lot; return what was forced and what was allowed each time."""
    state, forced = matcher.start()
    seen: list[object] = [forced]
    while state.edges:
        allowed = matcher.mask(state)
        token = random.choice(allowed)
        state, forced = matcher.accept(state, token)
        seen += [allowed, token, forced]
    return seen


def test_what_other_matches_found_out_does_not_show() -> None:
    """States are shared between the ways that lead to them; what they allow is not changed."""
    vocabulary = Vocabulary(byte_tokenizer())
    for task in workload.tasks(4, 3):
        used = Matcher(workload.named(task.handles, task.claims), vocabulary, 2)
        for seed in range(20):
            fresh = Matcher(workload.named(task.handles, task.claims), vocabulary, 2)
            assert by_lot(used, Random(seed)) == by_lot(fresh, Random(seed))


def answering(view: View, text: str) -> View:
    """Return a view with another answer to give."""
    proposal = msgspec.structs.replace(view.proposal, response=text)
    return msgspec.structs.replace(view, proposal=proposal)


def test_views_that_share_states_are_matched_as_each_alone() -> None:
    views = played("silo/III-26", 4, 2)
    views = [answering(view, text) for text in ("25", "x-25", "") for view in views]
    vocabulary, states = Vocabulary(byte_tokenizer()), SharedStates()
    shared = [Matcher(view_grammar(view, states), vocabulary, END) for view in views]
    for seed in range(12):
        for view, matcher in zip(views, shared, strict=True):
            alone = Matcher(view_grammar(view), vocabulary, END)
            assert by_lot(matcher, Random(seed)) == by_lot(alone, Random(seed))


def test_a_grammar_that_was_given_is_kept() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    given_one = Matcher(Grammar(Literal("a")), vocabulary, END)
    made = Matcher(lambda shared: Grammar(Literal("a")), vocabulary, END)
    before = given_one.grammar, made.grammar
    for matcher in (given_one, made):
        assert matcher.grammar is matcher.grammar
        matcher.release()
    assert given_one.grammar is before[0]
    assert made.grammar is not before[1]
