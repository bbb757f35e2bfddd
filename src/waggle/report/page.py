"""`waggle report DIR`: one self-contained HTML page, Markdown, LaTeX and figures beside it.

Without matplotlib the tables are written all the same and the page says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row, read_rows
from waggle.report import catalog, figure, tables
from waggle.report.figure import Figure, MissingLibrary
from waggle.report.tables import Table

STYLE = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:76rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2.2rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
thead th{border-bottom:2px solid currentColor}tbody tr:nth-child(even){background:#8881}
.note,.meta{color:#777;font-size:.88rem;margin:.2rem 0}code{background:#8882;padding:.1em .3em}
"""


class Written(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    latex: Path


def build(recipe: Recipe, rows: Sequence[Row]) -> list[Table]:
    """Return the tables a recipe asks for, from the rows that did not fail."""
    good = [row for row in rows if not row.error]
    if not good:
        raise ConfigError("no finished episode to report; run `waggle eval` until some cells end")
    return [catalog.table(name)(good, recipe) for name in recipe.tables]


def draw(recipe: Recipe, rows: Sequence[Row]) -> list[Figure]:
    """Return the figures a recipe asks for, from the rows that did not fail."""
    good = [row for row in rows if not row.error]
    return [catalog.figure(name)(good, recipe) for name in recipe.figures]


def write(recipe: Recipe, folder: Path, command: str, rows: Sequence[Row] | None = None) -> Written:
    """Write the report of a run directory, from its row file unless rows are given."""
    rows = read_rows(folder) if rows is None else rows
    made = build(recipe, rows)
    failed = [row for row in rows if row.error]
    meta = _meta(rows, failed, command)
    drawn: list[Figure] = []
    try:
        drawn = draw(recipe, rows)
    except MissingLibrary as error:
        meta.append(f"figures left out: {error}")
    paths = Written(folder / "report.html", folder / "report.md", folder / "report.tex")
    paths.html.write_text(_page(recipe.title, made, drawn, meta), encoding="utf-8")
    text = "\n".join([f"# {recipe.title}", "", *(f"- {m}" for m in meta), ""])
    text += "\n" + "\n".join(tables.markdown(table) for table in made)
    text += "".join("\n" + figure.markdown(each) for each in drawn)
    paths.markdown.write_text(text, encoding="utf-8")
    paths.latex.write_text("\n".join(tables.latex(t) for t in made), encoding="utf-8")
    for each in drawn:
        figure.save(each, folder)
    return paths


def _meta(rows: Sequence[Row], failed: Sequence[Row], command: str) -> list[str]:
    seeds = sorted({row.seed for row in rows})
    notes = [
        f"command: {command}",
        f"episodes: {len(rows) - len(failed)}, failed: {len(failed)}",
        f"seeds: {seeds[0]} to {seeds[-1]} ({len(seeds)})",
    ]
    options = sorted({f"{r.substrate} {dict(r.options)}" for r in rows if r.options})
    if options:
        notes.append("options: " + "; ".join(options))
    return notes + [f"failed: {row.method} {row.cell}: {row.error}" for row in failed[:20]]


def _page(title: str, made: Sequence[Table], drawn: Sequence[Figure], meta: Sequence[str]) -> str:
    head = "".join(f"<p class='meta'>{escape(line)}</p>" for line in meta)
    body = "".join(tables.html(table) for table in made)
    body += "".join(figure.html(each) for each in drawn)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{head}{body}</body></html>\n"
    )
