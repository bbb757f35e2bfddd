"""Factorial tables: whole runs, and small and unequal ones, which claim no more than they can."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.report.sheets import LATE, arms_of, late_row, row
from waggle.evaluate.plan import Recipe, cells
from waggle.report import factorial


def diagnosed(folder: Path, name: str, nll: float) -> None:
    (folder / "arms").mkdir(exist_ok=True)
    units = {"units": {"nll": [nll]}, "unit names": {"views": ["a"]}}
    text = json.dumps({"order": "shuffled", "nll": nll, **units})
    (folder / "arms" / f"{name}.json").write_text(text)


def test_factorial_tables(tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    for arm, agreement in (("decision", 0.5), ("scd", 0.75)):
        for seed in (0, 1):
            text = f'{{"order": "shuffled", "nll": 0.02, "probe eventful": {1 + seed}, '
            text += f'"units": {{"summary": [{agreement}]}}, "unit names": {{"views": ["a"]}}, '
            text += f'"synthetic mode_f1": {agreement}, "synthetic f1 Relay": 0.0, '
            text += f'"equivariance shuffled summary": {agreement}}}'
            (tmp_path / "arms" / f"{arm}-{seed}.json").write_text(text)
    names = {f"{a}-{s}": {"law": "expert"} for a in ("decision", "scd") for s in (0, 1)}
    blocks = [{**LATE, "methods": list(names)},
              {**LATE, "methods": list(names), "shock": False}]  # fmt: skip
    made = Recipe.model_validate({"title": "T", "methods": names, "blocks": blocks})
    rows = [
        late_row(c, hit=c.method.startswith("scd"), latency=2.0, stale=3.0)
        if c.case.shock
        else row(c, 1.0 if c.method.startswith("scd") else 0.5)
        for c in cells(made)
    ]
    arms, effects, modes, quality, by_cell = factorial.tables(tmp_path, rows, made)
    relay = [dict(zip(modes.columns, line, strict=True))["Relay"] for line in modes.rows]
    assert relay == ["0.0 ± 0.0"] * 2 and modes.rows[1][9] == "75.0 ± 0.0"
    lines = {line[0]: dict(zip(arms.columns, line, strict=True)) for line in arms.rows}
    assert lines["Decision only"]["summary agree. (%)"] == "50.0 ± 0.0"
    assert lines["Waggle (SCD)"]["probe, event (norm.)"] == "1.000 ± 0.000"
    assert lines["Waggle (SCD)"]["recovery (%)"] == "100.0 ± 0.0"
    assert sum(span.columns for span in arms.spans) == len(arms.columns)
    found = {line[1]: line for line in effects.rows}
    assert found["summary agreement (pp)"][4:7] == ("+25.0", "[+25.0, +25.0]", "yes")
    assert found["recovery (pp)"][4] == "+100.0" and found["recovery (pp)"][8:] == (
        "16",
        "seeds and units",
    )
    assert found["stale AUC"][6] == "no"
    said = factorial.outcome([arms, effects])
    assert said.startswith("Waggle (SCD) minus Decision only") and "AUC" not in said
    assert "summary agreement (pp) +25.0 [+25.0, +25.0]; recovery (pp) +100.0" in said
    assert factorial.outcome([arms, modes]) == ""
    assert quality.rows[0][:4] == ("silo", "0.500", "1.000", "+0.500")
    assert quality.rows[0][6] == "2.000"
    assert lines["Waggle (SCD)"]["settings"] == "16"
    assert any("law expert" in note for note in arms.notes)
    assert [line[0] for line in by_cell.rows[:1]] == ["Decision only"]
    assert by_cell.rows[-1][3] == "16/16 (100.0 %)"
    undiagnosed = factorial.tables(tmp_path / "none", rows, made)
    assert undiagnosed[0].rows[0][1:3] == ("0", "—") and undiagnosed[0].rows[0][-1] == "16"
    assert factorial.tables(tmp_path / "none", [], made) == []


def test_factorial_tables_of_a_run_that_was_cut(tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    names = {f"{a}-{s}": {"law": "expert"} for a in ("decision", "orbit", "scd") for s in (0, 1)}
    for name in ("decision-0", "scd-0", "scd-1"):
        told = '"trained by": "recipe R", "transitions played by": "expert", '
        told += '"units": {"nll": [0.02]}, "unit names": {"views": ["a"]}'
        (tmp_path / "arms" / f"{name}.json").write_text(f'{{"nll": 0.02, "probe all": 1, {told}}}')
    made = Recipe.model_validate(
        {"title": "T", "methods": names, "blocks": [{**LATE, "methods": list(names)}]}
    )
    rows = [
        late_row(c, hit=True, latency=2.0, stale=3.0)
        for c in cells(made)
        if c.method in ("decision-0", "decision-1", "scd-0")
        or (c.method, c.case.n) == ("scd-1", 32)
    ]
    arms, effects, by_cell = factorial.tables(tmp_path, rows, made)
    assert [line[0] for line in arms.rows] == ["Decision only †", "Waggle (SCD) †"]
    said = " | ".join(arms.notes)
    assert (
        "other arms, so not to be read beside their means: Decision only structure: seed 0; "
        "Waggle (SCD) closed loop: seed 0; the paired effects compare the same seeds" in said
    )
    assert "not diagnosed: decision-1, orbit-0, orbit-1" in said
    assert "not in the closed-loop columns: orbit-0, orbit-1, scd-1" in said
    assert "trained by recipe R" in said and "transitions played by expert" in said
    assert {line[0] for line in effects.rows} == {"Waggle (SCD)"}
    assert {line[7] for line in effects.rows} == {"1", "2"}
    paired = " | ".join(effects.notes)
    assert "no closed-loop rows of orbit-0, orbit-1" in paired
    assert "counted under pairs" in paired and "closed-loop columns" not in paired
    assert "only 2 training seeds" in paired
    assert {line[0] for line in by_cell.rows} == {"Decision only", "Waggle (SCD) †"}
    assert any(
        "fewer episodes than other arms" in n and "SCD) 12 of 16" in n for n in by_cell.notes
    )
    bare, _ = factorial.tables(tmp_path, [], made)
    assert bare.rows[0][-1] == "0" and bare.rows[0][2] == "0.0200"


def test_one_training_seed_with_one_unit_has_no_interval(tmp_path: Path) -> None:
    diagnosed(tmp_path, "decision-0", 0.03)
    diagnosed(tmp_path, "scd-0", 0.02)
    _, effects = factorial.tables(tmp_path, [], arms_of(("decision", "scd"), 1))
    (line,) = effects.rows
    assert line[4:] == ("-0.0100", "—", "—", "1", "1", "nothing")


def test_one_training_seed_says_what_was_drawn(tmp_path: Path) -> None:
    made = arms_of(("decision", "scd"), 1)
    rows = [
        late_row(c, hit=c.method == "scd-0", latency=2.0, stale=3.0)
        if c.case.shock
        else row(c, 0.5)
        for c in cells(made)
    ]
    _, effects, quality, _ = factorial.tables(tmp_path, rows, made)
    found = {line[1]: line for line in effects.rows}
    assert found["recovery (pp)"][4:] == (
        "+100.0", "[+100.0, +100.0]", "yes", "1", "16", "units of one seed",
    )  # fmt: skip
    assert quality.rows[0][4:6] == ("—", "—")  # one seed, one case per cell


def test_a_setting_without_an_injection_did_not_recover(tmp_path: Path) -> None:
    """Nothing is injected where nobody is committed: that is no recovery, here as by cell."""
    made = arms_of(("decision", "scd"), 2)
    rows = [late_row(c, hit=True, latency=2.0, stale=3.0) for c in cells(made) if c.case.shock]
    quiet = dict.fromkeys(("recovery", "event_recovery", "outcome_recovery"))
    rows = [
        msgspec.structs.replace(each, metrics={**each.metrics, **quiet}, course={})
        if each.method.startswith("scd") and each.seed < 22_002
        else each
        for each in rows
    ]
    arms, effects, by_cell = factorial.tables(tmp_path, rows, made)
    recovery = by_cell.columns.index("recovery")
    assert by_cell.rows[-1][recovery] == "16/32 (50.0 %)"
    assert arms.rows[-1][arms.columns.index("recovery (%)")] == "50.0 ± 0.0"
    found = {line[1]: line for line in effects.rows}
    assert found["recovery (pp)"][2:5] == ("100.0", "50.0", "-50.0")


@pytest.mark.parametrize(
    ("cut", "shown"), [(22_003, {"Decision only": "67", "Waggle (SCD)": "67"}),
                       (22_001, {"Decision only": "50"})],
)  # fmt: skip
def test_laws_are_read_on_settings_that_all_have(
    tmp_path: Path, cut: int, shown: dict[str, str]
) -> None:
    """Later cases fail: a law that has played the first ones only must not look better for it."""
    made = arms_of(("decision", "scd"), 2)
    rows = [
        late_row(c, hit=c.case.seed < 22_002, latency=2.0, stale=3.0)
        for c in cells(made)
        if c.case.shock and (c.method.startswith("decision") or c.case.seed < cut)
    ]
    arms, *_ = factorial.tables(tmp_path, rows, made)
    column = arms.columns.index("recovery (%)")
    assert {line[0]: f"{float(line[column][:4]):.0f}" for line in arms.rows} == shown
    left_out = "not in the closed-loop columns: scd-0, scd-1" in arms.notes
    assert left_out == (cut == 22_001)


def test_more_laws_on_fewer_settings_win_where_they_give_more(tmp_path: Path) -> None:
    made = arms_of(("decision", "scd"), 2)
    rows = [
        late_row(c, hit=c.case.seed < 22_002, latency=2.0, stale=3.0)
        for c in cells(made)
        if c.case.shock and (c.method == "decision-0" or c.case.seed < 22_002)
    ]
    arms, *_ = factorial.tables(tmp_path, rows, made)
    found = {line[0]: dict(zip(arms.columns, line, strict=True)) for line in arms.rows}
    assert {line["recovery (%)"] for line in found.values()} == {"100.0 ± 0.0"}
    assert {line["settings"] for line in found.values()} == {"16"}
    assert "closed-loop columns: the 8 settings that all these laws have played" in arms.notes


def test_arms_with_the_same_seeds_and_settings_have_no_dagger(tmp_path: Path) -> None:
    made = arms_of(("decision", "scd"), 2)
    rows = [late_row(c, hit=True, latency=2.0, stale=3.0) for c in cells(made) if c.case.shock]
    arms, effects, by_cell = factorial.tables(tmp_path, rows, made)
    for table in (arms, effects, by_cell):
        assert "†" not in " ".join([*table.notes, *(line[0] for line in table.rows)])
    assert "pairs, and so" not in " ".join(effects.notes)


def test_an_arm_that_lacks_a_law_is_not_read_beside_the_others(tmp_path: Path) -> None:
    """The second training seed is worse in every arm; one arm has not played it."""
    made = arms_of(("decision", "scd"), 2)
    rows = [
        late_row(c, hit=c.method.endswith("0"), latency=2.0, stale=3.0)
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
