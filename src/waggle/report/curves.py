"""Figures of quality against population, rounds and communication.

The paper's "Cross-method population scaling", "Communication efficiency" and "Quality-communication
trade-off". Bars are 95 % bootstrap intervals over seeds within tasks. Learned laws are drawn with
thick lines, the teacher black and dashed, controls thin. A method with fewer episodes than others
is dotted and faint, since its mean is over different cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report.figure import Figure, canvas, finish, legend
from waggle.report.provenance import caption
from waggle.report.rows import (
    DAGGER,
    Rows,
    Value,
    mean,
    metric,
    of,
    shown,
    silo,
    sizes_of,
    spread,
    swarmbench,
)

_LEARNED = ("#7fb2dd", "#0072b2", "#6a3db8", "#b8408f", "#00a3a3", "#33348e")
_CONTROLS = ("#d55e00", "#009e73", "#b8860b", "#8a8f98", "#c06c84", "#5b7a8c", "#a3a33b", "#7f6a5a")
_MARKERS = "sD^vPX<>p*h"
_PRIMARY_ROUNDS = 9


class Pen(NamedTuple):
    """The line style of a method."""

    color: str
    marker: str
    line: str
    width: float
    layer: int


class Panel(NamedTuple):
    """One panel: its title, axis label, rows and plotted value."""

    title: str
    axis: str
    rows: list[Row]
    value: Value
    scale: float = 1.0


Point = tuple[float, Interval]


def _pens(recipe: Recipe) -> dict[str, Pen]:
    """Assign every method its colour and marker; the same recipe gives the same ones."""
    found: dict[str, Pen] = {}
    learned = controls = 0
    for name, spec in recipe.methods.items():
        if not spec.ranked:
            found[name] = Pen("#111111", "o", "--", 1.3, 4)
        elif spec.teacher != "none":
            found[name] = Pen(_LEARNED[learned % len(_LEARNED)], "o", "-", 2.2, 5)
            learned += 1
        else:
            color = _CONTROLS[controls % len(_CONTROLS)]
            found[name] = Pen(color, _MARKERS[controls % len(_MARKERS)], "-", 1.0, 3)
            controls += 1
    return found


def _silo_panel(rows: Rows) -> Panel:
    return Panel("Silo", "mean S (%)", silo(rows), metric("score"), 100.0)


def _panels(rows: Rows) -> list[Panel]:
    """Return the panels for Silo success and SwarmBench normalized score that have rows."""
    swarm = Panel("SwarmBench", "normalized score", swarmbench(rows), anchors.normalized)
    return [panel for panel in (_silo_panel(rows), swarm) if panel.rows]


def _interval(rows: Rows, panel: Panel) -> Interval | None:
    found = spread(rows, panel.value)
    if found is None:
        return None
    middle, low, high = (panel.scale * part for part in (found.mean, found.low, found.high))
    return Interval(middle, low, high, found.units)


def _draw(axis: Any, pen: Pen, label: str, points: Sequence[Point]) -> None:
    """Draw one method as a line through its means with their intervals."""
    x = [place for place, _ in points]
    y = [found.mean for _, found in points]
    below = [found.mean - found.low for _, found in points]
    above = [found.high - found.mean for _, found in points]
    if label.endswith(DAGGER):
        pen = pen._replace(line=":", width=min(1.0, pen.width), layer=2)
    axis.errorbar(
        x, y, yerr=[below, above], label=label, color=pen.color, marker=pen.marker,
        alpha=0.45 if label.endswith(DAGGER) else 1.0,
        linestyle=pen.line if len(points) > 1 else "none", linewidth=pen.width,
        markersize=(3.6 if len(points) > 1 else 5.6) + pen.width, markeredgecolor="white",
        markeredgewidth=0.4, elinewidth=0.7, capsize=0, zorder=pen.layer,
    )  # fmt: skip


def _drawn(
    panels: Sequence[Panel],
    recipe: Recipe,
    points: Callable[[Panel, str], list[Point]],
    *,
    log: bool = False,
) -> tuple[list[Any], list[Row]]:
    """Draw every method into every panel; return the axes and the rows that are shown."""
    rows = [row for panel in panels for row in panel.rows]
    pens, called = _pens(recipe), shown(rows, recipe)
    axes = canvas(1, max(1, len(panels)), width=3.5, height=2.9)
    for axis, panel in zip(axes, panels, strict=False):
        if log:
            axis.set_xscale("log", base=2)
        for name, text in called.items():
            if found := points(panel, name):
                _draw(axis, pens[name], text, found)
        axis.set(title=panel.title, ylabel=panel.axis)
        axis.set_ylim(bottom=0)
    return axes, rows


def _line(panel: Panel, name: str, key: Callable[[Row], int]) -> list[Point]:
    """Return the points of one method, one per value of a key of its rows."""
    own = of(panel.rows, name)
    places = sorted({key(row) for row in own})
    found = ((place, _interval([r for r in own if key(r) == place], panel)) for place in places)
    return [(float(place), each) for place, each in found if each is not None]


def scaling(rows: Rows, recipe: Recipe) -> Figure:
    """Draw score against population, by method."""
    panels = _panels(rows)
    by_size = partial(_line, key=lambda row: row.n)
    axes, drawn = _drawn(panels, recipe, by_size, log=True)
    for axis, panel in zip(axes, panels, strict=False):
        sizes = sizes_of(panel.rows)
        axis.set_xticks(sizes, [str(n) for n in sizes])
        axis.minorticks_off()
        axis.set_xlabel("population N")
    legend(axes)
    text = "Score against population. Bars: 95 % bootstrap over seeds within tasks. "
    note = caption(text + anchors.describe(), drawn, recipe)
    return finish(axes, "scaling", "Population scaling", note)


def tradeoff(rows: Rows, recipe: Recipe) -> Figure:
    """Draw score against delivered messages per agent, at the largest population."""

    def points(panel: Panel, name: str) -> list[Point]:
        own = of(panel.rows, name)
        found, traffic = _interval(own, panel), mean(own, metric("messages"))
        return [] if found is None or traffic is None else [(traffic, found)]

    panels = []
    for panel in _panels(rows):
        n = max(sizes_of(panel.rows))
        here = [row for row in panel.rows if row.n == n]
        panels.append(panel._replace(title=f"{panel.title}, N = {n}", rows=here))
    axes, drawn = _drawn(panels, recipe, points)
    for axis in axes:
        axis.set_xlabel("delivered messages per agent")
        axis.margins(x=0.08)
    legend(axes)
    text = "Quality against communication at the largest population; up and left is better. "
    text += "Bars: 95 % bootstrap over seeds within tasks"
    title = "Quality against communication"
    return finish(axes, "tradeoff", title, caption(text, drawn, recipe))


def horizon(rows: Rows, recipe: Recipe) -> Figure:
    """Draw Silo success against rounds of communication, and against delivered messages."""
    panel = _silo_panel(rows)
    pens, called = _pens(recipe), shown(panel.rows, recipe)
    left, right = axes = canvas(1, 2, width=3.5, height=2.9)
    for name, text in called.items():
        by_rounds = _line(panel, name, lambda row: row.rounds - 1)
        by_traffic = [(_traffic(panel.rows, name, int(r)), found) for r, found in by_rounds]
        primary = [k for k, (r, _) in enumerate(by_rounds) if r == _PRIMARY_ROUNDS]
        for axis, points in ((left, by_rounds), (right, by_traffic)):
            _draw(axis, pens[name], text, points)
            _outline(axis, pens[name], [points[k] for k in primary])
    rounds = sorted({row.rounds - 1 for row in panel.rows})
    left.set_xticks(rounds, [str(r) for r in rounds])
    left.set(title="(a) by rounds", xlabel="communication rounds R", ylabel=panel.axis)
    right.set(title="(b) by traffic", xlabel="delivered messages per agent", ylabel=panel.axis)
    for axis in axes:
        axis.set_ylim(bottom=0)
    legend(axes)
    note = caption("Outlined: R = 9. Bars: 95 % bootstrap over seeds within tasks", panel.rows,
                   recipe)  # fmt: skip
    return finish(axes, "horizon", "Communication horizon", note)


def _traffic(rows: Rows, name: str, rounds: int) -> float:
    own = [row for row in of(rows, name) if row.rounds - 1 == rounds]
    return mean(own, metric("messages")) or 0.0


def _outline(axis: Any, pen: Pen, points: Sequence[Point]) -> None:
    """Ring the points of the primary setting."""
    axis.plot(
        [x for x, _ in points], [found.mean for _, found in points], linestyle="none", marker="o",
        markersize=8 + pen.width, markerfacecolor="none", markeredgecolor=pen.color,
        markeredgewidth=0.9, zorder=pen.layer,
    )  # fmt: skip
