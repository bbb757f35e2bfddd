"""Parts of a plan keep their ids, so that they add up to the whole; what cells cost."""

from __future__ import annotations

import msgspec
import pytest

from tests.evaluate.plans import mixed
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.evaluate.plan import Cell
from waggle.evaluate.selection import by_seed, cost, counts, decisions, select

PLAN = [
    Cell(method, "heuristic", {}, Case("beacon", task, n, seed), "shuffled", "sync", {}, {})
    for method in ("a", "b")
    for task in ("one", "two")
    for n in (4, 8)
    for seed in (10_003, 10_001, 10_002)
]


def test_choices_combine() -> None:
    chosen = select(PLAN, methods=["b"], tasks=["beacon/t*"], n=[8], seeds=2)
    assert [(c.method, c.case.task, c.case.n, c.case.seed) for c in chosen] == [
        ("b", "two", 8, 10_001),
        ("b", "two", 8, 10_002),
    ]
    assert {c.id for c in chosen} <= {c.id for c in PLAN}


def test_nothing_chosen_takes_all() -> None:
    assert select(PLAN) == PLAN and select(PLAN, seeds=9) == PLAN


def test_seeds_are_counted_in_every_setting_of_its_own() -> None:
    late = Cell(
        "a", "heuristic", {}, Case("beacon", "one", 4, 10_900, 7), "shuffled", "sync", {}, {}
    )
    assert late in select([*PLAN, late], seeds=1)


def test_whole_seeds_come_first() -> None:
    ordered = by_seed(PLAN)
    assert sorted(c.id for c in ordered) == sorted(c.id for c in PLAN)
    assert [c.case.seed for c in ordered] == [10_001] * 8 + [10_002] * 8 + [10_003] * 8
    assert [c.method for c in ordered[:8]] == ["a"] * 4 + ["b"] * 4


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"methods": ["aa"]}, "not in the plan"),
        ({"n": [5]}, "--n: '5' is not in the plan; use some of"),
        ({"n": [4, 5]}, "--n: '5' is not in the plan; use some of"),
        ({"tasks": ["beacn"]}, "--tasks: 'beacn' is not in the plan"),
        ({"tasks": ["beacon/one", "beacon/tow"]}, "--tasks: 'beacon/tow' is not in the plan"),
        ({"seeds": 0}, "at least 1"),
    ],
)
def test_empty_choices_are_one_line(choice: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(PLAN, **choice)  # type: ignore[arg-type]


def test_decisions_are_updates_to_the_horizon() -> None:
    assert decisions(mixed()[0]) == 1_600 and decisions(mixed()[-1]) == 640


def test_a_case_that_cannot_be_opened_costs_nothing() -> None:
    bad = msgspec.structs.replace(mixed()[0], case=Case("beacon", "beacon", 0, 10_000))
    assert decisions(bad) == 0 and cost(bad) == 0


def test_counts_leave_out_what_is_finished() -> None:
    cells = mixed()[:2]
    assert counts(cells, {cells[0].key}) == [("m", 2, 3_200, 1, 1_600), ("all", 2, 3_200, 1, 1_600)]
