"""The first words of a report, from rows that were made by hand."""

from __future__ import annotations

import msgspec

from tests.report import sheets
from waggle.evaluate.plan import Cell, Recipe, cells
from waggle.report.web.opening import Opening, opening, plural
from waggle.report.web.picture import file, picture

METHODS = {
    "teacher": {"law": "expert", "label": "Expert"},
    "twin": {"law": "heuristic", "label": "Twin"},
    "weak": {"law": "fixedswarm", "label": "Weak"},
    "relay": {"law": "relay", "label": "Relay"},
}
BLOCKS = (
    {"tasks": ["silo/I-01", "silo/II-11"], "n": [16], "methods": list(METHODS),
     "seeds": {"start": 20_000, "count": 4}},
    {"tasks": ["swarmbench/pursuit"], "n": [8], "methods": list(METHODS),
     "seeds": {"start": 20_000, "count": 4}},
)  # fmt: skip


def made(*blocks: dict[str, object]) -> Recipe:
    return sheets.recipe(*(blocks or BLOCKS), methods=METHODS)


def score(cell: Cell) -> float:
    if cell.case.substrate == "swarmbench":  # nobody differs from the floor by more than noise
        return 5.0 + (cell.case.seed + (cell.method == "relay")) % 2
    noise = 0.01 * (cell.case.seed % 2)
    return {"teacher": 0.9, "twin": 0.89 + 2 * noise, "weak": 0.5, "relay": 0.25}[cell.method]


def told(recipe: Recipe) -> Opening:
    found = opening(sheets.played(recipe, score), recipe)
    assert found is not None
    return found


def test_words_say_what_was_compared_and_what_came_out() -> None:
    found = told(made())
    assert found.compared == (
        "4 methods (Expert, Twin, Weak, Relay) on Silo (2 tasks) and SwarmBench (1 task), N = 8, "
        "16, seeds 20000 to 20003 (4): 48 episodes."
    )
    assert found.outcome == (
        "The best law is above the floor in 1 of 2 settings; no difference from the floor in "
        "Pursuit N=8. Best, or no different from the best, of 2 settings: Expert in 2, Twin in 2, "
        "Weak in 1."
    )
    (table,) = found.table()
    assert table.rows[0] == (
        "Silo N=16, R=9 (%)", "Expert", "90.0", "Twin", "Relay", "25.0", "+65.0 [+65.0, +65.0]"
    )  # fmt: skip
    assert "The floor is the best of" in found.words and "ceiling" not in found.words


def test_three_worlds_are_listed_as_a_sentence_lists_them() -> None:
    graphs = {**BLOCKS[1], "tasks": ["agentsnet/matching"]}
    assert (
        "on AgentsNet (1 task), Silo (2 tasks) and SwarmBench (1 task), N = 8, 16"
        in told(made(*BLOCKS, graphs)).compared
    )


def test_one_seed_judges_nothing_and_no_rows_say_nothing() -> None:
    recipe = made({**BLOCKS[0], "seeds": {"start": 20_000, "count": 1}})
    found = told(recipe)
    assert found.outcome.endswith("There is one seed, so that nothing is compared with a floor.")
    assert found.table()[0].rows[0][-1].endswith(", one seed")
    assert opening([], recipe) is None


def test_without_relay_the_best_floor_that_was_played_counts() -> None:
    recipe = sheets.recipe(sheets.SILO)
    rows = sheets.played(recipe, sheets.by_method(teacher=0.9, quiet=0.1, learned=0.8))
    found = opening(rows, recipe)
    assert found is not None and found.settings[0].floor == "quiet"
    assert "above the floor in 2 of 2" in found.outcome
    loud = [row for row in rows if row.method != "quiet"]
    found = opening(loud, recipe)
    assert found is not None and "No floor was played" in found.outcome


def test_no_floor_stands_beside_relay_where_none_holds_the_refuted_claim() -> None:
    methods = {"whole": {"law": "expert"}, "relay": {"law": "relay"}}
    block = {**sheets.LATE, "methods": list(methods)}
    recipe = sheets.recipe(block, methods=methods)
    rows = [
        sheets.late_row(cell, hit=cell.method == "whole", latency=2.0, stale=1.0)
        for cell in cells(recipe)
    ]
    idle = [
        msgspec.structs.replace(row, course={**row.course, "holders": [0.0]})
        if row.method == "relay"
        else row
        for row in rows
    ]
    for played, floor in ((rows, "relay"), (idle, "")):
        found = opening(played, recipe)
        assert found is not None and {each.floor for each in found.settings} == {floor}


