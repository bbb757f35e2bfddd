"""Tables of reorganization after late counterevidence, in the paper's layout.

"Same-Runtime Decision-Law Ablation" and "Runtime-component intervention": decision sources under
one runtime, runtime components under one law, and each cell of the matrix separately. Recovery is
shown next to event and outcome recovery.

Methods are compared only on matched settings (task, N, horizon, seed); strata are the (task, N)
cells of the matrix, with equal weight. A method's own reference is the same law in the unchanged
runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from waggle.evaluate.plan import MethodSpec, Recipe
from waggle.evaluate.reorganization import after, remaining, takeover
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report.layout import points, signed
from waggle.report.provenance import provenance
from waggle.report.rows import (
    Rows,
    Value,
    cell_of,
    difference,
    grouped,
    label,
    macro,
    matched,
    mean,
    metric,
    reference,
    shown,
    task_of,
)
from waggle.report.tables import Table, number, percent

RECOVERIES = ("recovery", "event_recovery", "outcome_recovery")
"""The metrics of late counterevidence that are zero or one (see `evaluate.reorganization`)."""
RECOVERED = tuple(kind.replace("_", " ") for kind in RECOVERIES)
"""Column headings of `RECOVERIES`."""
LATENCY, STALE = metric("resynthesis_latency"), metric("stale_auc")
HALF = metric("half_latency")
AREA = "stale AUC: trace mass per agent x rounds from the injection on"
NEW = (
    "new claim: one that the counterevidence names or, where it names none as on SwarmBench, any "
    "that it does not refute: on Pursuit also of prey that come after the one that was moved"
)
_LATER = 10
"""Rounds after the injection at which the old claim's share is measured again."""
_POOLED = "pooled"


def late(rows: Rows, method: str | None) -> list[Row]:
    """Return the rows of a method with late counterevidence."""
    return [row for row in rows if row.method == method and row.shock]


def own_reference(recipe: Recipe, name: str, among: Sequence[str]) -> str | None:
    """Return the method in `among` with the same law in the unchanged runtime, if any."""

    def law(spec: MethodSpec) -> tuple[str, str]:
        return spec.law, repr(sorted(spec.options.items()))

    def unchanged(spec: MethodSpec) -> bool:
        return not spec.altered and spec.engine == "sync"

    own = law(recipe.methods[name])
    specs = ((other, recipe.methods[other]) for other in among)
    return next((m for m, spec in specs if law(spec) == own and unchanged(spec)), None)


def since(name: str) -> Value:
    """Return a function that sums a series of a row from the injection on."""
    return lambda row: after(row.course, name)


def recovered(value: Value) -> Value:
    """Restrict a value to recovered settings, like the paper's process metrics."""
    return lambda row: value(row) if row.metrics.get("recovery") == 1.0 else None


def flag(name: str) -> Value:
    """Return a function that reads a zero-or-one metric; it is 0 without an injection."""
    return lambda row: float(row.metrics.get(name) == 1.0)


def effect(mine: Rows, other: Rows, value: Value) -> Interval | None:
    """Return the paired difference mine - other of a value over matched settings within cells."""
    return difference(mine, other, value, cell_of)


def against(mine: Rows, other: Rows, read: Callable[[Rows], float | None]) -> str:
    """Format a statistic of rows relative to the reference, on settings that both have."""
    one, two = (read(rows) for rows in matched(mine, other))
    return number(None) if one is None or not two else f"{one / two:.2f}×"


def hits(rows: Rows, name: str) -> str:
    """Format the number and share of settings in which a zero-or-one metric is one."""
    if not rows:
        return number(None)
    count = sum(flag(name)(row) == 1.0 for row in rows)
    return f"{count}/{len(rows)} ({100 * count / len(rows):.1f} %)"


def recoveries(rows: Rows) -> list[str]:
    """Format the number and share of settings with each kind of recovery."""
    return [hits(rows, kind) for kind in RECOVERIES]


def _leads_after(row: Row) -> float | None:
    """Return the rounds from the injection until the new claim first leads."""
    return takeover(row.course)


def _held(row: Row) -> float | None:
    """Return the share of agents that hold the old claim at the injection."""
    return row.course.get("holders", [None])[0]


def _by_task(rows: Rows) -> dict[str, list[Row]]:
    """Return the rows of each task, plus all rows if there are several tasks."""
    tasks = dict(sorted(grouped(rows, task_of).items(), reverse=True))
    return {**tasks, _POOLED: list(rows)} if len(tasks) > 1 else tasks


