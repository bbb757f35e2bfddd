"""Reorganization tables and figures, from rows made by hand."""

from __future__ import annotations

import msgspec
import pytest

from tests.report.sheets import LATE, LATE_METHODS, course, late_row, row
from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe, cells
from waggle.evaluate.rows import Row
from waggle.report import catalog
from waggle.report.reorganization import figures, runtime, tables, trajectory


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    base = {"title": "T", "methods": LATE_METHODS, "blocks": [LATE]}
    return Recipe.model_validate(base)


@pytest.fixture(scope="module")
def rows(recipe: Recipe) -> list[Row]:
    made = []
    for cell in cells(recipe):
        first = cell.case.seed == 22_000
        hit = {"whole": True, "no-decay": first, "lossy": True, "other": False}[cell.method]
        latency = {"whole": 2.0, "no-decay": 5.0, "lossy": 3.0, "other": None}[cell.method]
        made.append(
            late_row(cell, hit=hit, latency=latency, stale=9.0 if "decay" in cell.method else 3.0)
        )
    return made


def test_cells_pool_upwards(rows: list[Row], recipe: Recipe) -> None:
    table = tables.cells(rows, recipe)
    mine = [line for line in table.rows if line[0] == "no decay"]
    assert [(line[1], line[2]) for line in mine] == [
        ("swarmbench/pursuit", "32"), ("swarmbench/pursuit", "64"), ("swarmbench/pursuit", "all"),
        ("silo/III-26", "32"), ("silo/III-26", "64"), ("silo/III-26", "all"), ("pooled", "all"),
    ]  # fmt: skip
    assert [line[3] for line in mine][-2:] == ["2/4 (50.0 %)", "4/8 (50.0 %)"]
    assert mine[-1][4] == "8/8 (100.0 %)"
    assert mine[-1][6] == "5.00"


def test_a_mean_over_some_settings_says_so(rows: list[Row], recipe: Recipe) -> None:
    """Half of the swarm does not come to hold a new claim everywhere."""
    never = [
        msgspec.structs.replace(each, metrics={**each.metrics, "half_latency": value})
        for each, value in ((rows[0], 4.0), (rows[1], None))
    ]
    for made in (tables.cells(never, recipe), tables.process(never, recipe)):
        column = list(made.columns).index("half new after")
        assert made.rows[-1][column] == "4.0"
        assert any("half new after" in note and "come to it" in note for note in made.notes)


def test_components_are_read_against_their_own_law(rows: list[Row], recipe: Recipe) -> None:
    lines = {line[:2]: line for line in tables.components(rows, recipe).rows}
    assert lines["whole", "pooled"][3] == "—"
    ablated = lines["no decay", "pooled"]
    assert ablated[2] == "4/8 (50.0 %)" and ablated[3].startswith("+50.0 [+")
    assert ablated[7] == "-3.00"  # one setting per cell recovers in both: nothing to resample
    assert ablated[8:10] == ("2.00", "+0.00 [+0.00, +0.00]")
    assert ablated[11] == "-6.00 [-6.00, -6.00]"
    assert ablated[12:] == ("50", "0")  # held the old at the injection, and at the end
    assert lines["other", "pooled"][3] == "—"


def test_a_law_under_a_defence_is_not_its_own_reference(recipe: Recipe) -> None:
    guarded = recipe.methods["whole"].model_copy(update={"defence": {"reopening": 1}})
    more = recipe.model_copy(update={"methods": {"guarded": guarded, **recipe.methods}})
    assert tables.own_reference(more, "guarded", list(more.methods)) == "whole"


def test_process_counts_a_source_that_never_recovers(rows: list[Row], recipe: Recipe) -> None:
    lines = {line[0]: line for line in tables.process(rows, recipe).rows}
    assert lines["other"][1] == "0/8 (0.0 %)" and lines["other"][4:7] == ("—", "—", "—")
    assert lines["no decay"][6] == "3.00×"


def test_effects_name_their_contrast(rows: list[Row], recipe: Recipe) -> None:
    found = {(line[0], line[1]): line for line in tables.effects(rows, recipe).rows}
    assert found["whole − other", "pooled"][2] == "+100.0 [+100.0, +100.0]"
    assert found["whole − other", "pooled"][-1] == "8"
    assert ("whole − whole", "pooled") not in found


def test_perturbations_are_relative_to_the_synchronous_engine(
    rows: list[Row], recipe: Recipe
) -> None:
    lines = {line[0]: line for line in runtime.perturbations(rows, recipe).rows}
    assert lines["whole"][1] == "1.000" and lines["whole"][5] == "—"
    assert lines["lossy"][1] == "0.500"
    assert lines["lossy"][5] == "+0.0 [+0.0, +0.0]"
    assert lines["lossy"][8] == "0.0 / 6.0"


def test_sensitivity_shares_runs_that_cannot_differ(recipe: Recipe) -> None:
    plain = {**LATE, "shock": False, "methods": ["whole"], "tasks": ["swarmbench/foraging"]}
    own = {**LATE, "shock": False, "methods": ["whole", "no-decay"],
           "tasks": ["swarmbench/pursuit"]}  # fmt: skip
    made = Recipe.model_validate({"title": "T", "methods": LATE_METHODS, "blocks": [plain, own]})
    rows = [row(c, 3.0 if c.method == "no-decay" else 2.0) for c in cells(made)]
    lines = {line[0]: line for line in runtime.sensitivity(rows, made).rows}
    assert lines["no decay"][1] == "1.250"
    assert [lines[m][-1] for m in ("whole", "no decay")] == ["8", "8"]