def test_a_learned_law_is_told_whether_or_not_it_is_the_best() -> None:
    methods = {name: {**METHODS[name], "teacher": "expert"} if name == "twin" else METHODS[name]
               for name in METHODS}  # fmt: skip
    found = told(sheets.recipe(*BLOCKS, methods=methods))
    assert found.outcome.endswith(" Learned laws above the floor: Twin in 1 of 2.")
    assert "Learned" not in told(made()).outcome


def test_laws_of_one_label_are_called_by_their_names() -> None:
    alike = {name: {**spec, "label": "Same"} for name, spec in METHODS.items() if name != "relay"}
    found = told(sheets.recipe(*BLOCKS, methods={**METHODS, **alike}))
    assert found.outcome.endswith("of 2 settings: teacher in 2, twin in 2, weak in 1.")
    assert found.table()[0].rows[0][1:4] == ("teacher", "90.0", "twin")


def test_a_law_on_fewer_cases_is_not_the_best() -> None:
    recipe = made(BLOCKS[0])
    rows = [
        msgspec.structs.replace(row, metrics={**row.metrics, "score": 1.0})
        if row.method == "weak" else row
        for row in sheets.played(recipe, score)
        if row.method != "weak" or row.seed == 20_000
    ]  # fmt: skip
    found = opening(rows, recipe)
    assert found is not None and found.settings[0].best == "Expert"
    assert "Weak" not in found.settings[0].means


def test_a_law_that_is_alone_is_the_best_of_nothing() -> None:
    recipe = made()
    rows = sheets.played(recipe, score)
    alone = [row for row in rows if row.method == "weak"]
    found = opening(alone, recipe)
    assert found is not None and found.settings == () and found.table() == []
    assert found.outcome == (
        "Only Weak has been played. `waggle eval recipes/x.toml --merge results/primary` puts the "
        "stored rows beside it."
    )
    both = [row for row in rows if row.method == "weak" or row.substrate == "silo"]
    found = opening(both, recipe)
    assert found is not None and len(found.settings) == 1
    assert "Best, or no different from the best, of 1 setting: " in found.outcome
    assert found.outcome.endswith(" Left out: 1 setting that one method alone has played.")


def test_without_stored_rows_the_other_methods_are_to_be_played() -> None:
    recipe = sheets.recipe({"tasks": ["beacon"], "n": [4]}, source="")
    rows = sheets.played(recipe, sheets.by_method(teacher=1.0, quiet=0.0, learned=0.5))
    found = opening([row for row in rows if row.method == "learned"], recipe)
    assert found is not None
    assert found.outcome == (
        "Only Ours has been played. `waggle eval RECIPE` plays the other methods."
    )
    apart = [row for row in rows if (row.method == "learned") == (row.seed == 20_000)]
    apart = [msgspec.structs.replace(r, n=8) if r.method == "learned" else r for r in apart
             if r.method != "quiet"]  # fmt: skip
    found = opening(apart, recipe)
    assert found is not None
    assert found.outcome == "No two methods have played the same setting."
    assert plural(1, "run") == "1 run" and plural(1_000, "run") == "1,000 runs"


def test_late_counterevidence_is_judged_by_recovery() -> None:
    recipe = sheets.recipe(sheets.LATE, methods=sheets.LATE_METHODS)
    rows = [
        sheets.late_row(cell, hit=cell.method != "other", latency=2.0, stale=1.0)
        for cell in cells(recipe)
    ]
    found = opening(rows, recipe)
    assert found is not None
    assert found.compared.endswith("32 episodes, all with late counterevidence.")
    assert [each.name for each in found.settings] == [
        "recovery, Silo III-26 (%)", "recovery, Pursuit (%)",
    ]  # fmt: skip
    assert "a setting here is one task at every N" in found.words
    assert found.settings[0].means["whole"] == 100 and found.settings[0].means["other"] == 0


def test_the_picture_has_every_mark_that_its_legend_names_and_no_other() -> None:
    found = told(made())
    drawn = picture(found.settings)
    for kind in ("best", "same", "law", "floor"):
        assert f"class='{kind}'" in drawn
    assert "<path class='ceiling'" not in drawn and ">ceiling<" not in drawn
    assert drawn.count(">no difference<") + drawn.count("> no difference<") == 2
    assert "another law" not in picture(found.settings[1:])
    assert file(found.settings).startswith("<svg xmlns=")


def test_markup_in_names_is_text() -> None:
    label = "<img src=x onerror='window.broken=1'>"
    methods = {**METHODS, "teacher": {"law": "expert", "label": label}}
    recipe = sheets.recipe(BLOCKS[0], methods=methods)
    found = told(recipe)
    assert "<img" not in picture(found.settings)
    assert not any(line.replace("\\<img", "").count("<img") for line in found.markdown())
