"""Grammars that begin alike share their first choice, and each still says what it alone would."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.strategies import views
from tests.engine.test_grammar import merged_tokenizer
from waggle.core import grammar as pieces
from waggle.core.forms import GrammarNode, Literal, Sequence, Text
from waggle.core.schema import View
from waggle.engine import heads
from waggle.engine.constraint import Constraint
from waggle.engine.form_making import chain, choice
from waggle.engine.grammar import Common, Grammar
from waggle.engine.nano import byte_tokenizer
from waggle.engine.vocabulary import Vocabulary
from waggle.laws.spelling import view_grammar

END_TOKEN = 2
CLOSE = Sequence((Literal("}"),), common=True)
DEPOSITS = Sequence((Literal('","deposits":'), choice("[]", "[1]", "[12]")), common=True)
SAID = ("", "7", "ANSWER", '#9","d', "true", "posit")


def quiet(*verbs: str) -> tuple[GrammarNode, ...]:
    """Acts that all have, with what follows them."""
    behind = Literal('","response":null,"deposits":[]')
    return tuple(Sequence((Literal(verb), behind), common=True) for verb in verbs)


def record(acts: tuple[GrammarNode, ...], begin: str, said: str, rest: GrammarNode) -> GrammarNode:
    """A record with an act of its own."""
    spoken = chain(begin, choice(said, Text(9)), rest)
    return chain('{"act":"', choice(*acts, spoken), CLOSE)


def answers(constraint: Constraint) -> set[tuple[int, ...]]:
    """Every answer, by leaps from the beginning."""
    state, run = constraint.begin()
    found, frontier = set(), [(state, run)]
    while frontier:
        state, said = frontier.pop()
        if not state.items:
            found.add(said)
            continue
        for token in constraint.options(state).tokens:
            after, run = constraint.leap(state, token)
            frontier.append((after, (*said, token, *run)))
    return found


def walked(constraint: Constraint) -> set[tuple[int, ...]]:
    """Every answer, token by token, nothing shared."""
    found: set[tuple[int, ...]] = set()
    frontier: list[tuple[int, ...]] = [()]
    while frontier:
        said = frontier.pop()
        walk = constraint.walk()
        for token in said:
            walk.take(token)
        if walk.finished:
            found.add(said)
        frontier += [(*said, token) for token in walk.options().tokens]
    return found


VERBS = {
    "apart": ("WAIT", "GATHER"),
    "alike": ("WAIT", "ANSWERS", "AN"),
    "none": (),
    "one letter": ("A", "AA"),
}


@pytest.mark.parametrize("build", [byte_tokenizer, merged_tokenizer])
@pytest.mark.parametrize("begin", ['ANSWER","response":"', 'A","r":"', "A", "de"])
@pytest.mark.parametrize("kind", VERBS)
def test_each_grammar_says_what_it_alone_would(build: Any, begin: str, kind: str) -> None:
    vocabulary, common, acts = Vocabulary(build()), Common(), quiet(*VERBS[kind])
    for said in (*SAID, *SAID):
        form = record(acts, begin, said, DEPOSITS)
        bound = Constraint(Grammar(form, common=common), vocabulary, END_TOKEN)
        alone = Constraint(Grammar(form), Vocabulary(vocabulary.tokenizer), END_TOKEN)
        assert answers(bound) == walked(alone)
    assert len(common.found().heads) == 1, "one outline"


def test_what_all_have_is_leapt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary, common, acts = Vocabulary(byte_tokenizer()), Common(), quiet("WAIT", "GATHER")

    def bound(said: str) -> Constraint:
        form = record(acts, 'ANSWER","response":"', said, DEPOSITS)
        return Constraint(Grammar(form, common=common), vocabulary, END_TOKEN)

    first, second = bound("x"), bound("y")
    (state, run), (same, again) = first.begin(), second.begin()
    assert state is same and run == again
    wait, answer = (vocabulary.encode(text)[0] for text in (b"W", b"A"))
    behind = first.leap(state, wait)
    assert first.leap(state, answer)[1] != second.leap(state, answer)[1], "another's response"
    assert answer not in state.memo.leaps
    monkeypatch.setattr(second, "follow", None)
    assert second.leap(state, wait) is behind


@pytest.mark.parametrize(
    "form",
    [
        chain('{"act":"', choice(*quiet("UP"), chain("DOWN", "x", DEPOSITS)), CLOSE),
        chain('{"act":"', choice(*quiet("UP"), chain("DOWN", choice("", "x"))), CLOSE),
        chain('{"act":"', choice(*quiet("UP"), "DOWN"), CLOSE),
        chain('{"act":"', choice(*quiet("UP"), Text(4)), CLOSE),
        chain('{"act":"', choice(*quiet("UP")), "}"),
        chain(choice("a", "b"), choice(*quiet("UP")), CLOSE),
        Sequence((Literal("{"), choice(*quiet("UP")), CLOSE), common=True),
        Literal("{}"),
    ],
)
def test_other_forms_have_no_outline(form: GrammarNode) -> None:
    assert heads.outline(form) is None
    constraint = Constraint(Grammar(form, common=Common()), Vocabulary(byte_tokenizer()), END_TOKEN)
    assert answers(constraint) == walked(constraint)


def drawn(constraint: Constraint, shared: bool, seed: int) -> list[tuple[int, ...]]:
    """One answer by chance: what is forced and what is offered on its way."""
    random, start = Random(seed), constraint.grammar.start()
    state, run = constraint.begin() if shared else constraint.jump(start)
    found = [run]
    while state.items:
        offered = constraint.options(state).tokens
        state, run = constraint.leap(state, random.choice(offered))
        found += [offered, run]
    return found


KEPT = Vocabulary(merged_tokenizer())
COMMON = Common()


def saying(view: View, said: str) -> View:
    """A view that offers a response."""
    contract = replace(view.contract, actions=("WAIT", "GATHER", "ANSWER"), response="ANSWER")
    return replace(view, contract=contract, proposal=replace(view.proposal, response=said))


@given(view=views(), said=st.lists(st.sampled_from(SAID), min_size=2, max_size=3))
@settings(deadline=None, max_examples=60)
def test_views_that_differ_in_their_response_alone(view: View, said: list[str]) -> None:
    pieces._quiet.cache_clear()  # nodes go, and others take their places in memory
    for text in said:
        offered = saying(view, text)
        bound = Constraint(view_grammar(offered, COMMON), KEPT, END_TOKEN)
        alone = Constraint(view_grammar(offered), Vocabulary(KEPT.tokenizer), END_TOKEN)
        for seed in range(6):
            assert drawn(bound, True, seed) == drawn(alone, False, seed)
    assert any(COMMON.found().heads.values()), "nothing was shared"
