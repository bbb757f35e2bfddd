"""Answers that come with their prompts are verified, never believed."""

from typing import Any

import pytest

from tests.engine.helpers import NEW, prompts, reference, row_engine
from tests.engine.test_constrained import masked_greedy
from waggle.engine.engine import Engine
from waggle.engine.expected_rows import ExpectedRow
from waggle.engine.request import Prompt
from waggle.engine.speculation import Habits

LIMIT = 200


def engines(tiny: Any, rows: int) -> list[Engine]:
    """Engines as on a CPU and as on a GPU."""
    made = [
        Engine(*tiny, max_rows=rows),
        row_engine(tiny, rows),
        row_engine(tiny, rows, rolls=True),
    ]
    for engine in made[1:]:
        engine.backend.least = lambda rows, effort: 2.0  # type: ignore[method-assign]
        engine.backend.foretells = lambda rows, effort: True  # type: ignore[method-assign]
    return made


def spoiled(answer: tuple[int, ...], number: int) -> tuple[int, ...]:
    """An expectation that is right, wrong somewhere, too short, too long, or no answer at all."""
    at = number % max(1, len(answer))
    return (
        answer,
        (*answer[:at], 7, *answer[at + 1 :]),
        answer[:at],
        (*answer, 5, 6),
        (*answer[:at], 9, 9, *answer[at:]),
        (3, 1, 4, 1, 5),
    )[number % 6]


def given(prompt: Prompt, draft: tuple[int, ...], **more: Any) -> Prompt:
    new = more.pop("max_new_tokens", prompt.max_new_tokens)
    return Prompt(prompt.tail, prompt.prefix, draft=draft, max_new_tokens=new, **more)


@pytest.fixture(scope="module")
def bound_answers(tiny: Any, record_grammar: Any) -> list[tuple[int, ...]]:
    """What the model says to each prompt within the grammar, made once for all engines."""
    bound = Engine(*tiny).constraint(record_grammar)
    return [
        masked_greedy(tiny[0], given(p, (), max_new_tokens=LIMIT), bound)
        for p in prompts(tiny[1], 24)
    ]


@pytest.mark.parametrize("rows", [1, 7, 24])
def test_free_answers_are_greedy_whatever_is_expected(tiny: Any, rows: int) -> None:
    batch = prompts(tiny[1], 12 if rows == 1 else 24)
    want = [reference(*tiny, prompt) for prompt in batch]
    asked = [given(p, spoiled(w, i)) for i, (p, w) in enumerate(zip(batch, want, strict=True))]
    for engine in engines(tiny, rows):
        done = engine.generate(asked)
        assert [d.tokens for d in done] == want
        assert sum(d.usage.accepted_tokens for d in done) > 0


def test_where_nothing_pays_answers_are_rolled(tiny: Any) -> None:
    batch = prompts(tiny[1], 24)
    want = [reference(*tiny, prompt) for prompt in batch]
    asked = [given(p, w) for p, w in zip(batch, want, strict=True)]
    engine = row_engine(tiny, 24, rolls=True)
    engine.backend.recalls = lambda rows: 1.0  # type: ignore[method-assign]
    done = engine.generate(asked)
    assert [d.tokens for d in done] == want
    assert not any(d.usage.drafted_tokens for d in done), "a tiny model says it sooner"


def test_a_right_expectation_takes_one_pass(tiny: Any, record_grammar: Any) -> None:
    batch = prompts(tiny[1], 9)
    want = [reference(*tiny, prompt) for prompt in batch]
    for engine in engines(tiny, 9):
        done = engine.generate([given(p, w) for p, w in zip(batch, want, strict=True)])
        assert [d.tokens for d in done] == want
        assert all(d.usage.model_steps == 1 for d in done)
        bound = engine.constraint(record_grammar)
        held = [given(p, (), grammar=bound, max_new_tokens=99) for p in batch]
        first = engine.generate(held)
        known = [
            given(p, d.tokens, grammar=bound, max_new_tokens=99)
            for p, d in zip(held, first, strict=True)
        ]
        again = engine.generate(known)
        assert [d.tokens for d in again] == [d.tokens for d in first]


