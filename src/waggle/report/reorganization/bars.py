"""Bar figures of reorganization: attribution to sources and components, perturbations, sensitivity.

Crosses mark what is not defined because no setting recovered. Error bars: 95 % bootstrap over
matched settings for rates, one sample s.d. for latency and stale-field AUC, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import stdev
from typing import Any, TypeAlias

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import reading
from waggle.report.figure import PALETTE, Figure, canvas, finish, styled
from waggle.report.matching import shown
from waggle.report.reading import Value, metric, task_of
from waggle.report.reorganization import settings
from waggle.report.reorganization.runtime import completed, relative
from waggle.report.reorganization.settings import flag, of, rate, recovered
from waggle.report.reorganization.tables import LATENCY, STALE

Bar: TypeAlias = "tuple[float, float, float] | None"
"""Height, and how far the error reaches below and above."""
_AREA = "stale AUC (mass/agent x rounds)"
_KINDS = (("recovery", "recovery"), ("event", "event_recovery"), ("outcome", "outcome_recovery"))


def _rate(rows: Sequence[Row], name: str) -> Bar:
    found = rate(rows, flag(name))
    return None if found is None else (found.mean, found.mean - found.low, found.high - found.mean)


def _spread(rows: Sequence[Row], value: Value) -> Bar:
    found = [v for row in rows if (v := value(row)) is not None]
    if not found:
        return None
    error = stdev(found) if len(found) > 1 else 0.0
    middle = sum(found) / len(found)
    return middle, min(error, middle), error


def _grouped(axis: Any, names: Sequence[str], groups: Sequence[tuple[str, list[Bar]]]) -> None:
    """Draw horizontal bars, one band per name and one bar per group.

    A bar of no length has a zero beside it, one that is undefined a cross in its place.
    """
    height = 0.8 / len(groups)
    for number, (text, bars) in enumerate(groups):
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


def _dots(axis: Any, names: Sequence[str], groups: Sequence[tuple[str, list[Bar]]]) -> None:
    """Draw ratios as dots around one, where bars from zero would hide what differs."""
    for number, (_, bars) in enumerate(groups):
        there = [(bar[0], y) for y, bar in enumerate(bars) if bar is not None]
        axis.plot([v for v, _ in there], [y for _, y in there], "o", color=PALETTE[number])
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    far = max([0.1, *(abs(bar[0] - 1.0) * 1.15 for _, bars in groups for bar in bars if bar)])
    axis.set_xlim(1.0 - far, 1.0 + far)
    axis.locator_params(axis="x", nbins=4)


def _named(rows: Sequence[Row], recipe: Recipe) -> tuple[list[str], list[str]]:
    called = {m: text for m, text in shown(rows, recipe).items() if of(rows, m)}
    return list(called), list(called.values())


def _panels(rows: Sequence[Row], recipe: Recipe, name: str, title: str, by_task: bool) -> Figure:
    """Draw recovery, latency and stale AUC, by kind of recovery or by task.

    By task outcome recovery has a panel of its own: the one that no ablation fails by definition.
    """
    methods, names = _named(rows, recipe)
    tasks = sorted({task_of(row) for row in rows if row.shock}, reverse=True)

    def bars(task: str | None, make: Callable[[list[Row]], Bar]) -> list[Bar]:
        own = ([r for r in of(rows, m) if task in (None, task_of(r))] for m in methods)
        return [make(some) for some in own]

    scopes: list[tuple[str, str | None]] = (
        [(t, t) for t in tasks] if by_task else [("pooled", None)]
    )
    rates: list[tuple[str, list[tuple[str, list[Bar]]]]] = [
        (f"share of settings, {text}", [(t, bars(t, _reader(kind))) for t in tasks])
        for text, kind in (("recovery", "recovery"), ("outcome recovery", "outcome_recovery"))
    ]
    if not by_task:
        kinds = [(text, bars(None, _reader(kind))) for text, kind in _KINDS]
        rates = [("share of settings recovered", kinds)]
    values = (("re-synthesis latency (round-eq.)", recovered(LATENCY)), (_AREA, STALE))
    spreads = [(text, [(t, bars(s, _spreader(v))) for t, s in scopes]) for text, v in values]
    wide = 2.8 if by_task else 3.3
    axes = canvas(1, len(rates) + len(spreads), width=wide, height=1.0 + 0.4 * len(methods))
    for place, (axis, (text, groups)) in enumerate(zip(axes, [*rates, *spreads], strict=True)):
        _grouped(axis, names, groups)
        axis.set_title(text)
        if place < len(rates):
            axis.set_xlim(0, 1.02)
        if place:
            axis.set_yticklabels([])
    handles, texts = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, texts, loc="outside lower center", ncols=len(texts))
    caption = (
        "Rates with 95 % bootstrap intervals over matched settings (none where all came out "
        "alike); latency over recovered settings and stale AUC (trace mass per agent x rounds) "
        "over all, mean and 1 s.d.; a cross: undefined, none recovered."
    )
    late = [row for row in rows if row.shock]
    return finish(axes, name, title, reading.caption(caption, late, recipe))


def _reader(kind: str) -> Callable[[list[Row]], Bar]:
    return lambda rows: _rate(rows, kind)


def _spreader(value: Value) -> Callable[[list[Row]], Bar]:
    return lambda rows: _spread(rows, value)


@styled
def sources(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw the three recoveries, latency and stale AUC of every decision source."""
    return _panels(rows, recipe, "attribution-sources", "Attribution to decision sources", False)


