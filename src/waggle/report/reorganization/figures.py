"""Figures of reorganization over rounds: commitment shares, activity, field mass.

The paper's late-conflict figure, averaged over the matched settings, and once for a representative
episode. Rounds are relative to the injection. Everything is drawn from rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe
from waggle.evaluate.reorganization import around
from waggle.evaluate.rows import Row
from waggle.report import reading
from waggle.report.figure import PALETTE, Figure, canvas, finish, styled
from waggle.report.matching import label, shown
from waggle.report.reading import task_of
from waggle.report.reorganization import settings
from waggle.report.reorganization.settings import of
from waggle.report.reorganization.trajectory import told

OLD, NEW, NONE = PALETTE[1], PALETTE[0], PALETTE[6]
_SHARES = (("old", "old claim", OLD), ("new", "new claim", NEW), ("none", "none", NONE))
_BEFORE = 6
_LONGEST = 30
"""Rounds after the injection that a panel shows at most."""


def _late(rows: Sequence[Row], recipe: Recipe) -> tuple[dict[str, str], list[str], list[Row]]:
    """Return the methods and what they are called, the tasks, and the rows of counterevidence."""
    late = [row for row in rows if row.course]
    if not late:
        raise ConfigError("no episode with late counterevidence to draw; set `shock = true`")
    tasks = sorted({task_of(row) for row in late}, reverse=True)
    return shown(late, recipe), tasks, late


def span(rows: Sequence[Row]) -> tuple[int, int]:
    """Return the rounds to show: as far as every episode reaches, so that a mean is of all."""
    reach = min(len(row.course["old"]) - 1 - int(row.course["injection"][0]) for row in rows)
    return -_BEFORE, min(_LONGEST, reach)


def _line(axis: Any, rows: Sequence[Row], name: str, **style: Any) -> None:
    first, last = span(rows)
    values = around([row.course for row in rows], name, first, last)
    there = [(k, v) for k, v in zip(range(first, last + 1), values, strict=True) if v is not None]
    axis.plot([k for k, _ in there], [v for _, v in there], **style)


def _injection(axis: Any) -> None:
    axis.axvline(0, color="#444444", linewidth=0.8, linestyle=(0, (3, 2)))


def _legend(axes: Sequence[Any]) -> None:
    """Put one legend under all panels, with every line that any of them draws."""
    drawn: dict[str, Any] = {}
    for axis in axes:
        handles, texts = axis.get_legend_handles_labels()
        drawn.update(zip(texts, handles, strict=True))
    axes[0].figure.legend(
        list(drawn.values()), list(drawn), loc="outside lower center", ncols=min(4, len(drawn))
    )


@styled
def course(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw commitment shares of the old and the new claim, by task and method."""
    called, tasks, late = _late(rows, recipe)
    methods = list(called)
    columns = min(5, len(methods))
    per_task = ceil(len(methods) / columns)
    axes = canvas(per_task * len(tasks), columns, width=2.0, height=1.65)
    for place, axis in enumerate(axes):
        task, method = divmod(place, per_task * columns)
        if method >= len(methods):
            axis.set_axis_off()
            continue
        own = [r for r in of(late, methods[method]) if task_of(r) == tasks[task]]
        if not own:
            axis.set_axis_off()
            continue
        for name, text, color in _SHARES:
            _line(axis, own, name, color=color, label=text)
        _injection(axis)
        axis.set_ylim(-0.03, 1.03)
        axis.set_title(f"{tasks[task]}\n{called[methods[method]]}", fontsize=7.5)
        if method % columns == 0:
            axis.set_ylabel("share of agents")
        if place >= len(axes) - columns:
            axis.set_xlabel("rounds from injection")
    _legend(axes)
    caption = (
        f"Mean over the matched settings of each task, {_counts(late)} per panel, as far as all of "
        "them last; dashed: injection."
    )
    told_of = reading.caption(caption, late, recipe)
    return finish(axes, "reorganization-course", "Commitment shares around the injection", told_of)


def _counts(rows: Sequence[Row]) -> str:
    sizes: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.method, task_of(row))
        sizes[key] = sizes.get(key, 0) + 1
    low, high = min(sizes.values()), max(sizes.values())
    return str(low) if low == high else f"{low} to {high}"


_ACTIVITY = (
    ("challenge", "Challenge decisions / agent"),
    ("synthesize", "Synthesize decisions / agent"),
    ("mass", "field mass / agent"),
    ("stale", "stale field mass / agent"),
)


@styled
def activity(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw challenge and synthesize activity and field mass around the injection."""
    called, tasks, late = _late(rows, recipe)
    axes = canvas(len(tasks), len(_ACTIVITY), width=2.3, height=1.9)
    for place, axis in enumerate(axes):
        task, (name, text) = tasks[place // len(_ACTIVITY)], _ACTIVITY[place % len(_ACTIVITY)]
        for number, (method, who) in enumerate(called.items()):
            own = [r for r in of(late, method) if task_of(r) == task]
            if own:
                color = PALETTE[number % len(PALETTE)]
                dashes = "-" if number < len(PALETTE) else "--"
                _line(axis, own, name, color=color, label=who, linestyle=dashes)
        _injection(axis)
        axis.set_ylim(bottom=0)
        axis.set_title(f"{task}\n{text}", fontsize=7.5)
        if place >= len(axes) - len(_ACTIVITY):
            axis.set_xlabel("rounds from injection")
    _legend(axes)
    caption = (
        f"Mean over matched settings, {_counts(late)} per line, as far as all of them last; "
        "decisions per round; dashed: injection."
    )
    title = "Activity and field mass around the injection"
    told_of = reading.caption(caption, late, recipe)
    return finish(axes, "reorganization-activity", title, told_of)


@styled
def trajectory(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw one representative episode: shares, activity, field mass."""
    row = told(rows, recipe)
    start = int(row.course["injection"][0])
    rounds = [k - start for k in range(len(row.course["old"]))]
    shown = [k for k, at in enumerate(rounds) if at >= -_BEFORE]  # to the end, where it is decided
    axes = canvas(1, 3, width=2.7, height=2.3)
    panels = (
        ("share of agents", _SHARES),
        ("decisions / agent", (("challenge", "Challenge", OLD), ("synthesize", "Synthesize", NEW))),
        ("field mass / agent", (("mass", "all traces", NEW), ("stale", "old claim", OLD))),
    )
    for axis, (text, lines) in zip(axes, panels, strict=True):
        for name, legend, color in lines:
            values = row.course[name]
            axis.plot([rounds[k] for k in shown], [values[k] for k in shown], color=color,
                      label=legend, marker="o", markersize=2)  # fmt: skip
        _injection(axis)
        axis.set_xlabel("rounds from injection")
        axis.set_title(text)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=len(lines))
    caption = (
        f"{label(recipe, row.method)} on {settings.cell_of(row)}, seed {row.seed}, to its end; "
        "decisions of every claim, per round; dashed: injection."
    )
    title = "A representative reorganization"
    told_of = reading.caption(caption, [row], recipe)
    return finish(axes, "reorganization-trajectory", title, told_of)
