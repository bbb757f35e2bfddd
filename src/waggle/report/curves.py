"""Figures of quality: against population, against rounds, against communication.

The paper's "Cross-method population scaling", "Communication efficiency" and "Quality-communication
trade-off". Bars are 95 % bootstrap intervals over seeds within tasks. Learned laws are drawn
strong, the teacher black and dashed, controls thin, and what has fewer episodes than others (its
mean is of other cases) dotted and faint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report import reading
from waggle.report.figure import Figure, canvas, finish, styled
from waggle.report.matching import DAGGER, shown
from waggle.report.reading import mean, metric

Rows = Sequence[Row]
Key = Callable[[Row], int]
_LEARNED = ("#7fb2dd", "#0072b2", "#6a3db8", "#b8408f")
_CONTROLS = ("#d55e00", "#009e73", "#b8860b", "#8a8f98", "#c06c84", "#5b7a8c", "#a3a33b", "#7f6a5a")
_MARKERS = "sD^vPX<>p*h"
_PRIMARY_ROUNDS = 9


class Pen(NamedTuple):
    """How a method is drawn."""

    color: str
    marker: str
    line: str
    width: float
    layer: int


class Panel(NamedTuple):
    """What one panel shows: which rows, what of them, and under which name."""

    title: str
    axis: str
    rows: list[Row]
    value: reading.Value
    scale: float = 1.0


def pens(recipe: Recipe, names: Sequence[str]) -> dict[str, Pen]:
    """Give every method its colour and marker; the same recipe gives the same ones."""
    found: dict[str, Pen] = {}
    learned = controls = 0
    for name in recipe.methods:
        spec = recipe.methods[name]
        if not spec.ranked:
            found[name] = Pen("#111111", "o", "--", 1.3, 4)
        elif spec.teacher != "none":
            found[name] = Pen(_LEARNED[learned % len(_LEARNED)], "o", "-", 2.2, 5)
            learned += 1
        else:
            color = _CONTROLS[controls % len(_CONTROLS)]
            found[name] = Pen(color, _MARKERS[controls % len(_MARKERS)], "-", 1.0, 3)
            controls += 1
    return {name: found[name] for name in names}


def _panels(rows: Rows) -> list[Panel]:
    """Return the panels that have rows: Silo success and SwarmBench normalized score."""
    plain = [row for row in rows if not row.shock]
    silo = [row for row in plain if row.substrate == "silo"]
    swarm = reading.normalized(plain)
    both = [
        Panel("Silo", "mean S (%)", silo, metric("score"), 100.0),
        Panel("SwarmBench", "normalized score", swarm, anchors.normalized),
    ]
    return [panel for panel in both if panel.rows]


def _interval(rows: Rows, panel: Panel) -> Interval | None:
    found = reading.spread(rows, panel.value)
    if found is None:
        return None
    middle, low, high = (panel.scale * part for part in (found.mean, found.low, found.high))
    return Interval(middle, low, high, found.units)


def _draw(axis: Any, pen: Pen, label: str, points: Sequence[tuple[float, Interval]]) -> None:
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


def _legend(axes: Sequence[Any]) -> None:
    """Put one legend for all panels beside them."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    axes[0].figure.legend(handles.values(), handles.keys(), loc="outside right center")


def _names(panels: Iterable[Panel], recipe: Recipe) -> list[str]:
    return reading.methods_of([row for panel in panels for row in panel.rows], recipe)


def _called(panels: Iterable[Panel], recipe: Recipe) -> dict[str, str]:
    return shown([row for panel in panels for row in panel.rows], recipe)


@styled
def scaling(rows: Rows, recipe: Recipe) -> Figure:
    """Score against population, by method."""
    panels = _panels(rows)
    names = _names(panels, recipe)
    called = _called(panels, recipe)
    axes = canvas(1, max(1, len(panels)), width=3.5, height=2.9)
    for axis, panel in zip(axes, panels, strict=False):
        sizes = sorted({row.n for row in panel.rows})
        axis.set_xscale("log", base=2)
        for name, pen in pens(recipe, names).items():
            points = _line(panel, name, lambda row: row.n)
            if points:
                _draw(axis, pen, called[name], points)
        axis.set_xticks(sizes, [str(n) for n in sizes])
        axis.minorticks_off()
        axis.set(title=panel.title, xlabel="population N", ylabel=panel.axis)
        axis.set_ylim(bottom=0)
    _legend(axes)
    shown = [row for panel in panels for row in panel.rows]
    text = "Score against population. Bars: 95 % bootstrap over seeds within tasks. "
    text += anchors.describe()
    return finish(axes, "scaling", "Population scaling", reading.caption(text, shown, recipe))


