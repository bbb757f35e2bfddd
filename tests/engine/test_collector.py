"""Nobody is left without garbage collection."""

import gc
import threading
from functools import partial
from typing import Any

import pytest

from benchmarks import workload
from tests.engine.helpers import prompts
from waggle.engine import collector
from waggle.engine.constraint.grammar import Grammar
from waggle.engine.constraint.states import State
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt


def test_collection_is_off_within_and_as_before_after() -> None:
    assert gc.isenabled()
    with collector.held():
        with collector.held():
            assert not gc.isenabled()
        assert not gc.isenabled(), "somebody else still decodes"
    assert gc.isenabled()
    gc.disable()
    try:
        with collector.held():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_failure_ends_the_hold(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=4)
    with pytest.raises((TypeError, ValueError)):
        engine.generate([Prompt(("no token",), max_new_tokens=2)])  # type: ignore[arg-type]
    assert gc.isenabled()


def test_callers_without_end_still_collect(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "EVERY", 3)
    rounds: list[bool] = []
    collect = gc.collect
    monkeypatch.setattr(gc, "collect", lambda: rounds.append(gc.isenabled()) or collect())
    engine = Engine(*tiny, max_rows=4)
    batch = prompts(tiny[1], 8)
    callers = [threading.Thread(target=engine.generate, args=(batch,)) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert rounds and not any(rounds)
    assert gc.isenabled()


def _states() -> int:
    return sum(type(thing) is State for thing in gc.get_objects())


@pytest.mark.parametrize("use", ["grammar", "skeleton"])
def test_answers_leave_nothing_to_collect(tiny: Any, use: str) -> None:
    engine = Engine(*tiny, max_rows=3)
    batch = [
        Prompt((7, 8, index), max_new_tokens=24, **{use: engine.constraint(made)})  # type: ignore[arg-type]
        for index, made in enumerate(
            partial(workload.named, t.handles, t.claims) for t in workload.tasks(6, 2, 5)
        )
    ]
    gc.collect()
    before = _states()
    gc.disable()
    try:
        first = engine.generate(batch)
        assert _states() == before, "prompts are held, what was unfolded for them is not"
    finally:
        gc.enable()
    assert [done.tokens for done in engine.generate(batch)] == [done.tokens for done in first]


def test_a_grammar_that_was_given_is_kept(tiny: Any) -> None:
    engine = Engine(*tiny)
    given = engine.constraint(Grammar.of("a"))
    made = engine.constraint(lambda common: Grammar.of("a"))
    before = given.grammar, made.grammar
    for constraint in (given, made):
        assert constraint.grammar is constraint.grammar
        constraint.shed()
    assert given.grammar is before[0]
    assert made.grammar is not before[1]
