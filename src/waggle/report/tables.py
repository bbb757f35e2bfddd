"""A table and its three faces: Markdown, LaTeX, HTML. Knows numbers and labels, not experiments."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from waggle.evaluate.stats import Interval


class Table(NamedTuple):
    """A titled grid of text with notes under it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def number(value: float | None, digits: int = 3) -> str:
    """Format a number; what is not defined is a dash."""
    return "—" if value is None else f"{value:.{digits}f}"


def interval(value: Interval, digits: int = 3) -> str:
    """Format a mean with its interval."""
    return f"{value.mean:.{digits}f} [{value.low:+.{digits}f}, {value.high:+.{digits}f}]"


def markdown(table: Table) -> str:
    """Return a table as Markdown."""
    lines = [f"### {table.title}", "", _row(table.columns), _row(["---"] * len(table.columns))]
    lines += [_row(row) for row in table.rows]
    lines += ["", *(f"_{note}_  " for note in table.notes)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_LATEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
          "—": "---", "±": r"$\pm$", "≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$"}  # fmt: skip


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def latex(table: Table) -> str:
    """Return a table as LaTeX in the paper's layout (booktabs)."""
    spec = "l" + "r" * (len(table.columns) - 1)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(_latex_text(cell) for cell in cells) + r" \\"

    body = "\n".join(line(row) for row in table.rows)
    notes = "\n".join(rf"\par\footnotesize {_latex_text(note)}" for note in table.notes)
    return (
        "\\begin{table}[t]\n\\centering\n"
        f"\\caption{{{_latex_text(table.title)}}}\n"
        f"\\begin{{tabular}}{{{spec}}}\n\\toprule\n{line(table.columns)}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}\n{notes}\n\\end{{table}}\n"
    )


def html(table: Table) -> str:
    """Return a table as an HTML fragment."""
    head = "".join(f"<th>{escape(c)}</th>" for c in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in table.rows
    )
    notes = "".join(f"<p class='note'>{escape(note)}</p>" for note in table.notes)
    return (
        f"<section><h2>{escape(table.title)}</h2><div class='scroll'><table>"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{notes}</section>\n"
    )