def _line(panel: Panel, name: str, key: Key) -> list[tuple[float, Interval]]:
    """Return the points of one method, by a key of its rows."""
    own = [row for row in panel.rows if row.method == name]
    points = []
    for place in sorted({key(row) for row in own}):
        found = _interval([row for row in own if key(row) == place], panel)
        if found is not None:
            points.append((float(place), found))
    return points


@styled
def tradeoff(rows: Rows, recipe: Recipe) -> Figure:
    """Score against delivered messages per agent, at the largest population."""
    panels = [_largest(panel) for panel in _panels(rows)]
    names = _names(panels, recipe)
    called = _called(panels, recipe)
    axes = canvas(1, max(1, len(panels)), width=3.5, height=2.9)
    for axis, panel in zip(axes, panels, strict=False):
        for name, pen in pens(recipe, names).items():
            own = [row for row in panel.rows if row.method == name]
            found, traffic = _interval(own, panel), mean(own, metric("messages"))
            if found is not None and traffic is not None:
                _draw(axis, pen, called[name], [(traffic, found)])
        axis.set(title=panel.title, xlabel="delivered messages per agent", ylabel=panel.axis)
        axis.set_ylim(bottom=0)
        axis.margins(x=0.08)
    _legend(axes)
    shown = [row for panel in panels for row in panel.rows]
    text = "Quality against communication at the largest population; up and left is better. "
    text += "Bars: 95 % bootstrap over seeds within tasks"
    title = "Quality against communication"
    return finish(axes, "tradeoff", title, reading.caption(text, shown, recipe))


def _largest(panel: Panel) -> Panel:
    n = max(row.n for row in panel.rows)
    rows = [row for row in panel.rows if row.n == n]
    return panel._replace(title=f"{panel.title}, N = {n}", rows=rows)


@styled
def horizon(rows: Rows, recipe: Recipe) -> Figure:
    """Silo success against rounds of communication, and against delivered messages."""
    silo = [row for row in rows if row.substrate == "silo" and not row.shock]
    panel = Panel("Silo", "mean S (%)", silo, metric("score"), 100.0)
    names, called = _names([panel], recipe), _called([panel], recipe)
    left, right = axes = canvas(1, 2, width=3.5, height=2.9)
    for name, pen in pens(recipe, names).items():
        points = _line(panel, name, lambda row: row.rounds - 1)
        traffic = [_traffic(silo, name, int(place)) for place, _ in points]
        _draw(left, pen, called[name], points)
        _draw(right, pen, called[name], [(t, p) for t, (_, p) in zip(traffic, points, strict=True)])
        for axis, places in ((left, [place for place, _ in points]), (right, traffic)):
            _outline(axis, pen, [(x, p) for x, (r, p) in zip(places, points, strict=True)
                                 if r == _PRIMARY_ROUNDS])  # fmt: skip
    rounds = sorted({row.rounds - 1 for row in silo})
    left.set_xticks(rounds, [str(r) for r in rounds])
    left.set(title="(a) by rounds", xlabel="communication rounds R", ylabel=panel.axis)
    right.set(title="(b) by traffic", xlabel="delivered messages per agent", ylabel=panel.axis)
    for axis in axes:
        axis.set_ylim(bottom=0)
    _legend(axes)
    text = "Outlined: R = 9. Bars: 95 % bootstrap over seeds within tasks"
    return finish(axes, "horizon", "Communication horizon", reading.caption(text, silo, recipe))


def _traffic(rows: Rows, name: str, rounds: int) -> float:
    own = [row for row in rows if row.method == name and row.rounds - 1 == rounds]
    return mean(own, metric("messages")) or 0.0


def _outline(axis: Any, pen: Pen, points: Sequence[tuple[float, Interval]]) -> None:
    """Ring the points of the primary setting."""
    axis.plot(
        [x for x, _ in points], [found.mean for _, found in points], linestyle="none", marker="o",
        markersize=8 + pen.width, markerfacecolor="none", markeredgecolor=pen.color,
        markeredgewidth=0.9, zorder=pen.layer,
    )  # fmt: skip
