"""What prompts begin with is moved into their prefix, and nothing else about them changes."""

from typing import Any

import pytest

from tests.engine.helpers import PREFIX, ids, prompts, reference
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.beginnings import ENOUGH, LEAST, MOST, Beginnings
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt

COMMON = tuple(range(100, 100 + LEAST + 4))
BEFORE = (1, 2, 3)


def batch(count: int = ENOUGH, common: tuple[int, ...] = COMMON, first: int = 0) -> list[Prompt]:
    return [Prompt((*common, first + i, 7), BEFORE, max_new_tokens=5 + i) for i in range(count)]


def whole(prompts: list[Prompt]) -> list[tuple[int, ...]]:
    return [(*prompt.prefix, *prompt.tail) for prompt in prompts]


def test_what_all_begin_with_is_prefix() -> None:
    found = Beginnings().stretched(batch())
    assert {prompt.prefix for prompt in found} == {BEFORE + COMMON}
    assert len({id(prompt.prefix) for prompt in found}) == 1, "prefixes are told by identity"
    assert whole(found) == whole(batch())
    assert [p.max_new_tokens for p in found] == [p.max_new_tokens for p in batch()]


@pytest.mark.parametrize(
    "given",
    [batch(ENOUGH - 1), batch(common=COMMON[: LEAST - 1]), [Prompt(p.tail) for p in batch()]],
    ids=["few prompts", "few tokens", "no prefix"],
)
def test_little_is_left_as_it_is(given: list[Prompt]) -> None:
    beginnings = Beginnings()
    assert beginnings.stretched(given) == given
    assert beginnings.stretched(batch())[0].prefix in (BEFORE, BEFORE + COMMON)


def test_a_prefix_that_was_run_is_not_run_again() -> None:
    beginnings = Beginnings()
    beginnings.stretched(batch(1))
    assert beginnings.stretched(batch()) == batch()


def test_who_begins_otherwise_keeps_the_prefix() -> None:
    beginnings = Beginnings()
    beginnings.stretched(batch())
    other = Prompt((9, 9, 9), BEFORE)
    short = Prompt(COMMON, BEFORE)
    found = beginnings.stretched([*batch(), other, short])
    assert found[-2:] == [other, short], "one token must be left to a prompt"
    assert found[0].prefix == BEFORE + COMMON


def test_a_beginning_that_most_do_not_have_is_shortened() -> None:
    beginnings = Beginnings()
    beginnings.stretched(batch())
    later = batch(common=(*COMMON[:-2], 5))
    found = beginnings.stretched(later)
    assert {prompt.prefix for prompt in found} == {BEFORE + COMMON[:-2]}
    assert whole(found) == whole(later)
    assert beginnings.stretched(batch())[0].prefix == BEFORE + COMMON[:-2]
    assert beginnings.stretched(batch(common=(6,))) == batch(common=(6,)), "and given up at last"
    assert beginnings.stretched(batch()) == batch()


def test_the_number_of_prefixes_is_bounded() -> None:
    beginnings = Beginnings()
    for first in range(2 * MOST):
        beginnings.stretched([Prompt(p.tail, (first, 1)) for p in batch()])
    assert len(beginnings._longer) == MOST


def test_answers_do_not_tell_where_prompts_were_cut(tiny: Any) -> None:
    """Rows that go on alike, one that does not, and the keys of its prefix cut from theirs."""
    engine = Engine(*tiny, max_rows=4)
    rows = prompts(tiny[1], 9)
    alike = [
        Prompt((*ids(tiny[1], "what all of them say "), *row.tail), row.prefix,
               skeleton=row.skeleton, max_new_tokens=row.max_new_tokens)
        for row in rows if row.prefix == rows[0].prefix
    ]  # fmt: skip
    assert len(alike) >= ENOUGH
    for given in (alike, [*rows, *alike]):
        found = engine.generate(given)
        assert [done.tokens for done in found] == [reference(*tiny, p) for p in given]
    assert found[-1].usage.cached_tokens > len(alike[-1].prefix) + LEAST
    assert found[-1].usage.prompt_tokens == len(alike[-1].prefix) + len(alike[-1].tail)
    backend = engine.backend
    assert isinstance(backend, LeanBackend)
    known = list(backend._prefixes)
    assert ids(tiny[1], PREFIX) == known[0][: len(ids(tiny[1], PREFIX))]


def test_a_kept_prefix_serves_its_beginnings(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Engine(*tiny).backend
    assert isinstance(backend, LeanBackend)
    tokens = tuple(range(40, 101))
    kept = backend.prefix(tokens)
    monkeypatch.setattr(type(backend.decoder), "forward", None)
    found = backend.prefix(tokens[:37])
    assert found.length == 37
    for part, layer in zip(found.layers, kept.layers, strict=True):
        assert part.equal(layer[:, :, :37])
