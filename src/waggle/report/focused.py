"""Focused paired evidence: quality and cost of the law as ratios over matched seeds.

The second panel of the paper's "Focused paired evidence" figure, with its numbers as a table. The
law is divided by every other method under full refresh, and reuse by full refresh of the same law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from waggle.evaluate.plan import Recipe
from waggle.evaluate.stats import Interval
from waggle.report.figure import PALETTE, Figure, canvas, finish, legend
from waggle.report.layout import against_reference
from waggle.report.provenance import caption, provenance
from waggle.report.rows import Rows, grouped, label, metric, ratio, reference, task_of
from waggle.report.tables import Table, bracketed
from waggle.report.workers import INPUT, schedule_pairs, staffed

_MEASURES = {
    "quality": metric("score"),
    "messages per agent": metric("messages"),
    "logical input": INPUT,
}


class _Contrast(NamedTuple):
    """Numerator and denominator rows of a ratio, on one task."""

    text: str
    task: str
    over: Rows
    under: Rows


def _contrasts(rows: Rows, recipe: Recipe) -> Iterator[_Contrast]:
    full = staffed(rows, recipe, "full")
    law = label(recipe, reference(full, recipe))
    sides = [
        (f"{law} / {text}", mine, theirs) for text, mine, theirs in against_reference(full, recipe)
    ]
    sides += [(f"{p.law}: reuse / full", p.lean, p.full) for p in schedule_pairs(rows, recipe)]
    for text, over, under in sides:
        there = grouped(under, task_of)
        for task, own in grouped(over, task_of).items():
            if task in there:
                yield _Contrast(text, task, own, there[task])


def ratios(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate ratios of quality, traffic and logical input, paired over seeds."""
    body = []
    for text, task, over, under in _contrasts(rows, recipe):
        found = [ratio(over, under, value) for value in _MEASURES.values()]
        units = max((each.units for each in found if each is not None), default=0)
        body.append((text, task, *(bracketed(each, ".3f") for each in found), str(units)))
    notes = (
        "ratios of means with the 95 % interval of the paired bootstrap over seeds; for messages "
        "and input, less than one is cheaper; a ratio to zero is not defined",
        *provenance(rows, recipe),
    )
    return Table(
        "Focused paired ratios", ("contrast", "task", *_MEASURES, "seeds"), tuple(body), notes
    )


def figure(rows: Rows, recipe: Recipe) -> Figure:
    """Draw the ratios of every contrast, with a panel per measure and a colour per task."""
    found = list(_contrasts(rows, recipe))
    names = list(dict.fromkeys(each.text for each in found))
    tasks = list(dict.fromkeys(each.task for each in found))
    axes = canvas(1, len(_MEASURES), width=2.7, height=1.0 + 0.36 * len(names))
    for axis, (title, value) in zip(axes, _MEASURES.items(), strict=True):
        for number, task in enumerate(tasks):
            own = [each for each in found if each.task == task]
            offset = 0.22 * (number - (len(tasks) - 1) / 2)
            places = [names.index(each.text) + offset for each in own]
            values = [ratio(each.over, each.under, value) for each in own]
            _intervals(axis, values, places, task, PALETTE[number % len(PALETTE)])
        _log_scale(axis)
        axis.axvline(1.0, color="#333333", linewidth=0.8, linestyle="--", zorder=1)
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_title(title)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    legend(axes)
    text = (
        "Ratios of means over matched seeds with paired-bootstrap 95 % intervals, on logarithmic "
        "axes; the dashed line is one. A ratio to zero is not defined and left out"
    )
    return finish(axes, "focused", "Focused paired ratios", caption(text, rows, recipe))


def _intervals(
    axis: Any, values: Sequence[Interval | None], places: Sequence[float], label: str, color: str
) -> None:
    """Draw the ratios of one task with their intervals, without those that are not defined."""
    there = [(v, place) for v, place in zip(values, places, strict=True) if v is not None]
    error = [
        [max(0.0, v.mean - v.low) for v, _ in there],
        [max(0.0, v.high - v.mean) for v, _ in there],
    ]
    axis.errorbar(
        [v.mean for v, _ in there], [place for _, place in there], xerr=error, fmt="o",
        markersize=3.5, color=color, elinewidth=0.9, label=label,
    )  # fmt: skip


def _log_scale(axis: Any) -> None:
    """Make the ratio axis logarithmic, at least from one half to two, with plain numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    axis.set_xscale("log")
    low, high = axis.get_xlim()
    low, high = min(low, 0.5), max(high, 2.0)
    axis.set_xlim(low, high)
    steps = [k * 10.0**e for e in range(-3, 4) for k in (1, 2, 5)]
    axis.xaxis.set_major_locator(FixedLocator([s for s in steps if low <= s <= high]))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())
