"""`waggle report DIR`: one self-contained HTML page, with Markdown, LaTeX and figures beside it.

Everything comes from the rows of the run and the files next to them; no law is called. Without
matplotlib the tables are still written, and the page states that figures are missing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError
from waggle.evaluate import sessions
from waggle.evaluate.factorial import read_arms
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import has_rows, planned, read_rows
from waggle.report import catalog, factorial, figure, tables
from waggle.report.figure import Figure, MissingLibrary
from waggle.report.provenance import (
    CountedRows,
    counted,
    failed_calls,
    mixed_worlds,
    not_of_shipped_laws,
    seeds_of,
)
from waggle.report.rows import Rows, grouped, label
from waggle.report.tables import Table
from waggle.report.web.episodes import episodes, script
from waggle.report.web.opening import Opening, opening
from waggle.report.web.picture import file, picture


class Report(NamedTuple):
    """The contents of a report."""

    title: str
    facts: list[str]
    """Lines above the tables: episodes, seeds, failures, missing results."""
    tables: list[Table]
    sessions: list[Table]
    """The table of the commands that played the episodes; empty for early runs."""
    about: str = ""
    """One sentence on what is compared."""
    opening: Opening | None = None
    episodes: dict[str, Any] | None = None


class ReportFiles(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    latex: Path


def make(recipe: Recipe, folder: Path, rows: Rows | None = None) -> tuple[Report, CountedRows]:
    """Return the report of a run directory or archive, and the rows that count.

    `rows` replaces those of the row file, for example rows measured from records. A folder with
    nothing to report raises an error.
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
    facts += [*mixed_worlds(kept.rows), *kept.notes]
    facts += [*not_of_shipped_laws(kept.rows, recipe), *failed_calls(kept, recipe)]
    facts += _failed(kept.failed, recipe)
    played = _sessions(sessions.read(folder), recipe)
    first, arms = opening(kept.rows, recipe), factorial.outcome(made)
    if first and arms:
        first = first._replace(outcome=arms, settings=())
    report = Report(
        recipe.title, facts + without_record, [*(first.table() if first else []), *made], played,
        recipe.about, first, episodes(kept.rows, recipe, folder),
    )  # fmt: skip
    return report, kept


def write(recipe: Recipe, folder: Path, rows: Rows | None = None) -> ReportFiles:
    """Write the report of a run directory, from its row file unless rows are given."""
    report, kept = make(recipe, folder, rows)
    drawn: list[Figure] = []
    try:
        drawn = [figure.both(catalog.figure(name), kept.rows, recipe) for name in recipe.figures]
    except MissingLibrary as error:
        report.facts.append(f"figures left out: {error}")
    return write_files(report, drawn, folder)


def write_files(report: Report, drawn: Sequence[Figure], folder: Path) -> ReportFiles:
    """Write a report with its figures into a folder."""
    made = [*report.tables, *report.sessions]
    first = report.opening.markdown() if report.opening else []
    if report.opening and report.opening.settings:
        first += [f"![What came out]({figure.FOLDER}/overview.svg)", ""]
        figure.put(folder, "overview.svg", file(report.opening.settings).encode())
    facts = (f"- {line}" for line in report.facts)
    text = "\n".join([f"# {report.title}", "", *first, *facts, ""])
    text += "\n" + "\n".join(tables.markdown(table) for table in made)
    text += "".join("\n" + figure.markdown(each) for each in drawn)
    paths = ReportFiles(folder / "report.html", folder / "report.md", folder / "report.tex")
    paths.html.write_text(_page(report, drawn), encoding="utf-8")
    paths.markdown.write_text(text, encoding="utf-8")
    paths.latex.write_text("\n".join(tables.latex(t) for t in made), encoding="utf-8")
    for each in drawn:
        figure.save(each, folder)
    return paths


