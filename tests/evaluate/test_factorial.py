"""Results of training arms: what is read, what is refused, and what the effects are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.sheets import row
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.evaluate.factorial import Effect, TrainedLaw, behavioural, read_arms, structural
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row


def arm(
    name: str, seed: int, probe: float = 2.0, units: list[float] | None = None, ids: str = ""
) -> TrainedLaw:
    measured = {"probe all": units or [], "probe eventful": (units or [])[1:]}
    values = {"probe all": probe, "probe eventful": probe}
    return TrainedLaw(name, seed, values, measured, "shuffled", {"transitions": list(ids)})


def late(method: str, seed: int, recovered: float, n: int = 32) -> Row:
    case = Case("silo", "III-26", n, seed, None, True)
    return row(Cell(method, "local", {}, case, "shuffled", "sync", {}, {}), 0.5, recovery=recovered)


def write(folder: Path, name: str, content: Any) -> None:
    (folder / "arms").mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "arms" / name).write_text(text)


def test_arms_are_read_in_order(tmp_path: Path) -> None:
    assert read_arms(tmp_path) == []
    result = {"order": "shuffled", "nll": 0.02, "probe all": 1.5, "units": {"summary": [1, 0]},
              "unit names": {"views": ["a", "b"]}}  # fmt: skip
    write(tmp_path, "scd-0.json", result)
    unmeasured = {"probe eventful": float("nan"), "f1": 10**400}
    write(tmp_path, "decision-11.json", {**result, **unmeasured})
    write(tmp_path, "decision-2.json", result)
    found = read_arms(tmp_path)
    assert [each.method for each in found] == ["decision-2", "decision-11", "scd-0"]
    assert found[2].values == {"nll": 0.02, "probe all": 1.5}
    assert found[2].units == {"summary": [1.0, 0.0]}
    assert found[2].ids("summary") == ["a", "b"] and found[2].ids("probe all") == ()
    assert found[1].values == found[2].values


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("both-0.json", {}, "ARM-SEED.json"),
        ("scd-x.json", {}, "ARM-SEED.json"),
        ("scd-0.json", "[1]", "no results"),
        ("scd-0.json", "{", "no results"),
        ("scd-0.json", {"units": {"summary": ["a"]}}, "no results"),
        ("scd-0.json", {"unit names": {"views": [1]}}, "no results"),
        ("scd-0.json", {"unit names": {"views": ["a", "a"]}}, "twice"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, name: str, content: Any, says: str) -> None:
    write(tmp_path, name, content)
    with pytest.raises(ConfigError, match=says):
        read_arms(tmp_path)


def effect(base: list[TrainedLaw], other: list[TrainedLaw], unit: str = "probe all") -> Effect:
    made = structural([*base, *other], "orbit", unit, unit, relative=False)
    assert made is not None
    return made


def test_structural_effect_resamples_seeds_and_units_that_both_arms_have() -> None:
    base = [arm("decision", s, 2.0, [1.0, 3.0], "ab") for s in (0, 1)]
    made = effect(base, [arm("orbit", s, 1.0, [1.0, 1.0], "ab") for s in (0, 1)])
    assert (made.seeds, made.delta.units) == (2, 4)
    assert made.delta.mean == -1.0 and made.delta.low < -1.0 < made.delta.high
    some = effect(base, [arm("orbit", 0, 1.0, [1.0, 1.0], "ab"), arm("orbit", 1, 1.0)])
    assert (some.seeds, some.delta.units) == (1, 2)


def test_a_relative_effect_is_divided_by_decision_only_of_the_same_seed() -> None:
    found = [arm("decision", s, 2.0, [2.0], "a") for s in (0, 1)]
    found += [arm("scd", 0, 1.0, [1.0], "a"), arm("scd", 1, 1.5, [1.5], "a")]
    made = structural(found, "scd", "probe all", "probe all", relative=True)
    assert made is not None
    assert (made.base, made.arm, made.delta.mean) == (1.0, 0.625, -0.375)
    assert (made.delta.low, made.delta.high) == (-0.5, -0.25)


def test_units_are_paired_by_id_not_by_place() -> None:
    base = [arm("decision", 0, 2.0, [1.0, 2.0, 6.0], "abc")]
    made = effect(base, [arm("orbit", 0, 1.0, [5.0, 0.0, 1.0], "cab")])
    assert (made.delta.low, made.delta.mean, made.delta.high) == (-1.0, -1.0, -1.0)
    nameless = [*base, arm("orbit", 0, 1.0, [5.0, 0.0, 1.0])]
    assert structural(nameless, "orbit", "probe all", "probe all", relative=False) is None


def test_a_part_of_the_named_is_paired_where_the_named_are_the_same() -> None:
    base = [arm("decision", 0, 2.0, [1.0, 2.0, 6.0], "abc")]
    made = effect(base, [arm("orbit", 0, 1.0, [5.0, 1.0, 5.0], "abc")], "probe eventful")
    assert made.delta.units == 2 and made.delta.mean == -1.0
    with pytest.raises(ConfigError, match="different units"):
        effect(base, [arm("orbit", 0, 1.0, [5.0, 1.0, 5.0], "cab")], "probe eventful")


@pytest.mark.parametrize(
    ("units", "ids"), [([1.0, 1.0], "ac"), ([1.0], "a"), ([1.0, 1.0, 1.0], "abc"), ([1.0], "ab")]
)
def test_arms_with_different_units_are_refused(units: list[float], ids: str) -> None:
    base = [arm("decision", 0, 2.0, [1.0, 3.0], "ab")]
    with pytest.raises(ConfigError, match=r"decision-0 and orbit-0 .* same --views") as caught:
        effect(base, [arm("orbit", 0, 1.0, units, ids)])
    assert "\n" not in str(caught.value)


def test_structural_effect_needs_a_pair() -> None:
    lonely = [arm("decision", 0), arm("scd", 1)]
    assert structural(lonely, "scd", "probe all", "probe all", relative=False) is None


def test_behavioural_effect_pairs_cases_within_cells() -> None:
    rows = [late(f"scd-{s}", case, 1.0) for s in (0, 1) for case in (1, 2, 3)]
    rows += [late(f"decision-{s}", case, float(case == 1)) for s in (0, 1) for case in (1, 2)]
    rows += [late("scd-0", 1, 0.0, n=64), late("decision-0", 1, 1.0, n=64)]
    made = behavioural(rows, "scd", lambda r: r.metrics["recovery"], lambda r: f"N={r.n}")
    # The cell N=64 has no rows of seed 1, the third case no partner: both are left out.
    assert made is not None
    assert (made.base, made.arm, made.delta.mean, made.delta.units) == (0.5, 1.0, 0.5, 4)
    assert made.seeds == 2 and (made.delta.low, made.delta.high) == (0.0, 1.0)
    assert behavioural([], "scd", lambda r: 1.0, lambda r: "") is None


def test_behavioural_effect_of_an_unfinished_run_rests_on_whole_seeds() -> None:
    rows = [
        late(f"{side}-{seed}", case, float(side == "scd"), n)
        for side in ("decision", "scd")
        for seed in (0, 1, 2)
        for n in (32, 64)
        for case in (1, 2)
        if (side, seed) != ("scd", 2)
    ]
    rows += [late("scd-3", 1, 1.0), late("decision-3", 1, 0.0)]
    made = behavioural(rows, "scd", lambda r: r.metrics["recovery"], lambda r: f"N={r.n}")
    # Seed 2 was not played to its end, seed 3 in one cell only; seeds 0 and 1 are whole.
    assert made is not None and (made.seeds, made.delta.units) == (2, 8)
    assert (made.base, made.arm) == (0.0, 1.0)
