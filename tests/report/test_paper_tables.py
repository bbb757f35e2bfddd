"""Tables in the paper's layout, from scores made up so that every number can be said beforehand."""

from __future__ import annotations

import msgspec
import pytest

from tests.report import sheets
from tests.report.sheets import SILO, SWARM
from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe, cells
from waggle.evaluate.rows import Row
from waggle.report import catalog, tables
from waggle.report.model_card import run_results
from waggle.report.provenance import counted
from waggle.report.tables import Table

SCORES = sheets.by_method(teacher=1.0, quiet=0.25, learned=0.5)


def made(name: str, recipe: Recipe, rows: list[Row] | None = None) -> Table:
    return catalog.table(name)(sheets.played(recipe, SCORES) if rows is None else rows, recipe)


def line(table: Table, first: str) -> dict[str, str]:
    """Return a row by its first cell; where column names repeat, the last one counts."""
    (found,) = [row for row in table.rows if row[0] == first]
    return dict(zip(table.columns, found, strict=True))


def test_primary_has_both_substrates_and_ranks_without_the_teacher() -> None:
    table = made("primary", sheets.recipe(SWARM, SILO))
    assert sum(span.columns for span in table.spans) == len(table.columns)
    assert [row[0] for row in table.rows] == ["Expert", "quiet", "Ours"]
    assert table.rows[2][1:6] == ("50.0 / 8.00", "50.0 / 8.00", "50.0", "50.0", "50.0")
    assert table.rows[2][6] == "0.50 / 0.50"
    norm = sum(0.5 / anchors.load().scores[t] for t in ("pursuit", "foraging")) / 2
    assert table.rows[2][8] == f"{norm:.3f}"
    assert [row[-1] for row in table.rows] == ["—", "2.00", "1.00"]
    assert [group.text for group in table.groups] == ["Reference", "Controls", "Learned"]


def test_every_table_says_teacher_backbone_regime_seeds_and_command() -> None:
    notes = " ".join(made("primary", sheets.recipe(SWARM, SILO)).notes)
    for said in ("teacher expert", "backbone nano", "order canonical", "regime directed, R = 9",
                 "seeds 20000 to 20001", "waggle eval recipes/x.toml"):  # fmt: skip
        assert said in notes


def test_paired_scaling_is_of_the_reference() -> None:
    table = made("paired-scaling", sheets.recipe(SWARM, SILO, reference=["absent", "learned"]))
    assert table.title.startswith("Paired differences: Ours")
    silo = {row[1]: row[2] for row in table.rows if row[0].startswith("Silo")}
    assert silo == {
        "Expert": "-50.0 [-50.0, -50.0] (50.0%)",
        "quiet": "+25.0 [+25.0, +25.0] (200.0%)",
    }


def test_tokens_stand_beside_those_of_agent_distillation() -> None:
    methods = {**sheets.METHODS, "agentdistill": {**sheets.METHODS["learned"], "label": "AD"}}
    recipe = sheets.recipe({**SILO, "methods": list(methods)}, methods=methods)
    used = {"learned": 300.0, "agentdistill": 200.0}
    rows = [
        sheets.row(cell, 0.5, input_tokens=used.get(cell.method, 0.0)) for cell in cells(recipe)
    ]
    found = {name: line(made("accounting", recipe, rows), name) for name in ("Ours", "AD", "quiet")}
    shown = [some["input tokens / episode"] for some in found.values()]
    assert shown == ["300 (1.50×)", "200 (1.00×)", "—"]
    alone = [row for row in rows if row.method == "learned"]
    table = made("accounting", sheets.recipe(SILO), alone)
    assert line(table, "Ours")["input tokens / episode"] == "300"
    assert not any("Agent Distillation" in note for note in table.notes)


def test_levels_strict_and_bytes() -> None:
    found = line(made("silo-levels", sheets.recipe({**SILO, "n": [16]})), "Expert")
    assert (found["Level II"], found["strict S"], found["kB / episode"]) == (
        "100.0",
        "100.0",
        "2.0",
    )
    assert found["episodes"] == "6"


