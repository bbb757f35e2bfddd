"""Floors, ceilings and the verdict: a table says by itself where the law makes no difference."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.report import sheets
from waggle.evaluate.plan import Cell, Recipe
from waggle.evaluate.rows import Row
from waggle.report import catalog
from waggle.report.floors import BELOW, NO_DIFFERENCE, QUESTION, best_floor, plain
from waggle.report.rows import difference, metric, of
from waggle.report.tables import Table, markdown

METHODS: dict[str, dict[str, Any]] = {
    "teacher": {"law": "expert", "label": "Expert", "group": "Reference", "ranked": False},
    "fixed": {"law": "fixedswarm", "label": "FixedSwarm", "group": "Controls"},
    "relay": {"law": "relay", "label": "Relay", "group": "Others"},
    "still": {"law": "relay", "label": "Relay, no decay", "switches": {"decay": False}},
    "quiet": {"law": "private-only", "label": "Private-only"},
    "lucky": {"law": "random-legal", "label": "Random legal"},
}
SCORES = {"teacher": 0.75, "fixed": 0.625, "relay": 0.5, "still": 0.625, "quiet": 0.25,
          "lucky": 0.9}  # fmt: skip
SWARM = {"tasks": ["swarmbench/pursuit", "swarmbench/foraging"], "n": [16], "methods": [*METHODS]}
SILO = {"tasks": ["silo/I-01", "silo/III-26"], "n": [16], "methods": [*METHODS]}


def recipe(*blocks: dict[str, Any], seeds: int = 4) -> Recipe:
    counted = [{**block, "seeds": {"start": 20_000, "count": seeds}} for block in blocks]
    return sheets.recipe(*counted, methods=METHODS)


def rows(made: Recipe) -> list[Row]:
    """Pursuit tells laws apart on every seed, Foraging on every other one the other way round."""

    def score(cell: Cell) -> float:
        swapped = {"teacher": "relay", "relay": "teacher"}
        mixed = cell.case.task == "foraging" and cell.case.seed % 2
        return SCORES[swapped.get(cell.method, cell.method) if mixed else cell.method]

    return sheets.played(made, score)


def table(name: str, made: Recipe, played: list[Row] | None = None) -> Table:
    return catalog.table(name)(rows(made) if played is None else played, made)


def line(found: Table, first: str) -> tuple[str, ...]:
    (own,) = [row[1:] for row in found.rows if row[0] == first]
    return own


def test_floors_stand_first_and_the_ceiling_after_the_laws() -> None:
    found = table("floors-swarmbench", recipe(SWARM))
    assert found.columns[1:] == ("N=16", "N=16")
    assert [span.text for span in found.spans] == ["", "Foraging", "Pursuit"]
    first = [row[0] for row in found.rows]
    assert first[:4] == ["Random legal", "Private-only", "Relay", "Relay, no decay"]
    assert first[4:7] == ["Expert", "FixedSwarm", "Ceiling"]
    assert [group.text for group in found.groups][:2] == ["Floors", "Reference"]
    foraging, pursuit = line(found, "Ceiling")
    assert float(foraging) > 0 and pursuit == "—"


def test_the_floor_is_the_law_in_the_runtime_as_it_is() -> None:
    first = {"guarded": {"law": "relay", "defence": {"reopening": 1}}, **METHODS}
    made = sheets.recipe({**SWARM, "methods": [*first]}, methods=first)
    played = sheets.played(made, lambda cell: SCORES.get(cell.method, 1.0))
    assert plain("relay", played, made) == "relay"


def test_rows_of_a_level_are_counted_once() -> None:
    notes = " ".join(table("floors-silo", recipe(SILO)).notes)
    assert "; 8 episodes per method; " in notes  # two tasks on four seeds


def test_horizons_of_one_task_have_columns_of_their_own() -> None:
    made = recipe(SWARM, {**SWARM, "tasks": ["swarmbench/foraging"]})
    longer = [msgspec.structs.replace(r, rounds=200) for r in rows(made) if r.task == "foraging"]
    found = table("floors-swarmbench", made, [*rows(made), *longer])
    assert found.columns[1:] == ("N=16, T=100", "N=16, T=200", "N=16")


def test_differences_are_of_the_teacher_and_of_the_best_law() -> None:
    found = table("floors-swarmbench", recipe(SWARM))
    assert line(found, "Expert minus Relay")[1] == "+0.25 [+0.25, +0.25]"
    assert line(found, "Expert minus FixedSwarm")[1] == "+0.12 [+0.12, +0.12]"
    assert line(found, "Best law minus the best floor")[1] == "Expert +0.25 [+0.25, +0.25]"


def test_a_task_where_the_interval_holds_zero_is_marked() -> None:
    found = table("floors-swarmbench", recipe(SWARM))
    assert line(found, QUESTION) == (f"no: {NO_DIFFERENCE}", "yes")
    assert NO_DIFFERENCE in markdown(found)


def test_where_relaying_harms_the_floor_is_to_stay_silent() -> None:
    made = recipe(SWARM)
    loud = sheets.played(made, lambda cell: {**SCORES, "quiet": 0.75}[cell.method])
    found = table("floors-swarmbench", made, loud)
    assert line(found, "Best law minus the best floor")[1] == "Expert +0.00 [+0.00, +0.00]"
    assert line(found, QUESTION)[1] == f"no: {NO_DIFFERENCE}"


def test_a_best_law_below_the_floor_is_told_from_one_that_makes_no_difference() -> None:
    made = recipe(SWARM)
    silent = sheets.played(made, lambda cell: {**SCORES, "quiet": 0.875}[cell.method])
    found = table("floors-swarmbench", made, silent)
    assert line(found, QUESTION) == (f"no: {BELOW}", f"no: {BELOW}")


def test_a_floor_that_never_holds_the_refuted_claim_cannot_be_the_floor_of_recovery() -> None:
    made = recipe({**SILO, "tasks": ["silo/III-26"], "shock": True})
    played = sheets.played(made, lambda cell: SCORES[cell.method])

    def held(row: Row) -> Row:
        holders = 0.0 if row.method in ("relay", "still", "quiet") else 0.5
        return msgspec.structs.replace(row, course={"holders": [holders]})

    assert best_floor(played, made, metric("score")) == "relay"
    assert best_floor([*map(held, played)], made, metric("score")) == "lucky"


def test_the_draws_of_one_graph_are_one_unit() -> None:
    made = recipe({"tasks": ["agentsnet/coloring"], "n": [8], "methods": [*METHODS]})
    teacher, relay = (
        of(sheets.played(made, lambda cell: 1.0), name) for name in ("teacher", "relay")
    )
    found = difference(teacher, relay, metric("score"))
    assert found is not None and (found.units, found.single) == (1, True)


def test_one_seed_cannot_tell_and_neither_can_a_run_without_relay() -> None:
    assert line(table("floors-swarmbench", recipe(SWARM, seeds=1)), QUESTION) == ("—", "—")
    made = recipe(SWARM)
    without = [row for row in rows(made) if row.method not in ("relay", "still")]
    found = table("floors-swarmbench", made, without)
    assert line(found, QUESTION) == ("—", "—")
    assert not any(row[0].startswith("Expert minus Relay") for row in found.rows)


def test_a_law_that_played_fewer_cases_is_not_the_best() -> None:
    made = recipe(SWARM)
    cut = [row for row in rows(made) if row.method != "teacher" or row.seed == 20_000]
    assert line(table("floors-swarmbench", made, cut), "Best law minus the best floor")[
        1
    ].startswith("FixedSwarm +0.12")


def test_silo_has_levels_and_its_ceiling_in_per_cent() -> None:
    found = table("floors-silo", recipe(SILO))
    assert found.columns[1:] == ("all", "Level I", "Level III")
    assert line(found, "Expert") == ("75.0", "75.0", "75.0")
    assert all(0 < float(cell) <= 100 for cell in line(found, "Ceiling"))


def test_the_primary_matrix_is_judged_by_task() -> None:
    found = table("primary", recipe(SILO, SWARM))
    cells = dict(zip(found.columns, found.rows[-1], strict=True))
    assert found.rows[-1][0] == QUESTION and cells["Level I"] == "yes"
    assert "yes / no" in found.rows[-1] and any(NO_DIFFERENCE in note for note in found.notes)


def test_a_matrix_without_relay_stays_as_it_is() -> None:
    made = recipe(SILO)
    without = [row for row in rows(made) if row.method not in ("relay", "still")]
    found = table("primary", made, without)
    assert [row[0] for row in found.rows] == [
        "Expert", "FixedSwarm", "Private-only", "Random legal",
    ]  # fmt: skip
