"""Grammars that begin together say what each of them says alone."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws_llm.conftest import played
from waggle.core.forms import GrammarNode, Literal, Sequence
from waggle.core.schema import View
from waggle.engine.constraint.form_making import choice
from waggle.engine.constraint.grammar import Common, Grammar
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.constraint.states import State
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.laws.spelling import view_grammar
from waggle.models.nano import byte_tokenizer

END = -1
HEAD, LEADS = Literal('{"act":'), (Literal('["ASK","say":"'), Literal('("ASK","say":"'))
ASIDE = Sequence((Literal('["AS'), choice("IDE", "K ME"), Literal('","say":null')), common=True)
WAIT = Sequence((Literal("{}"),), common=True)
BEHIND = Sequence((Literal('","to":'), choice("1", "12")), common=True)
CLOSE = Sequence((Literal("}"),), common=True)
ANSWERS = st.lists(st.text(alphabet='aK"1', max_size=4), min_size=1, max_size=3)


def form(answers: list[str], lead: Literal) -> GrammarNode:
    last = Sequence((lead, choice(*answers), BEHIND))
    return Sequence((HEAD, choice(WAIT, ASIDE, last), CLOSE))


def crossing_tokenizer() -> Any:
    """Has tokens that begin before the first choice and end behind it."""
    return byte_tokenizer([':["', ':("', ":{}", '"ASK"', '","', "aa"] * 20, 256 + 3 + 20)


def sayings(constraint: Constraint) -> set[tuple[int, ...]]:
    """Return every answer in tokens, by the leaps that rows take."""
    found: set[tuple[int, ...]] = set()
    frontier: list[tuple[tuple[int, ...], State, tuple[int, ...]]]
    frontier = [((), *constraint.jump(constraint.grammar.start()))]
    while frontier:
        before, state, run = frontier.pop()
        said = (*before, *run)
        if not state.items:
            found.add(said)
        offered = constraint.options(state).tokens
        frontier += [((*said, token), *constraint.leap(state, token)) for token in offered]
    return found


@pytest.mark.parametrize("build", [byte_tokenizer, crossing_tokenizer])
@pytest.mark.parametrize("lead", LEADS)
@given(each=st.lists(ANSWERS, min_size=2, max_size=4))
@settings(deadline=None, max_examples=40)
def test_own_parts_stay_with_their_grammars(
    build: Any, lead: Literal, each: list[list[str]]
) -> None:
    """Whoever was walked before, and walked again when all of them have been."""
    vocabulary, common = Vocabulary(build()), Common()
    forms = [form(answers, lead) for answers in each]
    shared = [Constraint(Grammar(form, common=common), vocabulary, END) for form in forms]
    assert len({id(bound.grammar.start()) for bound in shared}) == 1
    for form_, bound in zip(forms * 2, shared * 2, strict=True):
        assert sayings(bound) == sayings(Constraint(Grammar(form_), vocabulary, END))


def test_a_crossing_token_is_one() -> None:
    vocabulary = Vocabulary(crossing_tokenizer())
    bound = Constraint(Grammar(form(["a"], LEADS[1]), common=Common()), vocabulary, END)
    state, _ = bound.jump(bound.grammar.start())
    assert b':("' in map(vocabulary.spelling, bound.options(state).tokens)


def test_what_a_lookahead_could_see_is_not_shared() -> None:
    common, near = Common(), Literal("[ASK")
    forms = [form([answer], near) for answer in ("a", "b")]
    first, second = (Grammar(form, common=common) for form in forms)
    assert first.start() is not second.start()
    assert first.accepts('{"act":[ASKa","to":1}') and not first.accepts('{"act":[ASKb","to":1}')
    assert second.accepts('{"act":[ASKb","to":12}')


def walked(bound: Constraint, seed: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Take choices by lot; return what was forced and what was offered each time."""
    random, found = Random(seed), []
    state, run = bound.jump(bound.grammar.start())
    while state.items:
        offered = bound.options(state).tokens
        found.append((run, offered))
        state, run = bound.leap(state, random.choice(offered))
    return [*found, (run, ())]


def answering(view: View, text: str) -> View:
    """Return a view with another answer to give."""
    proposal = msgspec.structs.replace(view.proposal, response=text)
    return msgspec.structs.replace(view, proposal=proposal)


def test_views_that_may_answer_begin_together() -> None:
    """And go on as their grammars do that know nothing of one another."""
    views = played("silo/III-26", 4, 2)
    views = [answering(view, text) for text in ("25", "x-25", "") for view in views]
    vocabulary, common = Vocabulary(byte_tokenizer()), Common()
    shared = [Constraint(view_grammar(view, common), vocabulary, END) for view in views]
    assert len({id(bound.grammar.start()) for bound in shared}) <= len(views) // 3
    for seed in range(12):
        for view, bound in zip(views, shared, strict=True):
            alone = Constraint(view_grammar(view), vocabulary, END)
            assert walked(bound, seed) == walked(alone, seed)
