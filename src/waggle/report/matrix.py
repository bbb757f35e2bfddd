"""Tables of a run: scores by method and population, paired contrasts, mechanism, reorganization.

Everything comes from rows, so a report never runs a model. Methods are compared on matched units
(task, N, seed, horizon) only, and each table says how many there were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import average_ranks, paired
from waggle.report.matching import Unit, complete, unit
from waggle.report.reading import (
    family,
    labels,
    mean,
    methods_of,
    metric,
    provenance,
    reference,
)
from waggle.report.reorganization.settings import RECOVERIES
from waggle.report.tables import Table, interval, number

__all__ = ["contrasts", "family", "labels", "mechanism", "ranks", "recovery", "scores"]


def scores(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Mean score and delivered messages per agent, by method, task family and population."""
    groups = sorted({(row.substrate, family(row), row.n) for row in rows})
    cells: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row.method, family(row), row.n].append(row)
    methods = methods_of(rows, recipe)
    body = []
    for method in methods:
        line = [method]
        for _, name, n in groups:
            found = cells[method, name, n]
            score, traffic = mean(found, metric("score")), mean(found, metric("messages"))
            line.append(f"{number(score)} / {number(traffic, 2)}" if found else "—")
        body.append(tuple(line))
    columns = ("method", *(f"{name} N={n}" for _, name, n in groups))
    counts = sorted({len(cells[m, name, n]) for m in methods for _, name, n in groups})
    notes = (
        f"score / delivered messages per agent; episodes per cell: {_span(counts)}",
        *provenance(rows, recipe),
    )
    return Table("Scores", columns, tuple(body), notes)


def _span(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def contrasts(rows: Sequence[Row], recipe: Recipe, value: str = "score") -> Table:
    """Paired differences of the recipe's reference from every other method."""
    methods = methods_of(rows, recipe)
    mine = reference(rows, recipe)
    read = metric(value)
    by_method: dict[str, dict[Unit, float]] = defaultdict(dict)
    for row in rows:
        value_here = read(row)
        if value_here is not None:
            by_method[row.method][unit(row)] = value_here
    families = {unit(row): family(row) for row in rows}
    scopes = sorted({(s, row.n) for row in rows for s in (row.substrate, family(row))})
    body = []
    for other in [name for name in methods if name != mine]:
        for scope, n in scopes:
            strata: dict[str, list[float]] = defaultdict(list)
            for key, value_mine in sorted(by_method[mine].items()):
                theirs = by_method[other].get(key)
                inside = scope in (key[0], families[key]) and key[4] == n
                if inside and theirs is not None:
                    strata[key[1]].append(value_mine - theirs)
            if strata:
                found = paired(strata)
                body.append((other, scope, str(n), interval(found), str(found.units)))
    title = f"Paired differences in {value}: {mine} minus the other"
    notes = (
        "95 % paired bootstrap over matched units within tasks, 10,000 resamples",
        *provenance(rows, recipe),
    )
    return Table(title, ("against", "tasks", "N", "difference", "units"), tuple(body), notes)


def ranks(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Average rank over equally weighted (substrate, task family, N) endpoints, ties averaged."""
    groups = sorted({(family(row), row.n) for row in rows})
    found = {method: _endpoints(rows, method, groups) for method in methods_of(rows, recipe)}
    able = [method for method, values in found.items() if len(values) == len(groups)]
    table = {method: found[method] for method in complete(rows, able)}
    ranked = average_ranks(table) if table else {}
    body = tuple((m, number(r, 2)) for m, r in sorted(ranked.items(), key=lambda item: item[1]))
    notes = (
        f"{len(groups)} endpoints; methods without all of them or with fewer episodes are left out",
        *provenance(rows, recipe),
    )
    return Table("Average rank", ("method", "rank"), body, notes)


def _endpoints(rows: Sequence[Row], method: str, groups: Sequence[tuple[str, int]]) -> list[float]:
    """Return the scores that a method has of some (task family, N)."""
    cells: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row.method == method:
            cells[family(row), row.n].append(row)
    values = (mean(cells[group], metric("score")) for group in groups)
    return [value for value in values if value is not None]


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
    notes = (
        "mean ± sample s.d. per episode; the causes are suppressed writes",
        *provenance(rows, recipe),
    )
    return Table("Mechanism activity", columns, tuple(body), notes)


def recovery(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Reorganization after late counterevidence, pooled over the matched settings."""
    body = []
    for method in methods_of(rows, recipe):
        found = [row for row in rows if row.method == method and row.shock]
        if not found:
            continue
        hits = {name: sum(row.metrics.get(name) == 1.0 for row in found) for name in RECOVERIES}
        recovered = [row for row in found if row.metrics.get("recovery") == 1.0]
        body.append(
            (
                method,
                *(f"{count}/{len(found)}" for count in hits.values()),
                number(mean(recovered, metric("resynthesis_latency")), 2),
                number(mean(found, metric("stale_auc")), 2),
                number(mean(found, metric("post_messages")), 2),
            )
        )
    columns = (
        "method", "recovery", "event", "outcome", "latency (round-eq.)", "stale AUC",
        "post messages/agent",
    )  # fmt: skip
    late = [row for row in rows if row.shock]
    notes = ("latency over recovered settings", *provenance(late, recipe))
    return Table("Reorganization after late counterevidence", columns, tuple(body), notes)
