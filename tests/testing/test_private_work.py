"""The check of private work passes what is sound and fails on every planted bug."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from waggle.core.protocols import Local
from waggle.core.worker import Work
from waggle.substrates.silo.world import SiloWorld
from waggle.testing import Check, check_substrate


def private_work() -> Check:
    report = check_substrate("silo", "II-16", laws=["heuristic"], trajectories=False)
    (check,) = [check for check in report.checks if check.name == "private work"]
    return check


def test_silo_asks_what_it_may() -> None:
    assert private_work().passed


def names_its_node(world: Any, node: int, work: Work) -> dict[str, Any]:
    return {"state": {**work.state, "mark": node}}


def has_a_forbidden_key(world: Any, node: int, work: Work) -> dict[str, Any]:
    return {"state": {**work.state, "population": 3}}


def changes_when_asked(world: Any, node: int, work: Work) -> dict[str, Any]:
    world.asked = getattr(world, "asked", 0) + 1
    return {"state": {**work.state, "asked": world.asked}}


def answers_by_node(world: Any, node: int, work: Work) -> dict[str, Any]:
    return {"native": lambda: node}


@pytest.mark.parametrize(
    ("bug", "says"),
    [
        (names_its_node, "must not name nodes"),
        (has_a_forbidden_key, "population"),
        (changes_when_asked, "must not change state"),
        (answers_by_node, "changes more than labels"),
    ],
)
def test_a_planted_bug_is_found(bug: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = SiloWorld.work

    def work(world: SiloWorld, node: int, local: Local) -> Work:
        asked = sound(world, node, local)
        return msgspec.structs.replace(asked, **bug(world, node, asked))

    monkeypatch.setattr(SiloWorld, "work", work)
    assert says in private_work().finding