@pytest.mark.parametrize("rows", [1, 7, 24])
@pytest.mark.parametrize("limit", [LIMIT, 11])
def test_bound_answers_are_masked_greedy_whatever_is_expected(
    tiny: Any, record_grammar: Any, bound_answers: Any, rows: int, limit: int
) -> None:
    tokenizer = tiny[1]
    count = 12 if rows == 1 else 24
    batch = prompts(tokenizer, count)
    # A limit cuts an answer and changes nothing before.
    want = [answer[:limit] for answer in bound_answers[:count]]
    assert any(len(answer) == limit for answer in want) == (limit < LIMIT)
    for engine in engines(tiny, rows):
        bound = engine.constraint(lambda common: record_grammar)
        asked = [given(p, (), grammar=bound, max_new_tokens=limit) for p in batch]
        texts = [
            '{"deposits":[],"commit":null}',
            '{"deposits":[{"to":"h2","ttl":3}],"commit":null}',
        ]
        for shift in range(2):
            drafts = [
                tuple(tokenizer.encode(texts[i // 2 % 2])) if i % 3 == 0 else spoiled(w, i + shift)
                for i, w in enumerate(want)
            ]
            pairs = zip(asked, drafts, strict=True)
            found = [given(p, d, grammar=bound, max_new_tokens=limit) for p, d in pairs]
            assert [d.tokens for d in engine.generate(found)] == want


def test_a_prompt_of_one_token_may_have_its_answer_expected(tiny: Any, record_grammar: Any) -> None:
    engine = Engine(*tiny, max_rows=2)
    bound = engine.constraint(record_grammar)
    for draft in ((7, 8), (1,)):
        prompt = Prompt((5,), grammar=bound, draft=draft, max_new_tokens=80)
        want = masked_greedy(tiny[0], prompt, bound)
        assert engine.generate([prompt])[0].tokens == want


def test_who_foretells_nothing_is_not_listened_to(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=16)
    batch = [given(p, (1, 2, 3) * 9, max_new_tokens=NEW) for p in prompts(tiny[1], 48)]
    want = [reference(*tiny, prompt) for prompt in batch]
    assert engine.expects
    for _ in range(4):
        assert [d.tokens for d in engine.generate(batch)] == want
    assert not engine.expects
    steps = [d.usage.drafted_tokens for d in engine.generate(batch[:4])]
    engine.speculate = False
    assert not engine.expects and steps != [0]


class Knowing:
    """Somebody who knows whether the grammar has what is expected."""

    def __init__(self, tokens: tuple[int, ...], fits: bool) -> None:
        self._tokens, self._fits = tokens, fits

    def tokens(self) -> tuple[int, ...]:
        return self._tokens

    def fits(self) -> bool:
        return self._fits


def test_who_knows_the_grammar_spares_the_walk(
    tiny: Any, record_grammar: Any, bound_answers: Any
) -> None:
    batch, want = prompts(tiny[1], 12), bound_answers[:12]
    for engine in engines(tiny, 5):
        made: list[int] = []

        def make(_: Any, made: list[int] = made) -> Any:
            made.append(1)
            return record_grammar

        asked = [given(p, (), grammar=engine.constraint(make), max_new_tokens=LIMIT) for p in batch]
        free = engine.generate(prompts(tiny[1], 12))
        agreeing = [f.tokens == w for f, w in zip(free, want, strict=True)]
        for draft in (want, [w[:-3] for w in want]):
            made.clear()
            drafts = [Knowing(d, d in want) for d in draft]
            pairs = zip(asked, drafts, strict=True)
            found = [
                given(p, d, grammar=engine.constraint(make), max_new_tokens=LIMIT)  # type: ignore[arg-type]
                for p, d in pairs
            ]
            assert [d.tokens for d in engine.generate(found)] == want
            assert len(made) >= 12 - sum(agreeing), "a model that says something else is followed"


@pytest.mark.parametrize("knows", [True, False])
def test_an_expectation_is_left_at_the_first_other_choice(
    tiny: Any, record_grammar: Any, knows: bool
) -> None:
    """By what the model is made to say, since a random one hardly ever says what is expected."""
    text = '{"deposits":[{"to":"h2","ttl":3}],"commit":null}'
    tokens = tuple(tiny[1].encode(text))
    bound = Engine(*tiny).constraint(record_grammar)
    assert len(tokens) == len(text), "a token is a letter here"

    def row_told(at: int, letter: str) -> ExpectedRow:
        draft = Knowing(tokens, knows)
        prompt = Prompt((5, 6), grammar=bound, draft=draft, max_new_tokens=LIMIT)
        row = ExpectedRow(prompt, frozenset(), Habits(), None)
        row.open()
        row.advanced()
        row.answered((*tokens[:at], *tiny[1].encode(letter), *tokens[at + 1 :]))
        return row

    whole = row_told(0, "{")
    assert whole.done and tuple(whole.answer) == tokens
    to, commit = text.index("2"), text.index("null")
    for at, letter in ((to, "1"), (commit, "{")):
        other = row_told(at, letter)
        assert not other.done
        assert tuple(other.answer[: at + 1]) == (*tokens[:at], *tiny[1].encode(letter))
    forbidden = row_told(to, "7")
    assert not forbidden.done and tuple(forbidden.answer) == tokens[:to], "it is asked again"
    forced = row_told(2, "x")
    assert forced.done and tuple(forced.answer) == tokens, "nobody is asked what the grammar forces"
