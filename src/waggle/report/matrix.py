"""Tables of a run: scores by method and population, paired contrasts, mechanism, reorganization.

Everything comes from rows, so a report never runs a model. Methods are compared on matched units
(task, N, seed, horizon) only, and each table says how many there were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev
from typing import TypeAlias

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import average_ranks, paired
from waggle.report.tables import Table, interval, number

Value: TypeAlias = Callable[[Row], "float | None"]
Unit: TypeAlias = tuple[str, str, int, int, int]


def unit(row: Row) -> Unit:
    """Return what makes rows of two methods a matched pair."""
    return (row.substrate, row.task, row.n, row.rounds, row.seed)


def metric(name: str) -> Value:
    """Return the reader of a metric."""
    return lambda row: row.metrics.get(name)


def family(row: Row) -> str:
    """Name the column group of a row: a Silo level together, every other task on its own."""
    if row.substrate == "silo":
        return f"silo level {row.task.partition('-')[0]}"
    return row.task if row.task == row.substrate else f"{row.substrate}/{row.task}"


def _methods(rows: Iterable[Row], recipe: Recipe) -> list[str]:
    """Return the methods that have rows, in the recipe's order: the first is the reference."""
    present = {row.method for row in rows}
    return [name for name in recipe.methods if name in present]


def _mean(rows: Sequence[Row], value: Value) -> float | None:
    found = [v for row in rows if (v := value(row)) is not None]
    return fmean(found) if found else None


