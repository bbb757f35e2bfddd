"""A table and its three formats: Markdown, LaTeX and HTML, independent of any experiment.

A cell may hold several numbers, separated by " / ". If a column states which direction is better,
for each of these parts, the best and second best of each part are marked, as in the paper's tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Literal, NamedTuple, TypeAlias

from waggle.evaluate.stats import Interval

SPLIT = " / "
Mark: TypeAlias = Literal[1, 2]
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_WIDE, _LONG = 8, 26
"""A table with more columns is set smaller; a cell with more characters is wrapped."""
_STRADDLES = re.compile(r"\[(?:-[\d.]+|[+]0[.0]*), (?:[+][\d.]+|-0[.0]*)\]")
"""A printed interval of a difference that includes zero."""
_LEGEND = (
    (r"<b class='first'>", "<b class='first'>first</b> of its column"),
    (r"<u class='second'>", "<u class='second'>second</u>"),
    (r"†", "† on fewer cases than others: no mark, no rank"),
    (r" \[", "[low, high] 95 % interval"),
    (r"class='flat'>≈", "<span class='flat'>≈</span> interval includes zero: no difference"),
    (r"±", "± sample deviation"),
    (r"[>\s]—", "— not defined or not played"),
    (r"<tr class='[^']*aside", "grey row: for reference, takes no mark"),
)
"""Patterns of the marks in a table's HTML body, with their explanations."""


class Span(NamedTuple):
    """A heading over neighbouring columns."""

    text: str
    columns: int


class Group(NamedTuple):
    """A heading above the rows from index `row` on."""

    row: int
    text: str


class Table(NamedTuple):
    """A titled grid of text with notes below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    """Headings above columns; together they cover all columns, some with an empty text."""
    groups: tuple[Group, ...] = ()
    better: tuple[str, ...] = ()
    """For each column and each part of its cells: `higher`, `lower`, `fewest` (zero gets no mark)
    or nothing."""
    unranked: frozenset[int] = frozenset()
    """Indices of the rows that get no mark."""
    tail: int = 0
    """Number of summary rows at the end, which stay there when a reader sorts the table."""


def number(value: float | None, digits: int = 3) -> str:
    """Format a number; None becomes a dash."""
    return "—" if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share in per cent, without the per cent sign."""
    return number(None if value is None else 100.0 * value, digits)


def bracketed(found: Interval | None, form: str, bounds: str = "", scale: float = 1.0) -> str:
    """Format a mean and, if there was something to resample, its interval in brackets.

    Args:
        found: the interval; None becomes a dash.
        form: format of the mean.
        bounds: format of the bounds; that of the mean if empty.
        scale: factor for all numbers.
    """
    if found is None:
        return number(None)
    mean, low, high = (scale * part for part in (found.mean, found.low, found.high))
    other = bounds or form
    return f"{mean:{form}}" if found.single else f"{mean:{form}} [{low:{other}}, {high:{other}}]"


def marks(table: Table) -> dict[tuple[int, int, int], Mark]:
    """Return the marks for best (1) and second best (2) by (row, column, part).

    Equal numbers share a mark, unless more than half of the rows would share it.
    """
    found: dict[tuple[int, int, int], Mark] = {}
    for column, ways in enumerate(table.better):
        for part, way in enumerate(ways.split(SPLIT)):
            values = dict(_values(table, column, part)) if way else {}
            if way == "fewest":
                values = {row: value for row, value in values.items() if value > 0}
            counts = Counter(values.values())
            order = sorted(counts, reverse=way == "higher")[:2]
            for row, value in values.items():
                if value in order and 2 * counts[value] <= len(values):
                    found[row, column, part] = 1 if value == order[0] else 2
    return found


def _values(table: Table, column: int, part: int) -> Iterator[tuple[int, float]]:
    """Yield the printed leading number of one part of a column, for every ranked row."""
    for index, row in enumerate(table.rows):
        parts = row[column].split(SPLIT)
        match = _NUMBER.match(parts[part]) if part < len(parts) else None
        if match and index not in table.unranked:
            yield index, float(match.group())


def _formed(
    table: Table, plain: Callable[[str], str], first: str, second: str
) -> Iterator[tuple[str, ...]]:
    """Yield the rows with every part escaped by `plain`, and marked parts formatted."""
    found = marks(table)
    for index, row in enumerate(table.rows):
        cells = []
        for column, cell in enumerate(row):
            parts = []
            for place, part in enumerate(cell.split(SPLIT)):
                mark = found.get((index, column, place))
                frame = "{}" if mark is None else first if mark == 1 else second
                parts.append(frame.format(plain(part)))
            cells.append(SPLIT.join(parts))
        yield tuple(cells)