@styled
def components(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw recovery, outcome recovery, latency and stale AUC of every runtime variant, by task."""
    title = "Attribution to runtime components"
    return _panels(rows, recipe, "attribution-components", title, True)


@styled
def perturbations(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw the three recoveries, latency and stale AUC of every execution regime."""
    return _panels(rows, recipe, "perturbations", "Execution perturbations", False)


def _defaults(
    axis: Any, methods: Sequence[str], pairs: Sequence[tuple[str, str]], bars: Sequence[Bar]
) -> None:
    """Draw a dashed line through the configurations of every law, where its default lies."""
    for default in dict.fromkeys(default for _, default in pairs):
        own = [place for place, (_, base) in enumerate(pairs) if base == default]
        bar = bars[methods.index(default)]
        if bar is not None:
            axis.plot([bar[0]] * 2, [own[0] - 0.5, own[-1] + 0.5], color="#444444", linewidth=0.8,
                      linestyle="--")  # fmt: skip


@styled
def sensitivity(rows: Sequence[Row], recipe: Recipe) -> Figure:
    """Draw quality, messages, recovery and stale AUC around the default operating point."""
    methods, names = _named(rows, recipe)
    axes = canvas(1, 4, width=2.6, height=1.0 + 0.24 * len(methods))
    pairs = [(m, settings.reference(recipe, m, methods) or m) for m in methods]

    def against(value: Value) -> list[Bar]:
        found = []
        for method, default in pairs:
            base = of(rows, default, shock=False)
            found.append(relative(completed(of(rows, method, shock=False), base), base, value))
        return [None if v is None else (v, 0.0, 0.0) for v in found]

    late = [of(rows, method) for method in methods]
    panels: tuple[tuple[str, list[Bar]], ...] = (
        ("quality / default", against(metric("score"))),
        ("messages / default", against(metric("messages"))),
        ("recovery (share)", [_rate(some, "recovery") for some in late]),
        (_AREA, [_spread(some, STALE) for some in late]),
    )
    for axis, (text, bars) in zip(axes, panels, strict=True):
        (_dots if text.endswith("default") else _grouped)(axis, names, [(text, bars)])
        axis.set_title(text)
        _defaults(axis, methods, pairs, bars)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    caption = (
        "Quality and messages within each task and population relative to the default, averaged; "
        f"recovery (95 % bootstrap) and stale AUC (mean and 1 s.d.) over {len(late[0])} Pursuit "
        "settings; dashed: the law's default."
    )
    told = reading.caption(caption, rows, recipe)
    return finish(axes, "sensitivity", "Runtime-parameter sensitivity", told)
