"""The grammar spells exactly its language, byte by byte and token by token."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waggle.core.errors import ConfigError
from waggle.core.forms import IntRange, Literal, Text
from waggle.engine.constraint.form_making import chain, choice, measured
from waggle.engine.constraint.grammar import Common, Grammar
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.constraint.states import State
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.models.nano import byte_tokenizer

WORDS = st.lists(st.text(alphabet='ab{"1,', min_size=0, max_size=6), min_size=1, max_size=12)


def language(grammar: Grammar) -> set[str]:
    """Spell every admissible string."""
    found: set[str] = set()
    frontier: list[tuple[bytes, State]] = [(b"", grammar.start())]
    while frontier:
        text, state = frontier.pop()
        if state.accepting:
            found.add(text.decode())
        for byte in {label[:1] for label, _ in state.items}:
            after = grammar.advance(state, byte)
            assert after is not None
            frontier.append((text + byte, after))
    return found


@given(WORDS)
@settings(deadline=None)
def test_a_set_of_strings_is_its_own_language(words: list[str]) -> None:
    assert language(Grammar.of_strings(words)) == set(words)
    assert language(Grammar.of(choice(*words))) == set(words)


def test_pieces_combine() -> None:
    grammar = Grammar.of(chain("n=", IntRange(8, 11), choice("", chain(";", choice("a", "ab")))))
    tails = ["", ";a", ";ab"]
    assert language(grammar) == {f"n={n}{tail}" for n in range(8, 12) for tail in tails}
    assert grammar.accepts("n=10;ab")
    assert not grammar.accepts("n=12")
    assert not grammar.accepts("n=1")


def test_labels_reach_to_the_next_choice() -> None:
    grammar = Grammar.of(chain('{"a":', choice("true", "trap"), "}"))
    assert [label for label, _ in grammar.start().items] == [b'{"a":']
    after = grammar.advance(grammar.start(), b'{"a":tr')
    assert after is not None
    assert sorted(label for label, _ in after.items) == [b"ap}", b"ue}"]


def test_text_outside_ascii_is_escaped_as_json_does() -> None:
    grammar = Grammar.of('"caf\u00e9"')
    assert language(grammar) == {'"caf\\u00e9"'}
    assert measured(Literal('"caf\u00e9"'), {}) == len('"caf\\u00e9"')


def test_a_free_text_stands_for_what_is_offered_beside_it() -> None:
    assert language(Grammar.of(chain("<", choice("a", Text(9)), ">"))) == {"<a>"}
    assert language(Grammar.of(chain("<", Text(9), ">"))) == {"<>"}


@pytest.mark.parametrize(
    ("piece", "message"),
    [(choice(), "at least one option"), (IntRange(3, 2), "narrow it")],
)
def test_bad_grammars_say_the_fix(piece: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Grammar.of(piece)
    with pytest.raises(ConfigError, match="at least one admissible"):
        Grammar.of_strings([])


def merged_tokenizer() -> Any:
    texts = ['{"novelty":3,"support":2,"to":"h1"}', "[{}]", '"},{"', "deposit depot"] * 20
    return byte_tokenizer(texts, 256 + 3 + 60)


@pytest.mark.parametrize("build", [byte_tokenizer, merged_tokenizer])
@given(words=WORDS)
@settings(deadline=None, max_examples=40)
def test_token_walks_spell_the_language_canonically(build: Any, words: list[str]) -> None:
    """All walks end in the language, reach all of it, and use the tokenizer's own encoding."""
    vocabulary = Vocabulary(build())
    constraint = Constraint(Grammar.of_strings(words), vocabulary, end_token=-1)
    found: dict[str, tuple[int, ...]] = {}
    frontier: list[tuple[int, ...]] = [()]
    while frontier:
        taken = frontier.pop()
        walk = constraint.walk()
        for token in taken:
            walk.take(token)
        options = walk.options()
        if not options.tokens:
            spelled = tuple(token for token in taken if token != -1)
            found[b"".join(map(vocabulary.spelling, spelled)).decode()] = spelled
        frontier.extend((*taken, token) for token in options.tokens)
    assert set(found) == set(words)
    for text, tokens in found.items():
        assert tokens == vocabulary.encode(text.encode())


def test_thousands_of_records_stay_small() -> None:
    bins = [
        f'{{"n":{a},"s":{b},"c":{c},"t":{t}}}'
        for a in range(5)
        for b in range(5)
        for c in range(5)
        for t in range(13)
    ]
    grammar = Grammar.of_strings(bins)
    assert len(grammar._own.rests) < 4, "nothing is unfolded before it is walked"
    language(grammar)
    assert len(grammar._own.rests) < 80
    assert all(grammar.accepts(text) for text in bins)


def test_what_views_share_is_unfolded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Common pieces serve every grammar, and a grammar outlives their being forgotten."""
    from waggle.core import grammar as pieces
    from waggle.core.options import Commit, Range, Write

    write = Write("z77", None, Range(0, 2), Range(0, 1), Range(0, 0), Range(1, 3))

    common = Common()

    def made(*actions: str) -> Grammar:
        single = pieces._single(write, (Commit("z77", Range(0, 1)),))
        form = chain('{"a":"', choice(*actions), single, pieces._CLOSE)
        return Grammar(form, common=common)

    first, second = made("UP", "DOWN"), made("LEFT", "DOWN", "STAY")
    words = language(first)
    assert len(language(second)) == 3 * len(words) // 2
    assert {w.replace("UP", "STAY") for w in words} <= set(language(second))
    assert len(second._own.rests) < 6 < len(second._common.rests)
    assert second._common is first._common
    monkeypatch.setattr("waggle.engine.constraint.grammar.MAX_COMMON", 0)
    pieces._single.cache_clear()
    assert made("UP")._common is not first._common
    assert set(language(made("UP", "DOWN"))) == set(words) == set(language(first))