def texts(table: Table) -> list[bool]:
    """Return for every column whether it holds text rather than numbers."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    found = [not any(_NUMBER.match(cell) for cell in cells) for cells in columns]
    return [True, *found[1:]]


def _headings(table: Table) -> list[str]:
    """Return the column names prefixed by their spans, for formats with one header line."""
    if not table.spans:
        return list(table.columns)
    over = [span.text for span in table.spans for _ in range(span.columns)]
    return [f"{a}: {b}" if a and b else a or b for a, b in zip(over, table.columns, strict=True)]


def markdown(table: Table, level: int = 3) -> str:
    """Return a table as Markdown under a heading, the best in bold, the second in italics."""
    formed = _formed(table, _cell, "**{}**", "_{}_")
    heads = list(map(_cell, _headings(table)))
    lines = [
        f"{'#' * level} {prose(table.title)}",
        "",
        _row(heads),
        # A table of two columns lists facts by name, in words or in numbers.
        _row(["---" if words or len(heads) == 2 else "---:" for words in texts(table)]),
    ]
    over = dict(table.groups)
    for index, row in enumerate(formed):
        if index in over:
            lines.append(_row([f"*{_cell(over[index])}*", *[""] * (len(row) - 1)]))
        lines.append(_row(row))
    lines += ["", *(f"_{prose(note)}_  " for note in table.notes)]
    return "\n".join(lines) + "\n"


_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def prose(text: str) -> str:
    """Escape HTML tags in a Markdown text."""
    return _TAG.sub(r"\<", text)


def _cell(text: str) -> str:
    """Escape a text for a Markdown table cell."""
    return prose(text).replace("|", r"\|")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_LATEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
          "—": "---", "±": r"$\pm$", "≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$",
          "Δ": r"$\Delta$", "−": "$-$", "…": r"\ldots{}", "†": r"$\dagger$", "<": "$<$", ">": "$>$",
          "|": "$|$"}  # fmt: skip


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def latex(table: Table) -> str:
    """Return a table as LaTeX in the paper's layout (booktabs; best bold, second underlined)."""
    spec = "".join("l" if words else "r" for words in texts(table))
    formed = _formed(table, _latex_text, r"\textbf{{{}}}", r"\underline{{{}}}")
    notes = "\n".join(rf"\par\footnotesize {_latex_text(note)}" for note in table.notes)
    return (
        "\\begin{table}[t]\n\\centering\n"
        f"\\caption{{{_latex_text(table.title)}}}\n\\resizebox{{\\textwidth}}{{!}}{{%\n"
        f"\\begin{{tabular}}{{{spec}}}\n\\toprule\n{_latex_head(table)}\n\\midrule\n"
        f"{_latex_body(table, formed)}\n\\bottomrule\n\\end{{tabular}}}}\n{notes}\n\\end{{table}}\n"
    )


def _latex_head(table: Table) -> str:
    names = " & ".join(map(_latex_text, table.columns)) + r" \\"
    if not table.spans:
        return names
    cells, rules, at = [], [], 1
    for span in table.spans:
        cells.append(rf"\multicolumn{{{span.columns}}}{{c}}{{{_latex_text(span.text)}}}")
        if span.text:
            rules.append(rf"\cmidrule(lr){{{at}-{at + span.columns - 1}}}")
        at += span.columns
    return " & ".join(cells) + r" \\" + "\n" + "".join(rules) + "\n" + names


def _latex_body(table: Table, formed: Iterator[tuple[str, ...]]) -> str:
    over, lines = dict(table.groups), []
    for index, row in enumerate(formed):
        if index in over:
            text = _latex_text(over[index])
            lines.append(rf"\multicolumn{{{len(row)}}}{{l}}{{\textit{{{text}}}}} \\")
        lines.append(" & ".join(row) + r" \\")
    return "\n".join(lines)


def html(table: Table, anchor: str = "") -> str:
    """Return a table as an HTML fragment, with a legend of the marks in it."""
    wide = " class='wide'" if len(table.columns) > _WIDE else ""
    body = _html_body(table)
    marks = "".join(f"<span>{text}</span>" for mark, text in _LEGEND if re.search(mark, body))
    legend = f"<p class='legend'>{marks}</p>" if marks else ""
    return (
        f"<section id='{escape(anchor)}'><h2>{escape(table.title)}</h2><div class='scroll' "
        f"tabindex='0'><table{wide}><thead>{_html_head(table)}</thead>\n<tbody>{body}</tbody>"
        f"</table></div>{legend}{html_notes(table.notes)}</section>\n"
    )


def html_notes(notes: Sequence[str]) -> str:
    """Return notes as an HTML fragment: the first one visible, the others collapsed."""
    first, rest = (
        "".join(f"<p class='note'>{escape(note)}</p>" for note in part)
        for part in (notes[:1], notes[1:])
    )
    more = f"<details class='note'><summary>more about this</summary>{rest}</details>"
    return first + (more if rest else "")


def _html_head(table: Table) -> str:
    over = "".join(
        f"<th colspan='{span.columns}'{' class=over' if span.text else ''}>{escape(span.text)}</th>"
        for span in table.spans
    )
    names = "".join(
        f"<th scope='col'{_classes(text=words)}>{escape(name)}</th>"
        for name, words in zip(table.columns, texts(table), strict=True)
    )
    return (f"<tr>{over}</tr>" if over else "") + f"<tr>{names}</tr>"


def _html_body(table: Table) -> str:
    formed = _formed(table, escape, "<b class='first'>{}</b>", "<u class='second'>{}</u>")
    over, lines, words = dict(table.groups), [], texts(table)
    end = len(table.rows) - table.tail
    for index, row in enumerate(formed):
        if index in over:
            lines.append(
                f"<tr{_classes(group=True, tail_group=index >= end)}><th colspan='{len(row)}'>"
                f"<span>{escape(over[index])}</span></th></tr>"
            )
        cells = [f"<th scope='row' class='text'>{row[0]}</th>"]
        for cell, plain, word in zip(row[1:], table.rows[index][1:], words[1:], strict=True):
            shown = f"<span class='flat'>≈</span> {cell}" if _STRADDLES.search(plain) else cell
            cells.append(f"<td{_classes(text=word, long=len(plain) > _LONG)}>{shown}</td>")
        kind = _classes(aside=index in table.unranked, tail=index >= end)
        lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
    return "\n".join(lines)


def _classes(**chosen: bool) -> str:
    """Return a class attribute with the names of the true flags."""
    names = " ".join(name.replace("_", "-") for name, applies in chosen.items() if applies)
    return f" class='{names}'" if names else ""
