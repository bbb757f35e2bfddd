"""Private workers: quality, logical input and traffic; full refresh against reuse.

The paper's "GPT-4o full-refresh transfer" and "Private-state reuse" tables and its trade-off
figure. Input counts every request that a schedule makes, including those answered by a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean, stdev
from typing import Any, NamedTuple

from waggle.core.worker import BYTES_PER_TOKEN
from waggle.evaluate.plan import MethodSpec, Recipe
from waggle.evaluate.rows import Row
from waggle.report.figure import Figure, canvas, finish, legend
from waggle.report.layout import by_method, signed
from waggle.report.provenance import caption, provenance
from waggle.report.rows import (
    Rows,
    counter,
    difference,
    grouped,
    label,
    matched,
    mean,
    methods_of,
    metric,
    of,
    shown,
    task_of,
)
from waggle.report.tables import SPLIT, Table, number, percent

INPUT = counter("worker.tokens.input")
"""Logical input of the private workers in an episode."""
_CALLS = counter("worker.calls")
_COUNTED = (
    f"logical input: every request, cached or not; the endpoint's own count for a chat worker, one "
    f"token for {BYTES_PER_TOKEN} bytes of the question for others"
)
_BUILT_IN = {
    "native": "the substrate's own rule, no model",
    "slips": "the substrate's own rule with slips drawn at every call, no model",
}
_COLORS = ("#0072b2", "#111111", "#d55e00", "#009e73", "#8a8f98", "#b8860b", "#c06c84")


def transfer(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate quality, logical input and traffic of every method under full refresh."""
    chosen = staffed(rows, recipe, "full")
    tasks = list(dict.fromkeys(map(task_of, chosen)))

    def cells(name: str, own: Rows) -> list[str]:
        return [_point([row for row in own if task_of(row) == task]) for task in tasks]

    return by_method(
        "Private workers, full refresh: quality / logical input kTokens / messages per agent",
        chosen, recipe, tasks, cells,
        better=[SPLIT.join(("higher", "lower", "fewest"))] * len(tasks),
        notes=[_COUNTED, *_who(chosen, recipe)],
    )  # fmt: skip


