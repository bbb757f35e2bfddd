"""Tables of reorganization after late counterevidence, in the paper's layout.

"Same-Runtime Decision-Law Ablation" and "Runtime-component intervention": decision sources under
one runtime, runtime components under one law, and every cell of the matrix by itself. Recovery is
shown with event and outcome recovery beside it. Everything comes from rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import settings
from waggle.report.matrix import labels
from waggle.report.settings import effect, hits, label, macro, mean, metric, of, recovered, since
from waggle.report.tables import Table, number

ANCHORS = {"pursuit": 6.20, "foraging": 3.80}
"""The paper's frozen N = 8 scores that normalize SwarmBench."""
LATENCY, STALE = metric("resynthesis_latency"), metric("stale_auc")


def _scopes(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield (task, N, rows) for every cell, every task and all of it."""
    tasks = sorted({settings.task_of(row) for row in rows}, reverse=True)
    for task in tasks:
        own = [row for row in rows if settings.task_of(row) == task]
        sizes = sorted({row.n for row in own})
        for n in sizes:
            yield task, str(n), [row for row in own if row.n == n]
        if len(sizes) > 1:
            yield task, "all", own
    if len(tasks) > 1:
        yield settings.POOLED, "all", list(rows)


def cells(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Every cell of the late-counterevidence matrix, by method, with task and pooled lines."""
    body = []
    for method in settings.methods(rows, recipe):
        for task, n, found in _scopes(of(rows, method)):
            body.append(
                (
                    label(recipe, method), task, n,
                    *(hits(found, f"{kind}recovery") for kind in ("", "event_", "outcome_")),
                    number(mean(found, recovered(LATENCY)), 2),
                    number(mean(found, STALE), 2),
                    number(mean(found, metric("post_messages")), 2),
                    number(mean(found, since("challenge")), 2),
                    number(mean(found, since("synthesize")), 2),
                    number(mean(found, lambda row: row.course.get("injection", [None])[0]), 1),
                    number(mean(found, metric("score")), 3),
                )
            )  # fmt: skip
    columns = (
        "method", "task", "N", "recovery", "event recovery", "outcome recovery",
        "latency (round-eq.)", "stale AUC", "post msg./agent", "challenges/agent",
        "syntheses/agent", "injection round", "score",
    )  # fmt: skip
    notes = (
        "latency over recovered settings; everything else over all settings of the line",
        "challenges, syntheses and messages from the injection on",
        *labels(recipe, settings.methods(rows, recipe)),
    )
    return Table("Late counterevidence by cell", columns, tuple(body), notes)


def sources(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Decision sources under one runtime: conventional quality beside reorganization."""
    body = []
    for method in settings.methods(rows, recipe):
        plain, late = of(rows, method, shock=False), of(rows, method)
        silo = [row for row in plain if row.substrate == "silo"]
        spatial = [row for row in plain if row.task in ANCHORS and row.n == 64]
        body.append(
            (
                label(recipe, method),
                _with_interval(silo, "score"),
                number(mean(silo, metric("messages")), 2),
                _normalized(spatial),
                hits(late, "recovery"),
                number(mean(late, recovered(LATENCY)), 1),
            )
        )
    columns = (
        "decision source", "Silo success", "Silo messages/agent",
        "SwarmBench P/F N=64 normalized", "late-conflict recovery", "re-synthesis latency",
    )  # fmt: skip
    notes = (
        "brackets: 95 % bootstrap over matched settings within cells, 10,000 resamples",
        f"normalized by the paper's N=8 anchors {ANCHORS}; latency over recovered settings",
        *labels(recipe, settings.methods(rows, recipe)),
    )
    return Table("Decision sources under one runtime", columns, tuple(body), notes)


def _with_interval(rows: Sequence[Row], name: str) -> str:
    found = settings.rate(rows, metric(name))
    return (
        number(None) if found is None else f"{found.mean:.3f} [{found.low:.2f}, {found.high:.2f}]"
    )


def _normalized(rows: Sequence[Row]) -> str:
    def value(row: Row) -> float | None:
        score = row.metrics.get("score")
        return None if score is None else score / ANCHORS[row.task]

    found = settings.rate(rows, value)
    return (
        number(None) if found is None else f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
    )


def process(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Late-counterevidence outcomes of decision sources; process metrics on recovered settings."""
    names = [m for m in settings.methods(rows, recipe) if of(rows, m)]
    base = mean(of(rows, names[0]), recovered(STALE)) if names else None
    base_all = macro(of(rows, names[0]), STALE) if names else None
    body = []
    for method in names:
        late = of(rows, method)
        body.append(
            (
                label(recipe, method),
                *(hits(late, f"{kind}recovery") for kind in ("", "event_", "outcome_")),
                number(mean(late, recovered(LATENCY)), 1),
                settings.ratio(mean(late, recovered(STALE)), base),
                settings.ratio(macro(late, STALE), base_all),
                number(mean(late, metric("post_messages")), 1),
            )
        )
    columns = (
        "decision source", "recovery", "event recovery", "outcome recovery",
        "re-synthesis latency", "relative stale AUC", "… over all settings",
        "post-conflict messages/agent",
    )  # fmt: skip
    first = label(recipe, names[0]) if names else ""
    notes = (
        f"latency and relative stale AUC over recovered settings, relative to {first}",
        "over all settings: mean of the cells' means",
    )
    return Table("Late-counterevidence outcomes by decision source", columns, tuple(body), notes)


def components(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Runtime components under one law: what each of them brings, by task and pooled."""
    names = settings.methods(rows, recipe)
    body = []
    for method in names:
        whole = settings.reference(recipe, method, names)
        if whole is None:
            continue
        for task, n, mine in _scopes(of(rows, method)):
            if n != "all":
                continue
            same = {settings.task_of(row) for row in mine}
            other = [row for row in of(rows, whole) if settings.task_of(row) in same]
            body.append((label(recipe, method), task, *_component(mine, other, method == whole)))
    columns = (
        "variant", "task", "recovery", "Δ recovery (pp)", "outcome recovery", "Δ outcome (pp)",
        "latency", "Δ latency", "stale AUC", "Δ stale AUC",
    )  # fmt: skip
    notes = (
        "Δ: the whole runtime minus the variant on matched settings, 95 % paired bootstrap within "
        "cells, 10,000 resamples; positive Δ recovery means the component helps",
        "latency over recovered settings, its Δ over settings that both recover",
        *labels(recipe, names),
    )
    return Table("Runtime components under one law", columns, tuple(body), notes)


def _component(mine: Sequence[Row], whole: Sequence[Row], same: bool) -> tuple[str, ...]:
    def gain(value: settings.Value, percent: bool = False) -> str:
        if same:
            return number(None)
        found = effect(whole, mine, value)
        return settings.points(found) if percent else settings.signed(found)

    return (
        hits(mine, "recovery"),
        gain(metric("recovery"), percent=True),
        hits(mine, "outcome_recovery"),
        gain(metric("outcome_recovery"), percent=True),
        number(mean(mine, recovered(LATENCY)), 2),
        gain(recovered(LATENCY)),
        number(mean(mine, STALE), 2),
        gain(STALE),
    )


def effects(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Paired effects on reorganization: the reference minus every other method."""
    names = [m for m in settings.methods(rows, recipe) if of(rows, m)]
    body = []
    for method in names:
        whole = settings.reference(recipe, method, names)
        base = names[0] if whole in (None, method) else whole
        if base is None or base == method:
            continue
        for task, n, mine in _scopes(of(rows, method)):
            if n == "all":
                same = {settings.task_of(row) for row in mine}
                other = [row for row in of(rows, base) if settings.task_of(row) in same]
                against = f"{label(recipe, base)} − {label(recipe, method)}"
                body.append((against, task, *_effects(other, mine)))
    columns = (
        "contrast", "task", "Δ recovery (pp)", "Δ event recovery (pp)", "Δ outcome recovery (pp)",
        "Δ latency", "Δ stale AUC", "Δ post msg./agent", "settings",
    )  # fmt: skip
    notes = (
        "95 % paired bootstrap over matched settings within cells, 10,000 resamples; "
        "Δ latency over settings that both recover",
    )
    return Table("Paired effects on reorganization", columns, tuple(body), notes)


def _effects(mine: Sequence[Row], other: Sequence[Row]) -> tuple[str, ...]:
    kinds = ("recovery", "event_recovery", "outcome_recovery")
    matched = effect(mine, other, metric("recovery"))
    return (
        *(settings.points(effect(mine, other, metric(kind))) for kind in kinds),
        *(
            settings.signed(effect(mine, other, value))
            for value in (recovered(LATENCY), STALE, metric("post_messages"))
        ),
        "0" if matched is None else str(matched.units),
    )
