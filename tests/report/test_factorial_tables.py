"""Factorial tables of small and unequal runs: one seed claims nothing, laws share settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.sheets import row
from tests.report.test_reorganization import BLOCK, late
from waggle.evaluate.plan import Recipe, cells
from waggle.report import factorial


def recipe(arms: tuple[str, ...], seeds: int) -> Recipe:
    names = {f"{arm}-{seed}": {"law": "expert"} for arm in arms for seed in range(seeds)}
    blocks = [
        {**BLOCK, "methods": list(names), "seeds": {"start": 22_000, "count": 4}},
        {**BLOCK, "methods": list(names), "shock": False, "seeds": [20_000]},
    ]
    return Recipe.model_validate({"title": "T", "methods": names, "blocks": blocks})


def diagnosed(folder: Path, name: str, nll: float) -> None:
    (folder / "arms").mkdir(exist_ok=True)
    (folder / "arms" / f"{name}.json").write_text(json.dumps({"order": "shuffled", "nll": nll}))


def test_one_training_seed_without_units_has_no_interval(tmp_path: Path) -> None:
    diagnosed(tmp_path, "decision-0", 0.03)
    diagnosed(tmp_path, "scd-0", 0.02)
    _, effects = factorial.tables(tmp_path, [], recipe(("decision", "scd"), 1))
    (line,) = effects.rows
    assert line[4:] == ("-0.0100", "—", "—", "1", "1", "nothing")


def test_one_training_seed_says_what_was_drawn(tmp_path: Path) -> None:
    made = recipe(("decision", "scd"), 1)
    rows = [
        late(c, hit=c.method == "scd-0", latency=2.0, stale=3.0) if c.case.shock else row(c, 0.5)
        for c in cells(made)
    ]
    _, effects, quality, _ = factorial.tables(tmp_path, rows, made)
    found = {line[1]: line for line in effects.rows}
    assert found["recovery (pp)"][4:] == (
        "+100.0", "[+100.0, +100.0]", "yes", "1", "16", "units of one seed",
    )  # fmt: skip
    assert quality.rows[0][4:6] == ("—", "—")  # one seed, one case per cell


@pytest.mark.parametrize(
    ("cut", "shown"), [(22_003, {"Decision only": "67", "Waggle (SCD)": "67"}),
                       (22_001, {"Decision only": "50"})],
)  # fmt: skip
def test_laws_are_read_on_settings_that_all_have(
    tmp_path: Path, cut: int, shown: dict[str, str]
) -> None:
    """Later cases fail: a law that has played the first ones only must not look better for it."""
    made = recipe(("decision", "scd"), 2)
    rows = [
        late(c, hit=c.case.seed < 22_002, latency=2.0, stale=3.0)
        for c in cells(made)
        if c.case.shock and (c.method.startswith("decision") or c.case.seed < cut)
    ]
    arms, *_ = factorial.tables(tmp_path, rows, made)
    column = arms.columns.index("recovery (%)")
    assert {line[0]: f"{float(line[column][:4]):.0f}" for line in arms.rows} == shown
    left_out = "not in the closed-loop columns: scd-0, scd-1" in arms.notes
    assert left_out == (cut == 22_001)


def test_more_laws_on_fewer_settings_win_where_they_give_more(tmp_path: Path) -> None:
    made = recipe(("decision", "scd"), 2)
    rows = [
        late(c, hit=c.case.seed < 22_002, latency=2.0, stale=3.0)
        for c in cells(made)
        if c.case.shock and (c.method == "decision-0" or c.case.seed < 22_002)
    ]
    arms, *_ = factorial.tables(tmp_path, rows, made)
    found = {line[0]: dict(zip(arms.columns, line, strict=True)) for line in arms.rows}
    assert {line["recovery (%)"] for line in found.values()} == {"100.0 ± 0.0"}
    assert {line["settings"] for line in found.values()} == {"16"}
    assert "closed-loop columns: the 8 settings that all these laws have played" in arms.notes


def test_arms_with_the_same_seeds_and_settings_have_no_dagger(tmp_path: Path) -> None:
    made = recipe(("decision", "scd"), 2)
    rows = [late(c, hit=True, latency=2.0, stale=3.0) for c in cells(made) if c.case.shock]
    arms, effects, by_cell = factorial.tables(tmp_path, rows, made)
    for table in (arms, effects, by_cell):
        assert "†" not in " ".join([*table.notes, *(line[0] for line in table.rows)])
    assert "pairs, and so" not in " ".join(effects.notes)


def test_an_arm_that_lacks_a_law_is_not_read_beside_the_others(tmp_path: Path) -> None:
    """The second training seed is worse in every arm; one arm has not played it."""
    made = recipe(("decision", "scd"), 2)
    rows = [
        late(c, hit=c.method.endswith("0"), latency=2.0, stale=3.0)
        for c in cells(made)
        if c.case.shock and c.method != "scd-1"
    ]
    arms, effects, by_cell = factorial.tables(tmp_path, rows, made)
    shown = {line[0]: line[arms.columns.index("recovery (%)")] for line in arms.rows}
    assert shown == {"Decision only": "50.0 ± 70.7", "Waggle (SCD) †": "100.0"}
    assert any("SCD) closed loop: seed 0" in note for note in arms.notes)
    (recovery,) = (line for line in effects.rows if line[1] == "recovery (pp)")
    assert recovery[2:5] == ("100.0", "100.0", "+0.0") and recovery[7] == "1"
    assert "no closed-loop rows of scd-1" in effects.notes
    assert {line[0] for line in by_cell.rows} == {"Decision only", "Waggle (SCD) †"}
