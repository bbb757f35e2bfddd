"""Tables from rows that were made by hand, and the page a person opens."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from tests.report import sheets
from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row, RowFile
from waggle.report import catalog, generic, page, tables


def recipe(*names: str, shown: list[str] | None = None) -> Recipe:
    methods = {name: {"law": "expert", "teacher": "none", "backbone": "b"} for name in ("a", "b")}
    return Recipe.model_validate(
        {"title": "T <1>", "methods": methods, "blocks": [], "tables": shown or ["scores"]}
    )


def row(method: str, task: str, seed: int, score: float, n: int = 16, **metrics: float) -> Row:
    return Row(
        cell=f"{method}{task}{seed}{n}", method=method, substrate="silo", task=task, n=n, seed=seed,
        rounds=9, shock=bool(metrics), options={}, scores={"score": score},
        metrics={"score": score, "messages": 8.0, **metrics},
        counters={"updates": 10, "stage.first": 9, "stage.projected": 1},
    )  # fmt: skip


ROWS = [
    row("b", "I-01", 1, 0.5),
    row("a", "I-01", 1, 1.0),
    row("a", "I-02", 1, 0.5),
    row("b", "I-02", 1, 0.5),
    row("a", "II-11", 1, 0.25),
    row("b", "II-11", 1, 0.0),
]


def test_scores_by_level_in_recipe_order() -> None:
    table = generic.scores(ROWS, recipe())
    assert table.columns == ("method", "silo level I N=16", "silo level II N=16")
    assert table.rows == (
        ("a", "0.750 / 8.00", "0.250 / 8.00"),
        ("b", "0.500 / 8.00", "0.000 / 8.00"),
    )
    assert any("backbone b" in note for note in table.notes)


def test_contrasts_use_matched_units_only() -> None:
    lonely = [*ROWS, row("a", "III-21", 7, 1.0)]
    table = generic.contrasts(lonely, recipe())
    assert [(row[0], row[1], row[4]) for row in table.rows] == [
        ("b", "silo", "3"),
        ("b", "silo level I", "2"),
        ("b", "silo level II", "1"),
    ]
    assert [row[3].split()[0] for row in table.rows] == ["0.250", "0.250", "0.250"]


def test_mechanism_has_mean_and_deviation() -> None:
    rows = [row("a", "III-26", s, 1.0, candidates=c) for s, c in ((1, 10.0), (2, 14.0))]
    table = generic.mechanism(rows, recipe())
    assert dict(zip(table.columns, table.rows[0], strict=True))["candidates"] == "12.0 ± 2.8"


def test_ceilings_stand_beside_scores() -> None:
    rows = [row("a", "I-01", 10_000, 0.5), row("a", "I-01", 10_001, 1.0)]
    rows = [msgspec.structs.replace(r, rounds=10) for r in rows]
    table = catalog.table("ceilings")(rows, recipe())
    cells = {each[0]: each[1] for each in table.rows}
    assert table.columns == ("method or ceiling", "Silo N=16 R=9")
    assert cells["a"] == "75.0" and cells["Schedule flooding"] == "100.0"
    assert 0 < float(cells["Schedule round-robin"]) <= 100


def test_the_ways_of_foraging_stand_beside_scores() -> None:
    from waggle.core.protocols import Case
    from waggle.substrates.swarmbench.ceilings import walked

    silo = msgspec.structs.replace(row("a", "I-01", 10_000, 0.5), rounds=10)
    rows = [
        msgspec.structs.replace(
            row(name, "foraging", seed, 2.0), substrate="swarmbench", rounds=50, options={"map": 16}
        )
        for name in ("a", "b") for seed in (10_000, 10_001)
    ]  # fmt: skip
    made = catalog.table("ceilings")
    table = made([silo, *rows, msgspec.structs.replace(rows[0], shock=True)], recipe())
    cells = {name: rest for name, *rest in table.rows}
    cases = [
        Case("swarmbench", "foraging", 16, seed, 50, options={"map": 16})
        for seed in (10_000, 10_001)
    ]
    assert table.columns[1:] == ("Silo N=16 R=9", "Foraging N=16 T=50")
    assert cells["a"] == ["50.0", "2.0"] and cells["b"] == ["—", "2.0"]
    assert cells["Schedule flooding"] == ["100.0", "—"]
    assert cells["Shortest ways"] == ["—", f"{sum(map(walked, cases)) / 2:.1f}"]
    alone = made(rows, recipe())
    assert alone.columns[1:] == ("Foraging N=16 T=50",)
    assert [line[0] for line in alone.rows] == ["a", "b", "Shortest ways"]


def test_inference_counts_stages() -> None:
    first = generic.inference(ROWS, recipe()).rows[0]
    assert first[:2] == ("a", "30") and first[-6:] == ("90.00%", "27", "0", "0", "3", "0")


def test_faces_escape_what_they_print() -> None:
    table = tables.Table("50 % & <b>", ("a|b", "x"), (("<i>", "1_2"),))
    assert "a\\|b" in tables.markdown(table) and "\\<i>" in tables.markdown(table)
    grouped = table._replace(groups=(tables.Group(0, "x|<b>"),), notes=("<script> `a|b` N < 3",))
    assert "| *x\\|\\<b>* |  |" in tables.markdown(grouped)
    assert "_\\<script> `a|b` N < 3_" in tables.markdown(grouped)
    assert "&lt;i&gt;" in tables.html(table) and "<i>" not in tables.html(table)
    assert r"50 \% \& $<$b$>$" in tables.latex(table) and r"1\_2" in tables.latex(table)


def test_a_legend_explains_the_marks_of_a_table_and_no_other() -> None:
    cells = ("+0.4 [+0.1, +0.7]", "+0.4 [-0.1, +0.7]", "-1.0 [-2.0, +0.0]", "0.5 [0.4, 0.6]", "3")
    rows = tuple((f"m{i}", cell) for i, cell in enumerate(cells))
    text = tables.html(tables.Table("t", ("m", "x"), rows))
    assert text.count("<td><span class='flat'>≈</span>") == 2, "those that include zero"
    assert "includes zero" in text and "95 % interval" in text
    assert "first" not in text and "not played" not in text and "fewer cases" not in text


class Balanced(HTMLParser):
    """Fails on a tag that is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name == "src"]
        if tag not in {"meta", "link", "source", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.usefixtures("rough_figures")
def test_page_is_whole_and_self_contained(tmp_path: Path) -> None:
    made = sheets.recipe(
        {"tasks": ["silo/I-01", "silo/II-11"], "n": [16, 32]},
        {"tasks": ["swarmbench/pursuit"], "n": [16, 32]},
        tables=["primary", "paired-scaling", "silo-levels", "scores"],
        figures=["scaling"],
    )
    rows = RowFile(tmp_path)
    for entry in sheets.played(made, sheets.by_method(teacher=0.9, quiet=0.1, learned=0.8)):
        rows.append(entry)
    rows.close()
    written = page.write(made, tmp_path)
    text = written.html.read_text()
    parser = Balanced()
    parser.feed(text)
    assert not parser.open
    assert "T &lt;1&gt;" in text and "://" not in text
    assert all(source.startswith("data:image/svg") for source in parser.sources)
    assert len(parser.sources) == 1 and text.count("srcset='data:image/svg") == 1
    markdown = written.markdown.read_text()
    assert "### Primary matrix" in markdown and "**Came out:** The best law is above" in markdown
    assert "(figures/overview.svg)" in markdown and (tmp_path / "figures/overview.svg").exists()
    assert written.latex.read_text().count(r"\toprule") == 5


def test_unknown_table_and_empty_run_are_one_line(tmp_path: Path) -> None:
    made = sheets.recipe({"tasks": ["silo/I-01"], "n": [16]}, tables=["score"])
    played = sheets.played(made, sheets.by_method(teacher=1, quiet=0, learned=1))
    with pytest.raises(ConfigError, match="did you mean 'scores'"):
        page.write(made, tmp_path, played)
    with pytest.raises(ConfigError, match="no finished episode"):
        page.write(made, tmp_path, [])
    with pytest.raises(ConfigError, match="no rows and no diagnoses"):
        page.write(sheets.recipe(), tmp_path)


@pytest.mark.parametrize("name", [*catalog.TABLES, *catalog.FIGURES])
def test_every_name_of_the_catalog_leads_somewhere(name: str) -> None:
    finders = ((catalog.TABLES, catalog.table), (catalog.FIGURES, catalog.figure))
    makers = [find(name) for known, find in finders if name in known]
    assert makers and all(callable(maker) for maker in makers)
