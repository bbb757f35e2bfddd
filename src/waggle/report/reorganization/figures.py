"""Figures of reorganization: the course around the injection, and bars of every comparison.

Courses are means over the matched settings, with rounds relative to the injection; one figure shows
a representative episode instead. Bars attribute recovery to decision sources and runtime
components, and show perturbations and sensitivity; a cross marks a value that is undefined because
no setting recovered. Error bars are 95 % bootstrap intervals over matched settings for rates and
one sample deviation for latency and stale-field AUC, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from statistics import stdev
from typing import Any, TypeAlias

from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe
from waggle.evaluate.reorganization import around
from waggle.evaluate.rows import Row
from waggle.report.figure import PALETTE, Figure, canvas, finish, legend
from waggle.report.provenance import caption
from waggle.report.reorganization.runtime import relative, variants
from waggle.report.reorganization.tables import LATENCY, STALE, flag, late, recovered
from waggle.report.reorganization.trajectory import representative
from waggle.report.rows import (
    Rows,
    Value,
    cell_of,
    grouped,
    label,
    mean,
    metric,
    shown,
    spread,
    task_of,
)

OLD, NEW, NONE = PALETTE[1], PALETTE[0], PALETTE[6]
_SHARES = (("old", "old claim", OLD), ("new", "new claim", NEW), ("none", "none", NONE))
_ACTIVITY = (
    ("challenge", "Challenge decisions / agent"),
    ("synthesize", "Synthesize decisions / agent"),
    ("mass", "field mass / agent"),
    ("stale", "stale field mass / agent"),
)
_UNDER = "outside lower center"
_BEFORE = 6
_LONGEST = 30
"""Largest number of rounds after the injection that a panel shows."""
_AREA = "stale AUC (mass/agent x rounds)"
_RECOVERIES = (("recovery", "recovery"), ("event", "event_recovery"),
               ("outcome", "outcome_recovery"))  # fmt: skip
Bar: TypeAlias = "tuple[float, float, float] | None"
"""Height of a bar, and the lengths of its error bar below and above."""
Bars: TypeAlias = Mapping[str, list[Bar]]
"""For each group, one bar per method."""


def _courses(rows: Rows, recipe: Recipe) -> tuple[dict[str, str], list[str], list[Row]]:
    """Return the labels by method, the tasks, and the rows with late counterevidence."""
    found = [row for row in rows if row.course]
    if not found:
        raise ConfigError("no episode with late counterevidence to draw; set `shock = true`")
    return shown(found, recipe), _tasks(found), found


def _tasks(rows: Rows) -> list[str]:
    return sorted({task_of(row) for row in rows if row.shock}, reverse=True)


def _of_task(rows: Rows, method: str, task: str | None) -> list[Row]:
    return [row for row in late(rows, method) if task in (None, task_of(row))]


def span(rows: Rows) -> tuple[int, int]:
    """Return the first and last round to show, which all episodes reach, so means are over all."""
    reach = min(len(row.course["old"]) - 1 - int(row.course["injection"][0]) for row in rows)
    return -_BEFORE, min(_LONGEST, reach)


def _line(axis: Any, rows: Rows, name: str, **style: Any) -> None:
    first, last = span(rows)
    values = around([row.course for row in rows], name, first, last)
    there = [(k, v) for k, v in zip(range(first, last + 1), values, strict=True) if v is not None]
    axis.plot([k for k, _ in there], [v for _, v in there], **style)


def _injection(axis: Any) -> None:
    axis.axvline(0, color="#444444", linewidth=0.8, linestyle=(0, (3, 2)))


def course(rows: Rows, recipe: Recipe) -> Figure:
    """Draw commitment shares of the old and the new claim, by task and method."""
    called, tasks, found = _courses(rows, recipe)
    methods = list(called)
    columns = min(5, len(methods))
    per_task = ceil(len(methods) / columns) * columns
    axes = canvas(per_task // columns * len(tasks), columns, width=2.0, height=1.65)
    for place, axis in enumerate(axes):
        task, method = divmod(place, per_task)
        own = _of_task(found, methods[method], tasks[task]) if method < len(methods) else []
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
    legend(axes, _UNDER, 4)
    text = (
        f"Mean over the matched settings of each task, {_counts(found)} per panel, as far as all "
        "of them last; dashed: injection."
    )
    title = "Commitment shares around the injection"
    return finish(axes, "reorganization-course", title, caption(text, found, recipe))


def _counts(rows: Rows) -> str:
    sizes = [len(own) for own in grouped(rows, lambda row: (row.method, task_of(row))).values()]
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"


def activity(rows: Rows, recipe: Recipe) -> Figure:
    """Draw challenge and synthesize activity and field mass around the injection."""
    called, tasks, found = _courses(rows, recipe)
    axes = canvas(len(tasks), len(_ACTIVITY), width=2.3, height=1.9)
    for place, axis in enumerate(axes):
        task, (name, text) = tasks[place // len(_ACTIVITY)], _ACTIVITY[place % len(_ACTIVITY)]
        for number, (method, who) in enumerate(called.items()):
            if own := _of_task(found, method, task):
                color = PALETTE[number % len(PALETTE)]
                dashes = "-" if number < len(PALETTE) else "--"
                _line(axis, own, name, color=color, label=who, linestyle=dashes)
        _injection(axis)
        axis.set_ylim(bottom=0)
        axis.set_title(f"{task}\n{text}", fontsize=7.5)
        if place >= len(axes) - len(_ACTIVITY):
            axis.set_xlabel("rounds from injection")
    legend(axes, _UNDER, 4)
    text = (
        f"Mean over matched settings, {_counts(found)} per line, as far as all of them last; "
        "decisions per round; dashed: injection."
    )
    title = "Activity and field mass around the injection"
    return finish(axes, "reorganization-activity", title, caption(text, found, recipe))


def trajectory(rows: Rows, recipe: Recipe) -> Figure:
    """Draw one representative episode: shares, activity, field mass."""
    row = representative(rows, recipe)
    start = int(row.course["injection"][0])
    rounds = [k - start for k in range(len(row.course["old"]))]
    kept = [k for k, at in enumerate(rounds) if at >= -_BEFORE]  # to the end, which decides
    axes = canvas(1, 3, width=2.7, height=2.3)
    panels = (
        ("share of agents", _SHARES),
        ("decisions / agent", (("challenge", "Challenge", OLD), ("synthesize", "Synthesize", NEW))),
        ("field mass / agent", (("mass", "all traces", NEW), ("stale", "old claim", OLD))),
    )
    for axis, (text, lines) in zip(axes, panels, strict=True):
        for name, label_text, color in lines:
            values = row.course[name]
            axis.plot([rounds[k] for k in kept], [values[k] for k in kept], color=color,
                      label=label_text, marker="o", markersize=2)  # fmt: skip
        _injection(axis)
        axis.set_xlabel("rounds from injection")
        axis.set_title(text)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=len(lines))
    text = (
        f"{label(recipe, row.method)} on {cell_of(row)}, seed {row.seed}, to its end; "
        "decisions of every claim, per round; dashed: injection."
    )
    title = "A representative reorganization"
    return finish(axes, "reorganization-trajectory", title, caption(text, [row], recipe))


def _rate(rows: Rows, name: str) -> Bar:
    found = spread(rows, flag(name), cell_of)
    return None if found is None else (found.mean, found.mean - found.low, found.high - found.mean)


def _deviation(rows: Rows, value: Value) -> Bar:
    found = [v for row in rows if (v := value(row)) is not None]
    middle = mean(rows, value)
    if middle is None:
        return None
    error = stdev(found) if len(found) > 1 else 0.0
    return middle, min(error, middle), error


def _bars(axis: Any, names: Sequence[str], groups: Bars) -> None:
    """Draw horizontal bars, one band per name and one bar per group.

    A bar of length zero is labelled "0"; an undefined bar is replaced by a cross.
    """
    height = 0.8 / len(groups)
    for number, (text, bars) in enumerate(groups.items()):
        places = [i - 0.4 + height * (number + 0.5) for i in range(len(names))]
        color = PALETTE[number]
        there = [(y, bar) for y, bar in zip(places, bars, strict=True) if bar is not None]
        axis.barh(
            [y for y, _ in there], [b[0] for _, b in there], height * 0.92, color=color, label=text,
            xerr=[[b[1] for _, b in there], [b[2] for _, b in there]],
            error_kw={"elinewidth": 0.7, "ecolor": "#333333"},
        )  # fmt: skip
        for y in (y for y, bar in there if not bar[0]):
            axis.annotate("0", (0.0, y), (2, 0), textcoords="offset points", color=color,
                          fontsize=6.0, va="center")  # fmt: skip
        gone = [y for y, bar in zip(places, bars, strict=True) if bar is None]
        if gone:
            axis.plot([0.0] * len(gone), gone, "x", color=color, markersize=4, clip_on=False)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlim(left=0)
    axis.grid(axis="y", visible=False)


def _dots(axis: Any, names: Sequence[str], values: Sequence[Bar]) -> None:
    """Draw ratios as dots around one, since bars from zero would hide the differences."""
    there = [(bar[0], y) for y, bar in enumerate(values) if bar is not None]
    axis.plot([v for v, _ in there], [y for _, y in there], "o", color=PALETTE[0])
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    far = max([0.1, *(abs(value - 1.0) * 1.15 for value, _ in there)])
    axis.set_xlim(1.0 - far, 1.0 + far)
    axis.locator_params(axis="x", nbins=4)


def _attribution(rows: Rows, recipe: Recipe, name: str, title: str, by_task: bool) -> Figure:
    """Draw recovery, latency and stale AUC, by kind of recovery or by task.

    By task, outcome recovery has a separate panel: no ablation fails it by definition.
    """
    called = {m: text for m, text in shown(rows, recipe).items() if late(rows, m)}
    tasks = _tasks(rows)

    def bars(task: str | None, make: Callable[[list[Row]], Bar]) -> list[Bar]:
        return [make(_of_task(rows, method, task)) for method in called]

    def rates(task: str | None, kind: str) -> list[Bar]:
        return bars(task, lambda own: _rate(own, kind))

    panels: dict[str, Bars] = {}
    if by_task:
        for text, kind in (("recovery", "recovery"), ("outcome recovery", "outcome_recovery")):
            panels[f"share of settings, {text}"] = {task: rates(task, kind) for task in tasks}
    else:
        kinds = {text: rates(None, kind) for text, kind in _RECOVERIES}
        panels["share of settings recovered"] = kinds
    shares = len(panels)
    scopes: dict[str, str | None] = {t: t for t in tasks} if by_task else {"pooled": None}
    for text, value in (("re-synthesis latency (round-eq.)", recovered(LATENCY)), (_AREA, STALE)):
        panels[text] = {
            scope: bars(task, lambda own, value=value: _deviation(own, value))  # type: ignore[misc]
            for scope, task in scopes.items()
        }
    wide = 2.8 if by_task else 3.3
    axes = canvas(1, len(panels), width=wide, height=1.0 + 0.4 * len(called))
    for place, (axis, (text, groups)) in enumerate(zip(axes, panels.items(), strict=True)):
        _bars(axis, list(called.values()), groups)
        axis.set_title(text)
        if place < shares:
            axis.set_xlim(0, 1.02)
        if place:
            axis.set_yticklabels([])
    legend(axes[:1], _UNDER, 9)
    text = (
        "Rates with 95 % bootstrap intervals over matched settings (none where all came out "
        "alike); latency over recovered settings and stale AUC (trace mass per agent x rounds) "
        "over all, mean and 1 s.d.; a cross: undefined, none recovered."
    )
    return finish(axes, name, title, caption(text, [row for row in rows if row.shock], recipe))


def sources(rows: Rows, recipe: Recipe) -> Figure:
    """Draw the three recoveries, latency and stale AUC of every decision source."""
    title = "Attribution to decision sources"
    return _attribution(rows, recipe, "attribution-sources", title, by_task=False)


def components(rows: Rows, recipe: Recipe) -> Figure:
    """Draw recovery, outcome recovery, latency and stale AUC of every runtime variant, by task."""
    title = "Attribution to runtime components"
    return _attribution(rows, recipe, "attribution-components", title, by_task=True)


def perturbations(rows: Rows, recipe: Recipe) -> Figure:
    """Draw the three recoveries, latency and stale AUC of every execution regime."""
    return _attribution(rows, recipe, "perturbations", "Execution perturbations", by_task=False)


def sensitivity(rows: Rows, recipe: Recipe) -> Figure:
    """Draw quality, messages, recovery and stale AUC around the default operating point."""
    found = [each for each in variants(rows, recipe, alone=True) if each.late]
    names = [each.label for each in found]
    axes = canvas(1, 4, width=2.6, height=1.0 + 0.24 * len(found))

    def ratios(value: Value) -> list[Bar]:
        read = [relative(each.plain, each.plain_default, value) for each in found]
        return [None if ratio is None else (ratio, 0.0, 0.0) for ratio in read]

    panels: dict[str, list[Bar]] = {
        "quality / default": ratios(metric("score")),
        "messages / default": ratios(metric("messages")),
        "recovery (share)": [_rate(each.late, "recovery") for each in found],
        _AREA: [_deviation(each.late, STALE) for each in found],
    }
    for axis, (text, bars) in zip(axes, panels.items(), strict=True):
        if text.endswith("default"):
            _dots(axis, names, bars)
        else:
            _bars(axis, names, {text: bars})
        axis.set_title(text)
        _mark_defaults(axis, [(each.method, each.default) for each in found], bars)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    text = (
        "Quality and messages within each task and population relative to the default, averaged; "
        "recovery (95 % bootstrap) and stale AUC (mean and 1 s.d.) over "
        f"{len(found[0].late)} Pursuit settings; dashed: the law's default."
    )
    title = "Runtime-parameter sensitivity"
    return finish(axes, "sensitivity", title, caption(text, rows, recipe))


def _mark_defaults(axis: Any, pairs: Sequence[tuple[str, str]], bars: Sequence[Bar]) -> None:
    """Draw a dashed line at each law's default value, across the law's configurations."""
    methods = [method for method, _ in pairs]
    for default in dict.fromkeys(default for _, default in pairs):
        own = [place for place, (_, base) in enumerate(pairs) if base == default]
        bar = bars[methods.index(default)]
        if bar is not None:
            axis.plot([bar[0]] * 2, [own[0] - 0.5, own[-1] + 0.5], color="#444444", linewidth=0.8,
                      linestyle="--")  # fmt: skip
