"""Tables for any recipe: scores, paired contrasts, plug-in metrics, mechanism, decoder stages.

A decode that is executable as emitted has the stage "first"; "normalized" needed its text cleaned;
"regenerated" was requested once more with the validator's codes; "projected" and "fallback" are
repairs by the runtime.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product

from waggle.built_in import BUILT_IN
from waggle.core.record import STAGES
from waggle.evaluate.plan import Recipe, called
from waggle.evaluate.rows import Row
from waggle.report.provenance import provenance
from waggle.report.rows import (
    SHARES,
    Rows,
    counter,
    difference,
    family,
    grouped,
    label,
    mean,
    mean_and_deviation,
    methods_of,
    metric,
    of,
    reference,
    shown,
    spread,
)
from waggle.report.tables import Table, bracketed, number

_MECHANISM = ("candidates", "executed", "recruitment", "readiness_to_commit", "reopenings",
              "expiries", "decay_mass", "explore", "executable")  # fmt: skip


def _cell(row: Row) -> tuple[str, str, int]:
    return row.method, family(row), row.n


def scores(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate mean score and delivered messages per agent, by method, task family and N."""
    scopes = sorted({(row.substrate, family(row), row.n) for row in rows})
    found = grouped(rows, _cell)
    counts: set[int] = set()
    body = []
    for method, name in shown(rows, recipe).items():
        line = [name]
        for _, tasks, n in scopes:
            own = found.get((method, tasks, n), [])
            values = mean(own, metric("score")), mean(own, metric("messages"))
            line.append(f"{number(values[0])} / {number(values[1], 2)}" if own else number(None))
            counts.add(len(own))
        body.append(tuple(line))
    least, most = min(counts, default=0), max(counts, default=0)
    episodes = str(least) if least == most else f"{least} to {most}"
    return Table(
        "Scores",
        ("method", *(f"{name} N={n}" for _, name, n in scopes)),
        tuple(body),
        (f"score / delivered messages per agent; episodes per cell: {episodes}",
         *provenance(rows, recipe)),
    )  # fmt: skip