def scores(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Mean score and delivered messages per agent, by method, task family and population."""
    groups = sorted({(row.substrate, family(row), row.n) for row in rows})
    cells: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row.method, family(row), row.n].append(row)
    methods = _methods(rows, recipe)
    body = []
    for method in methods:
        line = [method]
        for _, name, n in groups:
            found = cells[method, name, n]
            score, traffic = _mean(found, metric("score")), _mean(found, metric("messages"))
            line.append(f"{number(score)} / {number(traffic, 2)}" if found else "—")
        body.append(tuple(line))
    columns = ("method", *(f"{name} N={n}" for _, name, n in groups))
    counts = sorted({len(cells[m, name, n]) for m in methods for _, name, n in groups})
    notes = (
        f"score / delivered messages per agent; episodes per cell: {_span(counts)}",
        *labels(recipe, methods),
    )
    return Table("Scores", columns, tuple(body), notes)


def _span(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def labels(recipe: Recipe, methods: Iterable[str]) -> tuple[str, ...]:
    """Say for every method its teacher, backbone and regime."""
    return tuple(
        f"{name}: law {spec.law}, teacher {spec.teacher}, backbone {spec.backbone}, "
        f"order {spec.order}, engine {spec.engine}"
        + (f", switches {spec.switches}" if spec.switches else "")
        + (f", perturbation {spec.perturbation}" if spec.perturbation else "")
        for name, spec in recipe.methods.items()
        if name in set(methods)
    )


def contrasts(rows: Sequence[Row], recipe: Recipe, value: str = "score") -> Table:
    """Paired differences of the recipe's first method against every other one."""
    methods = _methods(rows, recipe)
    reference, others = methods[0], methods[1:]
    read = metric(value)
    by_method: dict[str, dict[Unit, float]] = defaultdict(dict)
    for row in rows:
        value_here = read(row)
        if value_here is not None:
            by_method[row.method][unit(row)] = value_here
    families = {unit(row): family(row) for row in rows}
    scopes = sorted({(s, row.n) for row in rows for s in (row.substrate, family(row))})
    body = []
    for other in others:
        for scope, n in scopes:
            strata: dict[str, list[float]] = defaultdict(list)
            for key, mine in by_method[reference].items():
                theirs = by_method[other].get(key)
                inside = scope in (key[0], families[key]) and key[2] == n
                if inside and theirs is not None:
                    strata[key[1]].append(mine - theirs)
            if strata:
                found = paired(strata)
                body.append((other, scope, str(n), interval(found), str(found.units)))
    title = f"Paired differences in {value}: {reference} minus the other"
    notes = ("95 % paired bootstrap over matched units within tasks, 10,000 resamples",)
    return Table(title, ("against", "tasks", "N", "difference", "units"), tuple(body), notes)


def ranks(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Average rank over equally weighted (substrate, task family, N) endpoints, ties averaged."""
    methods = _methods(rows, recipe)
    groups = sorted({(family(row), row.n) for row in rows})
    table: dict[str, list[float]] = {}
    for method in methods:
        values = [
            _mean(
                [r for r in rows if r.method == method and family(r) == name and r.n == n],
                metric("score"),
            )
            for name, n in groups
        ]
        if all(v is not None for v in values):
            table[method] = [v for v in values if v is not None]
    ranked = average_ranks(table, ["higher"] * len(groups)) if table else {}
    body = tuple((m, number(r, 2)) for m, r in sorted(ranked.items(), key=lambda item: item[1]))
    notes = (f"{len(groups)} endpoints; methods without all of them are left out",)
    return Table("Average rank", ("method", "rank"), body, notes)


_MECHANISM = (
    "candidates", "executed", "recruitment", "readiness_to_commit", "reopenings", "expiries",
    "decay_mass", "explore", "executable",
)  # fmt: skip


def _spread(values: Sequence[float | None]) -> str:
    """Format a mean with the sample deviation, as the paper's mechanism tables do."""
    found = [v for v in values if v is not None]
    if not found:
        return number(None)
    deviation = stdev(found) if len(found) > 1 else 0.0
    return f"{number(fmean(found), 1)} ± {number(deviation, 1)}"


def mechanism(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Mechanism measurements and suppressions by cause, per episode."""
    prefix = "writes.suppressed."
    causes = sorted({k for row in rows for k in row.counters if k.startswith(prefix)})
    keys = sorted({(row.method, family(row), row.n) for row in rows})
    body = []
    for method, name, n in keys:
        found = [r for r in rows if (r.method, family(r), r.n) == (method, name, n)]
        measured = [_spread([metric(m)(r) for r in found]) for m in _MECHANISM]
        refreshed = _spread([r.counters.get("writes.refreshed", 0) for r in found])
        blocked = [_spread([r.counters.get(c, 0) for r in found]) for c in causes]
        body.append((method, name, str(n), *measured, refreshed, *blocked, str(len(found))))
    columns = (
        "method", "task", "N", *_MECHANISM, "refreshed",
        *(c.removeprefix(prefix) for c in causes), "episodes",
    )  # fmt: skip
    notes = ("mean ± sample s.d. per episode; the causes are suppressed writes",)
    return Table("Mechanism activity", columns, tuple(body), notes)


def recovery(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Reorganization after late counterevidence, pooled over the matched settings."""
    body = []
    for method in _methods(rows, recipe):
        found = [row for row in rows if row.method == method and row.shock]
        if not found:
            continue
        hits = {
            name: sum(row.metrics.get(name) == 1.0 for row in found)
            for name in ("recovery", "event_recovery", "outcome_recovery")
        }
        recovered = [row for row in found if row.metrics.get("recovery") == 1.0]
        body.append(
            (
                method,
                *(f"{count}/{len(found)}" for count in hits.values()),
                number(_mean(recovered, metric("resynthesis_latency")), 2),
                number(_mean(found, metric("stale_auc")), 2),
                number(_mean(found, metric("post_messages")), 2),
            )
        )
    columns = (
        "method", "recovery", "event", "outcome", "latency (round-eq.)", "stale AUC",
        "post messages/agent",
    )  # fmt: skip
    notes = ("latency over recovered settings", *labels(recipe, _methods(rows, recipe)))
    return Table("Reorganization after late counterevidence", columns, tuple(body), notes)


def inference(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Calls, tokens and how decodes became executable."""
    body = []
    stages = ("first", "normalized", "regenerated", "projected", "fallback")
    for method in _methods(rows, recipe):
        found = [row for row in rows if row.method == method and not row.error]
        total = sum(row.counters.get("updates", 0) for row in found)
        counts = [sum(row.counters.get(f"stage.{s}", 0) for row in found) for s in stages]
        body.append(
            (
                method,
                f"{total:,}",
                *(number(_mean(found, metric(m)), 1) for m in ("calls", "input_tokens")),
                number(_mean(found, metric("output_tokens")), 1),
                *(f"{count:,}" for count in counts),
            )
        )
    columns = ("method", "updates", "calls/ep.", "input tok./ep.", "output tok./ep.", *stages)
    return Table("Inference accounting", columns, tuple(body))
