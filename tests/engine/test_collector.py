"""Nobody is left without garbage collection."""

import gc
import threading
from typing import Any

import pytest

from tests.engine.test_exactness import prompts
from waggle.engine import collector
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