def test_ports_by_cap() -> None:
    options = {"options": {"silo": {"regime": "ports"}}, "vary": {"silo": {"cap": [512, 4096]}}}
    recipe = sheets.recipe({**SILO, **options, "n": [64]})
    rows = sheets.played(recipe, lambda c: 0.5 if c.case.options["cap"] == 512 else 1.0)
    table = made("silo-ports", recipe, rows)
    assert [span.text for span in table.spans[1:]] == [
        "N=64, 512 bytes per frame",
        "N=64, 4096 bytes per frame",
    ]
    assert table.rows[0][1:3] == ("50.0", "0.0") and table.rows[0][5:7] == ("100.0", "100.0")
    assert "ports 512 bytes and ports 4096 bytes" in " ".join(table.notes)


def test_horizon_by_rounds_of_communication() -> None:
    recipe = sheets.recipe({**SILO, "n": [64], "rounds": [3, 9]})
    rows = sheets.played(recipe, lambda cell: (cell.case.rounds or 0) / 10)
    found = line(made("horizon", recipe, rows), "Ours")
    assert (found["R=3"], found["R=9"]) == ("30.0 / 8.00", "90.0 / 8.00")


def test_extension_retains_the_ratio() -> None:
    recipe = sheets.recipe({**SILO, "n": [64, 128]}, {**SWARM, "n": [64, 128]})
    rows = sheets.played(recipe, lambda cell: 0.8 if cell.case.n == 64 else 0.6)
    row = made("extension", recipe, rows).rows[0]
    assert row[1:4] == ("80.0", "60.0", "75.0")


def test_one_population_alone_retains_nothing() -> None:
    recipe = sheets.recipe({**SILO, "n": [64, 128]})
    rows = [row for row in sheets.played(recipe, lambda _cell: 0.6) if row.n == 128]
    assert made("extension", recipe, rows).rows[0][1:4] == ("—", "60.0", "—")


def test_retention_is_on_seeds_that_both_populations_have() -> None:
    """The seed that is missing at the larger population is an easy one at the smaller."""
    recipe = sheets.recipe({**SILO, "n": [64, 128]})
    rows = sheets.played(
        recipe,
        lambda c: 0.3 if c.case.n == 128 else 0.4 if c.case.seed == 20_000 else 0.8,
    )
    cut = [r for r in rows if not (r.method == "learned" and (r.n, r.seed) == (128, 20_001))]
    found = {row[0]: row[1:4] for row in made("extension", recipe, cut).rows}
    assert found["Expert"] == ("60.0", "30.0", "50.0")
    assert found["Ours †"] == ("60.0", "30.0", "75.0")


def test_anchor_tables_have_deviations_and_kilobytes() -> None:
    recipe = sheets.recipe({**SWARM, "n": [8]}, {**SILO, "n": [4, 8]})
    rows = sheets.played(recipe, lambda cell: float(cell.case.seed % 2))
    assert made("swarm-anchor", recipe, rows).rows[0][1] == "0.50 ± 0.71"
    assert made("silo-anchor", recipe, rows).rows[0][1:4] == ("50.00", "64.00", "2.00")


def test_the_mechanism_table_counts_what_became_of_writes_and_leaves_the_silent_out() -> None:
    recipe = sheets.recipe({**SWARM, "n": [8]})
    wrote = {"writes.executed": 7, "writes.suppressed.duplicate": 3}
    rows = []
    for row in sheets.played(recipe, SCORES):
        asked = {"writes.candidate": 10 + 4 * (row.seed % 2), **wrote}
        counters = {} if row.method == "quiet" else asked
        rows.append(msgspec.structs.replace(row, counters=counters))
    table = made("swarm-mechanism", recipe, rows)
    methods = {row[0] for row in table.rows}
    assert "Ours" in methods and "quiet" not in methods
    assert table.columns[1:4] == ("asked", "done", "repeat")
    assert table.rows[0][1:5] == ("12.0 ± 2.8", "7.0 ± 0.0", "3.0 ± 0.0", "0.0 ± 0.0")


def test_flocking_and_transport() -> None:
    recipe = sheets.recipe({"tasks": ["swarmbench/flocking", "swarmbench/transport"], "n": [16]})
    table = made("flocking-transport", recipe)
    assert table.columns == ("method", "N=16", "N=16") and table.rows[0][1:] == ("1.00", "1.00")


