"""A grammar spells exactly its language, byte by byte, whatever states it shares."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.workload import accepts
from waggle.core.forms import IntRange, Literal, Text
from waggle.engine.constraint.grammar import (
    Grammar,
    SharedStates,
    State,
    chain,
    choice,
)

WORDS = st.lists(st.text(alphabet='ab{"1,', min_size=0, max_size=6), min_size=1, max_size=12)


def language(grammar: Grammar) -> set[str]:
    """Spell every admissible string."""
    found: set[str] = set()
    frontier: list[tuple[bytes, State]] = [(b"", grammar.start())]
    while frontier:
        text, state = frontier.pop()
        if state.accepting:
            found.add(text.decode())
        for byte in {label[:1] for label, _ in state.edges}:
            after = grammar.advance(state, byte)
            assert after is not None
            frontier.append((text + byte, after))
    return found


@given(WORDS)
@settings(deadline=None)
def test_a_set_of_strings_is_its_own_language(words: list[str]) -> None:
    assert language(Grammar(choice(*words))) == set(words)


def test_pieces_combine() -> None:
    grammar = Grammar(chain("n=", IntRange(8, 11), choice("", chain(";", choice("a", "ab")))))
    tails = ["", ";a", ";ab"]
    assert language(grammar) == {f"n={n}{tail}" for n in range(8, 12) for tail in tails}
    assert accepts(grammar, "n=10;ab")
    assert not accepts(grammar, "n=12")
    assert not accepts(grammar, "n=1")


def test_labels_reach_to_the_next_choice() -> None:
    grammar = Grammar(chain('{"a":', choice("true", "trap"), "}"))
    assert [label for label, _ in grammar.start().edges] == [b'{"a":']
    after = grammar.advance(grammar.start(), b'{"a":tr')
    assert after is not None
    assert sorted(label for label, _ in after.edges) == [b"ap}", b"ue}"]


def test_text_outside_ascii_is_escaped_as_json_does() -> None:
    grammar = Grammar(Literal('"caf\u00e9"'))
    assert language(grammar) == {'"caf\\u00e9"'}


def test_a_free_text_stands_for_what_is_offered_beside_it() -> None:
    assert language(Grammar(chain("<", choice("a", Text(9)), ">"))) == {"<a>"}
    assert language(Grammar(chain("<", Text(9), ">"))) == {"<>"}


def test_thousands_of_records_stay_small() -> None:
    bins = [chain(f'"{name}":', IntRange(0, 4), ",") for name in "nscx"]
    grammar = Grammar(chain("{", *bins, '"t":', IntRange(0, 12), "}"))
    assert len(grammar._own.continuations) < 4, "nothing is unfolded before it is walked"
    assert len(language(grammar)) == 5**4 * 13
    assert len(grammar._own.continuations) < 80
    assert accepts(grammar, '{"n":4,"s":0,"c":2,"x":1,"t":12}')
    assert not accepts(grammar, '{"n":4,"s":0,"c":2,"x":1,"t":13}')


def test_what_views_share_is_unfolded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Common pieces serve every grammar, and a grammar outlives their being forgotten."""
    from waggle.core import grammar as pieces
    from waggle.core.options import Commit, Range, Write

    write = Write("z77", None, Range(0, 2), Range(0, 1), Range(0, 0), Range(1, 3))

    shared = SharedStates()

    def made(*actions: str) -> Grammar:
        single = pieces._single(write, (Commit("z77", Range(0, 1)),))
        form = chain('{"a":"', choice(*actions), single, pieces._CLOSE)
        return Grammar(form, shared)

    first, second = made("UP", "DOWN"), made("LEFT", "DOWN", "STAY")
    words = language(first)
    assert len(language(second)) == 3 * len(words) // 2
    assert {w.replace("UP", "STAY") for w in words} <= set(language(second))
    assert len(second._own.continuations) < 6 < len(second._shared.continuations)
    assert second._shared is first._shared
    monkeypatch.setattr("waggle.engine.constraint.grammar.MAX_SHARED", 0)
    pieces._single.cache_clear()
    assert made("UP")._shared is not first._shared
    assert set(language(made("UP", "DOWN"))) == set(words) == set(language(first))