def _by_cell(rows: Rows) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield (task, N, rows) for every cell, every task with several cells, and all rows."""
    for task, own in _by_task(rows).items():
        sizes = sorted({row.n for row in own})
        if task != _POOLED:
            for n in sizes:
                yield task, str(n), [row for row in own if row.n == n]
        if task == _POOLED or len(sizes) > 1:
            yield task, "all", own


def cells(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the late-counterevidence matrix by method and cell, with task and pooled rows."""
    means: dict[str, tuple[Value, int]] = {
        "latency (round-eq.)": (recovered(LATENCY), 2),
        "half new after": (HALF, 1),
        "new leads after": (_leads_after, 1),
        "stale AUC": (STALE, 2),
        "post msg./agent": (metric("post_messages"), 2),
        "challenges/agent": (since("challenge"), 2),
        "syntheses/agent": (since("synthesize"), 2),
        "injection round": (lambda row: row.course.get("injection", [None])[0], 1),
        "score": (metric("score"), 3),
    }
    body = []
    for method, called in shown(rows, recipe).items():
        for task, n, found in _by_cell(late(rows, method)):
            values = [number(mean(found, value), digits) for value, digits in means.values()]
            if task == _POOLED:  # scores of several tasks have no common unit
                values[-1] = number(None)
            body.append((called, task, n, *recoveries(found), *values))
    notes = (
        "latency over recovered settings; half new after, new leads after: rounds until half of "
        "the swarm holds a new claim, and until its share first exceeds the old one's, over "
        "settings that come to it; everything else over all settings of the line",
        f"challenges, syntheses and messages from the injection on; {AREA}",
        NEW,
        *provenance(rows, recipe),
    )
    columns = ("method", "task", "N", *RECOVERED, *means)
    return Table("Late counterevidence by cell", columns, tuple(body), notes)