def test_same_runtime_counts_recoveries() -> None:
    shock = {"tasks": ["silo/III-26"], "n": [32], "shock": True, "seeds": [22_000, 22_001]}
    recipe = sheets.recipe({**SILO, "n": [64]}, {**SWARM, "n": [64]}, shock)
    rows = sheets.played(recipe, SCORES)
    rows = [
        msgspec.structs.replace(r, metrics={**r.metrics, "recovery": float(r.seed == 22_000),
                                            "resynthesis_latency": float(r.seed - 21_996)})
        if r.shock else r
        for r in rows
    ]  # fmt: skip
    found = line(made("same-runtime", recipe, rows), "Ours")
    assert found["Silo mean S, N=64"] == "0.500 [0.500, 0.500]"
    assert found["late-conflict recovery"] == "1/2 (50.0%)"
    assert found["re-synthesis latency"] == "4.0"
    alone = line(made("same-runtime", recipe, [row for row in rows if row.shock]), "Ours")
    assert alone["Silo mean S"] == "—" and alone["late-conflict recovery"] == "1/2 (50.0%)"


GRAPHS = {"tasks": ["agentsnet/*"], "n": [8, 16], "options": {"agentsnet": {"priority": True}},
          "vary": {"agentsnet": {"family": ["ws", "ba"], "index": [0]}}}  # fmt: skip


def test_agentsnet_layout_and_retention() -> None:
    recipe = sheets.recipe(GRAPHS, reference=["learned"])
    rows = sheets.played(recipe, lambda c: 1.0 if c.case.n == 8 or c.method == "learned" else 0.5)
    table = made("agentsnet", recipe, rows)
    quiet = line(table, "quiet")
    assert quiet["Coloring"] == "0.75" and quiet["16/8"] == "0.00" and quiet["avg. rank"] == "1.93"
    assert line(table, "Ours")["overall"] == "1.00"
    paired = made("agentsnet-paired", recipe, rows)
    assert paired.rows[1][1:3] == ("+0.000 [+0.000, +0.000]", "+1.000 [+1.000, +1.000]")


def test_priority_is_stratified_by_symmetry() -> None:
    without = {**GRAPHS, "tasks": ["agentsnet/leader_election"],
               "options": {"agentsnet": {"priority": False}}}  # fmt: skip
    recipe = sheets.recipe(GRAPHS, without)
    rows = sheets.played(recipe, lambda cell: float(cell.case.options["priority"]))
    table = made("agentsnet-priority", recipe, rows)
    assert line(table, "Ours, with")["overall (4)"] == "1.00 / 1.00"
    assert line(table, "Ours, without")["overall (4)"] == "0.00 / 0.00"
    assert line(table, "Ours, with")["gain"] == "+1.000"  # one graph in each size and topology
    assert line(table, "Ours, without")["gain"] == "—"
    by_degree = [int(c.split("(")[1][:-1]) for c in table.columns if "maximum degree" in c]
    assert sum(by_degree) == 4


def test_a_swapped_goal_is_compared_on_the_same_cases_and_stays_out_of_other_tables() -> None:
    swapped = {**GRAPHS, "tasks": ["agentsnet/matching"], "n": [8],
               "options": {"agentsnet": {"priority": True, "goal": "coloring"}}}  # fmt: skip
    recipe = sheets.recipe(GRAPHS, swapped)
    rows = sheets.played(recipe, lambda cell: float("goal" not in cell.case.options))
    found = line(made("agentsnet-goal-swap", recipe, rows), "Ours")
    assert found["Matching"] == "1.00 / 0.00" and found["drop"].startswith("+1.000")
    assert line(made("agentsnet", recipe, rows), "Ours")["Matching"] == "1.00"


@pytest.mark.parametrize("name", [
    "primary", "paired-scaling", "silo-levels", "silo-ports", "swarm-anchor",
    "swarm-mechanism", "silo-anchor", "horizon", "extension", "accounting",
    "agentsnet", "agentsnet-paired", "agentsnet-priority", "agentsnet-goal-swap",
    "agentsnet-protocols", "flocking-transport",
    "ceilings", "floors-silo", "floors-swarmbench", "floors-agentsnet",
])  # fmt: skip
def test_a_table_without_its_rows_says_so(name: str) -> None:
    table = made(name, sheets.recipe({"tasks": ["beacon"], "n": [4]}))
    assert "no finished episodes yet" in table.notes