def reuse(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate each law and worker under full refresh and under reuse, on the same seeds."""
    body, used = [], []
    for pair in schedule_pairs(rows, recipe):
        for task, full in grouped(pair.full, task_of).items():
            lean = [row for row in pair.lean if task_of(row) == task]
            used += [*full, *lean]
            body.append((
                pair.law, pair.worker, task, _point(full), _point(lean),
                percent(_saved(full, lean, _CALLS)), percent(_saved(full, lean, INPUT)),
                signed(difference(lean, full, metric("score")), 3),
            ))  # fmt: skip
    columns = ("law", "worker", "task", "full refresh", "reuse", "calls saved (%)",
               "input saved (%)", "quality, reuse minus full")  # fmt: skip
    return Table(
        "Private-state reuse: quality / logical input kTokens / messages per agent",
        columns,
        tuple(body),
        (
            _COUNTED,
            "under reuse a worker is asked at first, and again when what was delivered or the "
            "node's own evidence has changed",
            "differences are paired over seeds, with bootstrap 95 % intervals",
            *_who(used, recipe),
            *provenance(used, recipe),
        ),
    )


class Pair(NamedTuple):
    """Rows of one law and worker under the two schedules, on units that both have."""

    law: str
    worker: str
    full: list[Row]
    lean: list[Row]


def schedule_pairs(rows: Rows, recipe: Recipe) -> Iterator[Pair]:
    """Yield the rows of each law that played with the same worker under both schedules."""
    names = methods_of(rows, recipe)
    full = {_setting(recipe.methods[n]): n for n in names if _schedule(recipe, n) == "full"}
    for name in names:
        other = full.get(_setting(recipe.methods[name]))
        if _schedule(recipe, name) != "reuse" or other is None:
            continue
        one, two = matched(of(rows, other), of(rows, name))
        yield Pair(label(recipe, other), str(recipe.methods[name].worker["name"]), one, two)


def _schedule(recipe: Recipe, name: str) -> str:
    worker = recipe.methods[name].worker
    return str(worker.get("schedule", "full")) if worker else ""


def _setting(spec: MethodSpec) -> str:
    """Return a key of all settings of a method except its worker's schedule and cache."""
    shared = {k: v for k, v in spec.worker.items() if k not in ("schedule", "cache")}
    runtime = spec.order, spec.engine, spec.switches, spec.perturbation, spec.defence
    return repr((spec.law, spec.options, *runtime, shared))


def staffed(rows: Rows, recipe: Recipe, schedule: str) -> list[Row]:
    """Return the rows of the methods whose workers have the given schedule."""
    return [row for row in rows if _schedule(recipe, row.method) == schedule]


def _point(rows: Rows) -> str:
    """Return mean quality, input and traffic of rows as one cell."""
    tokens = mean(rows, INPUT)
    parts = (
        number(mean(rows, metric("score"))),
        number(None if tokens is None else tokens / 1000, 1),
        number(mean(rows, metric("messages")), 2),
    )
    return SPLIT.join(parts)


def _saved(full: Rows, lean: Rows, value: Any) -> float | None:
    before, after = mean(full, value), mean(lean, value)
    return 1 - after / before if before and after is not None else None


def _who(rows: Rows, recipe: Recipe) -> list[str]:
    """Return a note on the workers that made the proposals."""
    workers: dict[str, Mapping[str, Any]] = {}
    for name in methods_of(rows, recipe):
        worker = recipe.methods[name].worker
        own = {k: v for k, v in worker.items() if k not in ("schedule", "cache", "name")}
        settings = ", ".join(f"{key} {value}" for key, value in sorted(own.items()))
        about = _BUILT_IN.get(str(worker.get("name")), "")
        extra = "; ".join(part for part in (about, settings) if part)
        workers[f"{worker.get('name')} ({extra})" if extra else str(worker.get("name"))] = worker
    return [f"private workers: {', '.join(workers)}"] if workers else []


def tradeoff(rows: Rows, recipe: Recipe) -> Figure:
    """Draw quality against logical input under full refresh; marker area is traffic."""
    chosen = staffed(rows, recipe, "full")
    panels = grouped(chosen, task_of) or {"no rows": []}
    called = shown(chosen, recipe)
    axes = canvas(1, len(panels), width=2.9, height=2.7)
    for axis, (task, here) in zip(axes, panels.items(), strict=True):
        for place, (name, text) in enumerate(called.items()):
            if own := of(here, name):
                _mark(axis, own, text, place, bars=place == 0)
        axis.set(title=task, xlabel="logical input (kTokens)")
        axis.margins(0.15)
    axes[0].set_ylabel("native quality")
    legend(axes)
    text = (
        "Quality against logical input of private workers under full refresh. Marker area: "
        "delivered messages per agent. Bars: one sample deviation of the first method"
    )
    note = caption(". ".join([text, *_who(chosen, recipe)]), chosen, recipe)
    return finish(axes, "worker-tradeoff", "Quality against logical input", note)


def _mark(axis: Any, rows: Rows, text: str, place: int, *, bars: bool) -> None:
    """Draw one method in one panel."""
    quality = [value for row in rows if (value := row.metrics.get("score")) is not None]
    if not quality:
        return
    x, y = (mean(rows, INPUT) or 0.0) / 1000, fmean(quality)
    color = _COLORS[place % len(_COLORS)]
    if bars and len(quality) > 1:
        axis.errorbar(x, y, yerr=stdev(quality), color=color, elinewidth=0.8, capsize=2, zorder=2)
    area = 14 + 5 * (mean(rows, metric("messages")) or 0.0)
    axis.scatter([x], [y], s=area, color=color, alpha=0.75, label=text, linewidths=0, zorder=3)