def test_what_a_configuration_has_yet_to_play_is_not_taken_from_the_default() -> None:
    plain = {**LATE, "shock": False, "methods": ["whole", "no-decay"]}
    made = Recipe.model_validate({"title": "T", "methods": LATE_METHODS, "blocks": [plain]})
    rows = [
        row(c, 3.0 if c.method == "no-decay" else 2.0)
        for c in cells(made)
        if c.method == "whole" or c.case.task == "pursuit"
    ]
    (line,) = (each for each in runtime.sensitivity(rows, made).rows if "no decay" in each[0])
    assert line[1] == "1.500" and line[-1] == "4"


def test_a_setting_without_injection_did_not_recover(rows: list[Row]) -> None:
    data = {name: getattr(rows[0], name) for name in rows[0].__struct_fields__}
    silent = Row(**{**data, "metrics": {"recovery": None}, "course": {}})
    assert tables.hits([rows[0], silent], "recovery") == "1/2 (50.0 %)"


def test_misses_name_the_condition(rows: list[Row], recipe: Recipe) -> None:
    table = tables.misses(rows, recipe)
    found = [dict(zip(table.columns, line, strict=True)) for line in table.rows]
    assert {each["method"] for each in found} == {"no decay", "other"}
    other = [each for each in found if each["method"] == "other"]
    assert len(other) == 4 and other[0]["missed"] == "2/2"
    assert [other[0][text] for text in ("too few reopened", "no replacement", "new not ahead")] == [
        "2", "2", "0",
    ]  # fmt: skip
    assert other[0]["led once"] == "2" and other[0]["held the old (%)"] == "50"
    assert other[0]["seeds"] == "22000, 22001"


def test_half_of_the_holders_is_enough_although_shares_are_rounded(
    rows: list[Row], recipe: Recipe
) -> None:
    """One agent of 32 is 0.03125, which a row holds as 0.0312."""
    other = next(row for row in rows if row.method == "other" and row.n == 32)
    shares = {**other.course, "holders": [0.0625], "cleared": [0.0312]}
    table = tables.misses([msgspec.structs.replace(other, course=shares)], recipe)
    (line,) = (dict(zip(table.columns, line, strict=True)) for line in table.rows)
    assert line["too few reopened"] == "0" and line["no replacement"] == "1"


def test_a_method_on_fewer_settings_is_marked_in_every_table(
    rows: list[Row], recipe: Recipe
) -> None:
    some = [row for row in rows if row.method != "no-decay" or row.seed == 22_000]
    makers = (
        tables.cells, tables.process, tables.components, tables.misses, runtime.perturbations,
        runtime.sensitivity,
    )  # fmt: skip
    some = [
        msgspec.structs.replace(row, metrics={**row.metrics, "recovery": 0.0})
        if row.method == "no-decay" else row
        for row in some
    ]  # fmt: skip
    for make in makers:
        named = {line[0] for line in make(some, recipe).rows}
        assert "no decay †" in named and "no decay" not in named
    contrasts = {line[0] for line in tables.effects(some, recipe).rows}
    assert "whole − no decay †" in contrasts
    twice = recipe.methods["no-decay"].model_copy(update={"label": "no decay †"})
    again = recipe.model_copy(update={"methods": {**recipe.methods, "no-decay": twice}})
    assert "no decay †" in {line[0] for line in tables.cells(some, again).rows}


def test_lines_end_where_the_first_setting_ends(rows: list[Row]) -> None:
    short = msgspec.structs.replace(rows[1], course=course())
    long = msgspec.structs.replace(rows[0], course=course(shift=20))
    assert figures.span([long, short]) == (-6, 2)
    assert figures.span([long]) == (-6, 22)


def test_story_is_chosen_by_rule_and_told(rows: list[Row], recipe: Recipe) -> None:
    told = trajectory.representative(rows, recipe)
    assert (told.method, told.task, told.n, told.seed) == ("whole", "pursuit", 32, 22_000)
    text = " ".join(trajectory.sentences(told))
    assert "At round 2 the counterevidence comes; 50 % hold the old claim." in text
    assert "Challenge peaks at +1." in text and "first leads at +2 and keeps the lead." in text
    assert text.endswith("The swarm recovered.")
    lines = trajectory.trajectory(rows, recipe).rows
    assert [line[0] for line in lines] == ["-2", "-1", "+0", "+1", "+2"]
    assert lines[0][1] == "50 %" and lines[3][4] == "8"
    with pytest.raises(ConfigError, match="shock = true"):
        trajectory.representative([], recipe)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ([0.0, 0.5, 0.0, 0.5], "leads at +1, loses the lead at +2 and has it for good from +3."),
        ([0.0, 0.5, 0.0, 0.0], "leads at +1, loses the lead at +2."),
    ],
)
def test_a_lost_lead_is_told_and_shown(
    new: list[float], said: str, rows: list[Row], recipe: Recipe
) -> None:
    told = trajectory.representative(rows, recipe)
    long = course(shift=1)
    long |= {"old": [0.5, 0.5, *[0.25] * 4], "new": [0.0, 0.0, *new]}
    changed = [
        msgspec.structs.replace(row, course=long) if row.cell == told.cell else row for row in rows
    ]
    table = trajectory.trajectory(changed, recipe)
    assert said in table.notes[0]
    assert table.rows[-1][0] == "+3"  # the last round, which decides


FIGURES = (
    "reorganization-course", "reorganization-activity", "trajectory", "attribution-sources",
    "attribution-components", "perturbations", "sensitivity",
)  # fmt: skip


@pytest.mark.usefixtures("rough_figures")
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn(name: str, rows: list[Row], recipe: Recipe) -> None:
    drawn = catalog.figure(name)(rows, recipe)
    assert drawn.svg.startswith(b"\x89PNG") and drawn.name and drawn.title