def test_only_whole_seeds_count_and_the_rest_is_said() -> None:
    recipe = sheets.recipe({**SILO, "n": [16]})
    rows = sheets.played(recipe, SCORES)
    cut = [r for r in rows if not (r.method == "learned" and r.seed == 20_001 and r.task == "I-01")]
    cut = [r for r in cut if r.method != "quiet"]
    kept = counted([*cut, msgspec.structs.replace(rows[0], cell="f" * 16)], recipe)
    counts = [(r.method, r.seed) for r in kept.rows]
    assert counts.count(("learned", 20_000)) == 3 and ("learned", 20_001) not in counts
    assert "Ours: 3 of 6 planned episodes, 1 seed, 2 of unfinished seeds left out" in kept.notes
    assert "not played yet: quiet" in kept.notes
    assert "1 row of other plans left out" in kept.notes
    failed = msgspec.structs.replace(rows[0], method="quiet", error="no answer")
    quiet = next(row for row in rows if row.method == "quiet")
    kept = counted([*cut, msgspec.structs.replace(failed, cell=quiet.cell)], recipe)
    assert "failed in every episode: quiet" in kept.notes
    assert not any(note.startswith("not played yet") for note in kept.notes)


def test_what_failed_counts_only_where_the_plan_asks_for_it() -> None:
    recipe = sheets.recipe({**SILO, "n": [16]})
    first, *others = sheets.played(recipe, SCORES)
    broken = msgspec.structs.replace(first, error="no such model")
    elsewhere = msgspec.structs.replace(broken, cell="f" * 16)
    kept = counted([broken, elsewhere, *others], recipe)
    assert kept.failed == [broken] and kept.foreign == 1
    assert not any(row.error for row in kept.rows)
    assert run_results(recipe, [broken, elsewhere, *others], "waggle eval")["failed"] == 1


def test_marks_go_to_first_and_second_of_the_ranked() -> None:
    rows = (("a", "9", "1 / 5"), ("b", "3", "2 / 4"), ("c", "2", "3 / 4"), ("d", "1", "3 / 4"))
    ways = ("", "higher", "lower / higher")
    table = Table("t", ("m", "x", "y"), rows, better=ways, unranked=frozenset({0}))
    found = tables.marks(table)
    assert found[1, 1, 0] == 1 and found[2, 1, 0] == 2 and (0, 1, 0) not in found
    assert found[1, 2, 0] == 1 and found.get((2, 2, 0)) is None
    assert not any(part == 1 for _, _, part in found)
    assert r"\textbf{3}" in tables.latex(table) and "<u class='second'>2</u>" in tables.html(table)


def test_spans_and_groups_in_all_faces() -> None:
    table = made("primary", sheets.recipe(SWARM, SILO))
    assert r"\cmidrule(lr){2-3}" in tables.latex(table)
    assert "colspan='2' class=over" in tables.html(table)
    assert "SwarmBench normalized: N=16" in tables.markdown(table)


def test_figures_repeat_byte_by_byte() -> None:
    recipe = sheets.recipe({**SWARM, "n": [16]})
    rows = sheets.played(recipe, SCORES)
    one, two = (catalog.figure("tradeoff")(rows, recipe) for _ in range(2))
    assert one == two and b"<svg" in one.svg and one.pdf.startswith(b"%PDF")
    assert "teacher expert" in one.caption and "N = 32" not in one.caption


@pytest.mark.usefixtures("rough_figures")
def test_the_figure_of_the_horizon_names_its_rounds() -> None:
    horizon = sheets.recipe({**SILO, "n": [64], "rounds": [3, 9]})
    drawn = catalog.figure("horizon")(sheets.played(horizon, SCORES), horizon)
    assert "R = 3, 9" in drawn.caption


def test_plans_are_the_ones_the_rows_came_from() -> None:
    recipe = sheets.recipe(SILO)
    assert {row.cell for row in sheets.played(recipe, SCORES)} == {c.id for c in cells(recipe)}