def process(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate late-counterevidence outcomes by source; process metrics on recovered settings."""
    first = reference([row for row in rows if row.shock], recipe)
    base = late(rows, first)
    body = []
    for method, called in shown(rows, recipe).items():
        if own := late(rows, method):
            latency = number(mean(own, recovered(LATENCY)), 1)
            half = number(mean(own, HALF), 1)
            stale = against(own, base, lambda some: mean(some, recovered(STALE)))
            over_all = against(own, base, lambda some: macro(some, STALE, cell_of))
            traffic = number(mean(own, metric("post_messages")), 1)
            body.append((called, *recoveries(own), latency, half, stale, over_all, traffic))
    columns = (
        "decision source", *RECOVERED, "re-synthesis latency (round-eq.)", "half new after",
        "relative stale AUC", "… over all settings", "post-conflict messages/agent",
    )  # fmt: skip
    notes = (
        "latency and relative stale AUC over recovered settings; half new after: rounds until half "
        "of the swarm holds a new claim, over settings that come to it; over all settings: mean of "
        f"the cells' means; relative to {label(recipe, first)} on the settings that both have "
        "played",
        *provenance(rows, recipe),
    )
    return Table("Late-counterevidence outcomes by decision source", columns, tuple(body), notes)


def components(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the contribution of each runtime component under one law, by task and pooled."""
    called = shown(rows, recipe)
    body = []
    for method, text in called.items():
        whole = own_reference(recipe, method, list(called))
        for task, mine in _by_task(late(rows, method)).items() if whole else ():
            other = _same_tasks(late(rows, whole), mine)
            body.append((text, task, *_component(mine, other, method == whole)))
    columns = (
        "variant", "task", "recovery", "Δ recovery (pp)", "outcome recovery", "Δ outcome (pp)",
        "latency (round-eq.)", "Δ latency", "new leads after", "Δ new leads after", "stale AUC",
        "Δ stale AUC", "held the old (%)", "ten rounds on (%)",
    )  # fmt: skip
    notes = (
        "Δ: the whole runtime minus the variant on matched settings, 95 % paired bootstrap within "
        "cells, 10,000 resamples; positive Δ recovery means the component helps",
        "latency over recovered settings, its Δ over settings that both recover; new leads after: "
        "rounds until the new claim's share first exceeds the old one's, where it does",
        f"{AREA}; held the old: share of agents at the injection, and ten rounds on",
        "latency ends with the first replacement, which is one node's: an old claim that outlives "
        "the injection shows in its share ten rounds on and in when the new one leads",
        NEW,
        *provenance(rows, recipe),
    )
    return Table("Runtime components under one law", columns, tuple(body), notes)


def _same_tasks(rows: Rows, like: Rows) -> list[Row]:
    tasks = {task_of(row) for row in like}
    return [row for row in rows if task_of(row) in tasks]


def _component(mine: Rows, whole: Rows, same: bool) -> list[str]:
    """Return the cells of a variant; differences are dashes for the unchanged runtime itself."""
    line = []
    for kind in ("recovery", "outcome_recovery"):
        gain = number(None) if same else points(effect(whole, mine, flag(kind)))
        line += [hits(mine, kind), gain]
    for value in (recovered(LATENCY), _leads_after, STALE):
        gain = number(None) if same else signed(effect(whole, mine, value))
        line += [number(mean(mine, value), 2), gain]
    later = mean(mine, lambda row: remaining(row.course, _LATER))
    return [*line, percent(mean(mine, _held), 0), percent(later, 0)]


def effects(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate paired effects on reorganization: the reference minus every other method."""
    first = reference([row for row in rows if row.shock], recipe)
    called = shown(rows, recipe)
    names = [method for method in called if late(rows, method)]
    body = []
    for method in names:
        whole = own_reference(recipe, method, names)
        base = first if whole is None or whole == method else whole
        for task, mine in _by_task(late(rows, method)).items() if base != method else ():
            other = _same_tasks(late(rows, base), mine)
            body.append((f"{called[base]} − {called[method]}", task, *_effects(other, mine)))
    columns = ("contrast", "task", *(f"Δ {text} (pp)" for text in RECOVERED), "Δ latency",
               "Δ stale AUC", "Δ post msg./agent", "settings")  # fmt: skip
    notes = (
        "95 % paired bootstrap over matched settings within cells, 10,000 resamples; "
        f"Δ latency over settings that both recover; {AREA}",
        *provenance([row for row in rows if row.shock], recipe),
    )
    return Table("Paired effects on reorganization", columns, tuple(body), notes)


def _effects(mine: Rows, other: Rows) -> list[str]:
    shares = [effect(mine, other, flag(kind)) for kind in RECOVERIES]
    values = (recovered(LATENCY), STALE, metric("post_messages"))
    return [
        *map(points, shares),
        *(signed(effect(mine, other, value)) for value in values),
        "0" if shares[0] is None else str(shares[0].units),
    ]


_REASONS = ("no injection", "no holders", "too few reopened", "no replacement", "new not ahead")


def misses(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the settings that did not recover, by cell, with the conditions they missed."""
    body = []
    for method, called in shown(rows, recipe).items():
        for task, n, found in _by_cell(late(rows, method)):
            missed = [row for row in found if row.metrics.get("recovery") != 1.0]
            if missed and n != "all":
                reasons = [_reasons(row) for row in missed]
                counts = (str(sum(text in each for each in reasons)) for text in _REASONS)
                led = sum(_leads_after(row) is not None for row in missed)
                seeds = ", ".join(str(seed) for seed in sorted(row.seed for row in missed))
                body.append(
                    (called, task, n, f"{len(missed)}/{len(found)}", *counts, str(led),
                     percent(mean(missed, _held), 0), seeds)
                )  # fmt: skip
    columns = ("method", "task", "N", "missed", *_REASONS, "led once", "held the old (%)", "seeds")
    notes = (
        "recovery: at least half of those who held the old claim reopen through verified conflict, "
        "a replacement is synthesized, and the new claim ends ahead; a setting may miss several",
        "led once: the new claim was ahead in some round; held the old: mean share of agents at "
        "the injection",
        *provenance([row for row in rows if row.shock], recipe),
    )
    return Table("Settings that did not recover", columns, tuple(body), notes)


def _reasons(row: Row) -> set[str]:
    """Return the conditions of recovery that a setting missed."""
    course = row.course
    if not course:
        return {"no injection"}
    # As numbers of agents: the shares are rounded, so half of them can be short of a half.
    holders, cleared = (round(row.n * course[name][0]) for name in ("holders", "cleared"))
    found = {
        "no holders": not holders,
        "too few reopened": 2 * cleared < holders,
        "no replacement": row.metrics.get("resynthesis_latency") is None,
        "new not ahead": course["new"][-1] <= course["old"][-1],
    }
    return {text for text, missed in found.items() if missed}
