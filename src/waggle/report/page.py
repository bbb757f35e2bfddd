"""`waggle report DIR`: one self-contained HTML page, with Markdown, LaTeX and figures beside it.

Everything comes from the rows of the run and from files that lie beside them; no law is called.
Without matplotlib the tables are written all the same and the page says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from waggle.core.errors import ConfigError
from waggle.evaluate import sessions
from waggle.evaluate.factorial import read_arms
from waggle.evaluate.plan import Recipe, cells
from waggle.evaluate.rows import has_rows, read_rows
from waggle.report import catalog, figure, tables
from waggle.report.figure import Figure, MissingLibrary
from waggle.report.provenance import (
    Counted,
    counted,
    failed_calls,
    not_of_shipped_laws,
    seeds_of,
)
from waggle.report.rows import Rows, grouped, label
from waggle.report.tables import Table

STYLE = """
:root{color-scheme:light;--ink:#1c2230;--soft:#667085;--line:#d7dbe3;--first:#e7e2f7;--second:#fdeadb}
*{box-sizing:border-box}body{margin:0;background:#f6f7f9;color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:94rem;margin:0 auto;padding:2.2rem 1.4rem 4rem}
h1{font-size:1.75rem;margin:0 0 .6rem;letter-spacing:-.01em}
h2{font-size:1.12rem;margin:0 0 .7rem}
section{background:#fff;border:1px solid var(--line);border-radius:10px;padding:1.1rem 1.3rem;
margin:1.2rem 0}
.scroll{overflow-x:auto}img{display:block;width:min(100%,64rem);margin:0 auto}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.24rem .55rem;text-align:right;white-space:nowrap}
th{font-weight:600;color:#39424e}th.text,td.text{text-align:left}
thead tr:last-child th{border-bottom:1.5px solid var(--ink)}
th.over{text-align:center;white-space:normal;border-bottom:1px solid var(--line)}
table.wide{font-size:.79rem}table.wide th,table.wide td{padding:.22rem .4rem}
tbody tr:hover{background:#f3f5f9}tr.group td{color:var(--soft);font-style:italic;padding-top:.6rem}
tr.aside td{color:#5b6472}td b{background:var(--first);padding:0 .22em;border-radius:3px}
td u{background:var(--second);padding:0 .22em;border-radius:3px;text-decoration:none}
.note,.meta{color:var(--soft);font-size:.84rem;margin:.25rem 0}.note:first-of-type{margin-top:.7rem}
code{background:#eef0f4;padding:.1em .35em;border-radius:4px;font-size:.92em}
"""


class Report(NamedTuple):
    """What a run has to show."""

    title: str
    facts: list[str]
    """Lines over the tables: episodes, seeds, what failed or is missing."""
    tables: list[Table]
    sessions: list[Table]
    """What was played by which command; empty for early runs."""


class Written(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    latex: Path


def make(recipe: Recipe, folder: Path, rows: Rows | None = None) -> tuple[Report, Counted]:
    """Return the report of a run directory or archive, and the rows that count.

    Rows that were measured from records may be given instead of those of the row file. A folder
    with nothing to report is refused.
    """
    without_record = _without_record(rows, folder, recipe)
    if rows is None:
        rows = read_rows(folder) if recipe.blocks else []
    kept = counted(rows, recipe)
    if recipe.blocks and not kept.rows and not read_arms(folder):
        raise ConfigError(_nothing(len(rows), kept))
    made = catalog.tables(folder, kept.rows, recipe)
    if not made:
        raise ConfigError(f"{folder} holds no rows and no diagnoses; run `waggle eval` first")
    facts = [f"episodes: {len(kept.rows):,}, failed: {len(kept.failed)}"]
    facts += [f"seeds: {seeds_of(kept.rows)}"] if kept.rows else []
    facts += [*kept.notes, *not_of_shipped_laws(kept.rows, recipe), *failed_calls(kept, recipe)]
    facts += _failed(kept.failed)
    played = _sessions(sessions.read(folder), recipe)
    return Report(recipe.title, facts + without_record, made, played), kept


def write(recipe: Recipe, folder: Path, rows: Rows | None = None) -> Written:
    """Write the report of a run directory, from its row file unless rows are given."""
    report, kept = make(recipe, folder, rows)
    drawn: list[Figure] = []
    try:
        drawn = [catalog.figure(name)(kept.rows, recipe) for name in recipe.figures]
    except MissingLibrary as error:
        report.facts.append(f"figures left out: {error}")
    return write_files(report, drawn, folder)


def write_files(report: Report, drawn: Sequence[Figure], folder: Path) -> Written:
    """Write a report with its figures into a folder."""
    made = [*report.tables, *report.sessions]
    text = "\n".join([f"# {report.title}", "", *(f"- {line}" for line in report.facts), ""])
    text += "\n" + "\n".join(tables.markdown(table) for table in made)
    text += "".join("\n" + figure.markdown(each) for each in drawn)
    paths = Written(folder / "report.html", folder / "report.md", folder / "report.tex")
    paths.html.write_text(_page(report, drawn), encoding="utf-8")
    paths.markdown.write_text(text, encoding="utf-8")
    paths.latex.write_text("\n".join(tables.latex(t) for t in made), encoding="utf-8")
    for each in drawn:
        figure.save(each, folder)
    return paths


def _failed(rows: Rows) -> list[str]:
    """Say why cells failed, once for those of a method that failed in the same way."""
    reasons = grouped(rows, lambda row: (row.method, row.error))
    lines = [
        f"failed: {method} {own[0].cell}{f' and {len(own) - 1:,} more' * (len(own) > 1)}: {error}"
        for (method, error), own in reasons.items()
    ]
    return lines[:20]


def _nothing(rows: int, kept: Counted) -> str:
    """Say why none of the rows of a run counts."""
    why = f" ({kept.failed[0].error})" if kept.failed else ""
    return (
        f"no finished episode to report: of {rows:,} rows {kept.foreign:,} are of another plan "
        f"than the folder's recipe, {len(kept.failed):,} failed{why}, and a seed of a setting "
        "counts once all its planned tasks have ended; run `waggle eval` until some have"
    )


def _without_record(rows: Rows | None, folder: Path, recipe: Recipe) -> list[str]:
    """Say how many rows of the plan have no record, where a run is read from records."""
    if rows is None or not has_rows(folder):
        return []
    missing = {cell.key for cell in cells(recipe)} - {row.key for row in rows}
    gone = [row for row in read_rows(folder) if row.key in missing and not row.error]
    names = ", ".join(dict.fromkeys(row.method for row in gone))
    return [f"no record is kept of {len(gone):,} rows, left out here: {names}"] if gone else []


def _sessions(played: Sequence[sessions.Session], recipe: Recipe) -> list[Table]:
    """Return the table of what was played by which command, where and how fast."""
    body = []
    for each in played:
        names = (label(recipe, name) for name in each.methods if name in recipe.methods)
        rate = each.updates / each.seconds if each.seconds else 0.0
        body.append(
            (", ".join(names) or each.law, f"{each.episodes:,}", f"{each.updates:,}",
             f"{each.seconds:,.1f}", f"{rate:,.0f}", each.executor, each.machine, each.started,
             sessions.plain(each.command))
        )  # fmt: skip
    columns = ("methods", "episodes", "decisions", "seconds", "decisions / s", "executor",
               "machine", "started (UTC)", "command")  # fmt: skip
    notes = ("wall clock of each call, measuring and loading of weights included; calls of merged "
             "runs are listed whole, also where rows were taken of a part",)  # fmt: skip
    return [Table("What was played", columns, tuple(body), notes)] if body else []


def _page(report: Report, drawn: Sequence[Figure]) -> str:
    head = "".join(f"<p class='meta'>{escape(line)}</p>" for line in report.facts)
    body = "".join(tables.html(table) for table in (*report.tables, *report.sessions))
    pictures = "".join(figure.html(each) for each in drawn)
    title = escape(report.title)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{title}</h1>{head}{pictures}{body}</main></body></html>\n"
    )