def contrasts(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate paired differences in score of the reference from every other method."""
    mine, names = reference(rows, recipe), called(recipe, methods_of(rows, recipe))
    families = {(row.substrate, family(row)) for row in rows}
    scopes: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        scopes[family(row), row.n, row.method].append(row)
        several = sum(substrate == row.substrate for substrate, _ in families) > 1
        if several and row.substrate in SHARES:
            scopes[row.substrate, row.n, row.method].append(row)
    body = []
    for other in names:
        for scope, n in sorted({key[:2] for key in scopes}) if other != mine else ():
            own, theirs = (scopes.get((scope, n, method), []) for method in (mine, other))
            found = difference(own, theirs, metric("score"), lambda row: row.task)
            if found is not None:
                cell = bracketed(found, ".3f", "+.3f")
                body.append((names[other], scope, str(n), cell, str(found.units)))
    notes = (
        "95 % paired bootstrap over matched units within tasks, 10,000 resamples",
        *provenance(rows, recipe),
    )
    columns = ("against", "tasks", "N", "difference", "units")
    return Table(
        f"Paired differences in score: {names.get(mine, mine)} minus the other",
        columns, tuple(body), notes,
    )  # fmt: skip


def has_own_metrics(rows: Rows) -> bool:
    """Return whether rows hold a metric that is not built in."""
    return any(row.metrics.keys() - BUILT_IN["metric"].keys() for row in rows)


def own_metrics(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate plug-in metrics with intervals, and paired differences from the reference."""
    mine = reference(rows, recipe)
    names = sorted({name for row in rows for name in row.metrics} - BUILT_IN["metric"].keys())
    cells = grouped(rows, _cell)
    scopes = sorted({(family(row), row.n) for row in rows})
    body = []
    for name, (tasks, n), method in product(names, scopes, methods_of(rows, recipe)):
        own = cells.get((method, tasks, n), [])
        found = spread(own, metric(name))
        if found is None:
            continue
        gain = None
        if method != mine:
            gain = difference(own, cells.get((mine, tasks, n), []), metric(name))
        body.append(
            (name, tasks, str(n), label(recipe, method), bracketed(found, ".4g"),
             bracketed(gain, "+.3g"), str(found.units))
        )  # fmt: skip
    notes = (
        "95 % bootstrap over seeds within tasks, 10,000 resamples; differences are paired",
        *provenance(rows, recipe),
    )
    columns = ("metric", "tasks", "N", "method", "mean", f"minus {label(recipe, mine)}", "episodes")
    return Table("Own metrics", columns, tuple(body), notes)


def mechanism(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate mechanism measurements and suppressed writes by cause, per episode."""
    prefix = "writes.suppressed."
    causes = sorted({k for row in rows for k in row.counters if k.startswith(prefix)})
    values = [*map(metric, _MECHANISM), counter("writes.refreshed"), *map(counter, causes)]
    body = []
    for (method, name, n), own in sorted(grouped(rows, _cell).items(), key=lambda item: item[0]):
        cells = (mean_and_deviation(map(value, own), 1) for value in values)
        body.append((label(recipe, method), name, str(n), *cells, str(len(own))))
    columns = (
        "method", "task", "N", *_MECHANISM, "refreshed",
        *(cause.removeprefix(prefix) for cause in causes), "episodes",
    )  # fmt: skip
    notes = (
        "mean ± sample s.d. per episode; the causes are suppressed writes",
        *provenance(rows, recipe),
    )
    return Table("Mechanism activity", columns, tuple(body), notes)


def _stages(rows: Rows) -> tuple[int, list[int]]:
    """Return the number of local updates in the rows, in total and by decoder stage."""
    counts = [sum(row.counters.get(f"stage.{stage}", 0) for row in rows) for stage in STAGES]
    return sum(row.counters.get("updates", 0) for row in rows), counts


def inference(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate calls, tokens and decoder stages of every method, over all episodes."""
    body = []
    # Columns for chat endpoints only: most tables cover rules and local laws.
    more = {"failures": "failed calls/ep.", "cost": "cost/ep."}
    shown = [name for name in more if any(row.counters.get(name) for row in rows)]
    for name in methods_of(rows, recipe):
        own = of(rows, name)
        total, counts = _stages(own)
        usage = [mean(own, metric(m)) for m in ("calls", "input_tokens", "output_tokens")]
        first = f"{counts[0] / total:.2%}" if total else number(None)
        extra = {"failures": number(mean(own, counter("failures")), 1),
                 "cost": number((mean(own, counter("cost")) or 0.0) / 1e6, 4)}  # fmt: skip
        body.append(
            (label(recipe, name), f"{total:,}", *(number(value, 1) for value in usage),
             *(extra[each] for each in shown), first, *(f"{count:,}" for count in counts))
        )  # fmt: skip
    columns = ("method", "updates", "calls/ep.", "input tok./ep.", "output tok./ep.",
               *(more[each] for each in shown), "executable first", *STAGES)  # fmt: skip
    return Table("Inference accounting", columns, tuple(body), provenance(rows, recipe))


def stages(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the share of each decoder stage in all local updates, by method and substrate."""
    body = []
    for method in methods_of(rows, recipe):
        own = of(rows, method)
        parts = {name: [r for r in own if r.substrate == name]
                 for name in sorted({row.substrate for row in own})}  # fmt: skip
        for name, some in {**parts, "all": own}.items():
            total, counts = _stages(some)
            shares = (f"{count / total:.2%}" if total else number(None) for count in counts)
            body.append((method, name, f"{total:,}", *shares))
    columns = ("method", "substrate", "decisions", *STAGES)
    return Table("How decodes became executable", columns, tuple(body), provenance(rows, recipe))