def _failed(rows: Rows, recipe: Recipe) -> list[str]:
    """Return lines that state why cells failed, one per method and error."""
    reasons = grouped(rows, lambda row: (row.method, row.error))
    lines = [
        f"failed: {label(recipe, method)} {own[0].cell}"
        f"{f' and {len(own) - 1:,} more' * (len(own) > 1)}: {error}"
        for (method, error), own in reasons.items()
    ]
    return lines[:20]


def _nothing(rows: int, kept: CountedRows) -> str:
    """Return the error message for a run of which no row counts."""
    why = f" ({kept.failed[0].error})" if kept.failed else ""
    return (
        f"no finished episode to report: of {rows:,} rows {kept.foreign:,} are of another plan "
        f"than the folder's recipe, {len(kept.failed):,} failed{why}, and a seed of a setting "
        "counts once all its planned tasks have ended; run `waggle eval` until some have"
    )


def _without_record(rows: Rows | None, folder: Path, recipe: Recipe) -> list[str]:
    """Return a line on the planned rows that have no record, if a run is read from records."""
    if rows is None or not has_rows(folder):
        return []
    known = read_rows(folder)
    missing = {cell.key for cell in planned(recipe, known)} - {row.key for row in rows}
    gone = [row for row in known if row.key in missing and not row.error]
    names = ", ".join(dict.fromkeys(label(recipe, row.method) for row in gone))
    return [f"no record is kept of {len(gone):,} rows, left out here: {names}"] if gone else []


def _sessions(played: Sequence[sessions.Session], recipe: Recipe) -> list[Table]:
    """Return a table of the evaluation commands: methods, machine and speed."""
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
    """Return the page; its security policy allows only the report's own script."""
    made = [*report.tables, *report.sessions]
    parts = [figure.html(each, f"figure-{place}") for place, each in enumerate(drawn)]
    parts += [tables.html(table, f"table-{place}") for place, table in enumerate(made)]
    links = [(f"figure-{place}", each.title) for place, each in enumerate(drawn)]
    links += [(f"table-{place}", table.title) for place, table in enumerate(made)]
    if report.episodes:
        links.append(("episode-section", "Episodes"))
        parts.append(_episodes(report.episodes))
    contents = "".join(f"<li><a href='#{anchor}'>{escape(text)}</a></li>" for anchor, text in links)
    facts = "".join(f"<p class='meta'>{escape(line)}</p>" for line in report.facts)
    about = f"<p>{escape(report.about)}</p>" if report.about else ""
    title, code = escape(report.title), _file("report.js")
    allowed = b64encode(sha256(code.encode()).digest()).decode()
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; base-uri 'none'\">"
        f"<title>{title}</title><link rel='icon' href='data:,'><style>{_file('report.css')}</style>"
        f"</head><body><main><h1>{title}</h1>{about}{_opening(report.opening)}{facts}"
        f"<nav><details><summary>Contents</summary><ul>{contents}</ul></details></nav>"
        f"{''.join(parts)}</main><script>{code}</script></body></html>\n"
    )


def _file(name: str) -> str:
    return files("waggle.report.web").joinpath(name).read_text(encoding="utf-8")


def _opening(opening: Opening | None) -> str:
    """Return the first screen as HTML: the comparison, its outcome and the picture."""
    if opening is None:
        return ""
    drawn = f"<div>{picture(opening.settings)}</div>" if opening.settings else ""
    said = "".join(f"<h2>{name}</h2><p>{escape(text)}</p>" for name, text in opening.paragraphs())
    return f"<section class='opening'><div>{said}</div>{drawn}</section>"


def _episodes(listed: dict[str, Any]) -> str:
    hint = f"<p class='note'>{escape(listed['hint'])}</p>" if listed["hint"] else ""
    return (
        "<section id='episode-section'><h2>Episodes</h2><div id='episode-list'>"
        "<p class='note'>The list needs JavaScript; the rows of the run hold the same.</p></div>"
        f"{hint}</section>{script(listed)}"
    )
