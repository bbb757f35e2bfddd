"""Tables of reorganization after late counterevidence, in the paper's layout.

"Same-Runtime Decision-Law Ablation" and "Runtime-component intervention": decision sources under
one runtime, runtime components under one law, and every cell of the matrix by itself. Recovery is
shown with event and outcome recovery beside it. Everything comes from rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waggle.evaluate.plan import Recipe
from waggle.evaluate.reorganization import remaining, takeover
from waggle.evaluate.rows import Row
from waggle.report.matching import label, shown
from waggle.report.reading import Value, mean, metric, provenance, reference, task_of
from waggle.report.reorganization import settings
from waggle.report.reorganization.settings import effect, flag, hits, macro, of, recovered, since
from waggle.report.tables import Table, number, percent

LATENCY, STALE = metric("resynthesis_latency"), metric("stale_auc")
AREA = "stale AUC: trace mass per agent x rounds from the injection on"
NEW = (
    "new claim: one that the counterevidence names or, where it names none as on SwarmBench, any "
    "that it does not refute: on Pursuit also of prey that come after the one that was moved"
)
_LATER = 10
"""Rounds after the injection at which the old claim's share is read once more."""


def lead(row: Row) -> float | None:
    """Return the rounds from the injection until the new claim first leads."""
    return takeover(row.course)


def held(row: Row) -> float | None:
    """Return the share of agents that held the old claim when the counterevidence came."""
    return row.course.get("holders", [None])[0]


def _scopes(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield (task, N, rows) for every cell, every task and all of it."""
    tasks = sorted({task_of(row) for row in rows}, reverse=True)
    for task in tasks:
        own = [row for row in rows if task_of(row) == task]
        sizes = sorted({row.n for row in own})
        for n in sizes:
            yield task, str(n), [row for row in own if row.n == n]
        if len(sizes) > 1:
            yield task, "all", own
    if len(tasks) > 1:
        yield settings.POOLED, "all", list(rows)


def _by_task(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield (task, rows) for every task and all of it, also where a task has one population."""
    tasks = sorted({task_of(row) for row in rows}, reverse=True)
    for task in tasks:
        yield task, [row for row in rows if task_of(row) == task]
    if len(tasks) > 1:
        yield settings.POOLED, list(rows)


def cells(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Every cell of the late-counterevidence matrix, by method, with task and pooled lines."""
    body = []
    for method, called in shown(rows, recipe).items():
        for task, n, found in _scopes(of(rows, method)):
            body.append(
                (
                    called, task, n,
                    *settings.recoveries(found),
                    number(mean(found, recovered(LATENCY)), 2),
                    number(mean(found, lead), 1),
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
        "latency (round-eq.)", "new leads after", "stale AUC", "post msg./agent",
        "challenges/agent", "syntheses/agent", "injection round", "score",
    )  # fmt: skip
    notes = (
        "latency over recovered settings; new leads after: rounds until the new claim's share "
        "first exceeds the old one's, where it does; everything else over all settings of the line",
        f"challenges, syntheses and messages from the injection on; {AREA}",
        NEW,
        *provenance(rows, recipe),
    )
    return Table("Late counterevidence by cell", columns, tuple(body), notes)


def process(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Late-counterevidence outcomes of decision sources; process metrics on recovered settings."""
    first = reference([row for row in rows if row.shock], recipe)
    base = of(rows, first)
    body = []
    for method, called in shown(rows, recipe).items():
        late = of(rows, method)
        if not late:
            continue
        body.append(
            (
                called,
                *settings.recoveries(late),
                number(mean(late, recovered(LATENCY)), 1),
                settings.against(late, base, lambda some: mean(some, recovered(STALE))),
                settings.against(late, base, lambda some: macro(some, STALE)),
                number(mean(late, metric("post_messages")), 1),
            )
        )
    columns = (
        "decision source", "recovery", "event recovery", "outcome recovery",
        "re-synthesis latency (round-eq.)", "relative stale AUC", "… over all settings",
        "post-conflict messages/agent",
    )  # fmt: skip
    notes = (
        "latency and relative stale AUC over recovered settings; over all settings: mean of the "
        f"cells' means; relative to {label(recipe, first)} on the settings that both have played",
        *provenance(rows, recipe),
    )
    return Table("Late-counterevidence outcomes by decision source", columns, tuple(body), notes)


def components(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Runtime components under one law: what each of them brings, by task and pooled."""
    called = shown(rows, recipe)
    body = []
    for method in called:
        whole = settings.reference(recipe, method, list(called))
        if whole is None:
            continue
        for task, mine in _by_task(of(rows, method)):
            same = {task_of(row) for row in mine}
            other = [row for row in of(rows, whole) if task_of(row) in same]
            body.append((called[method], task, *_component(mine, other, method == whole)))
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


def _component(mine: Sequence[Row], whole: Sequence[Row], same: bool) -> tuple[str, ...]:
    def gain(value: Value, percent: bool = False) -> str:
        if same:
            return number(None)
        found = effect(whole, mine, value)
        return settings.points(found) if percent else settings.signed(found)

    return (
        hits(mine, "recovery"),
        gain(flag("recovery"), percent=True),
        hits(mine, "outcome_recovery"),
        gain(flag("outcome_recovery"), percent=True),
        number(mean(mine, recovered(LATENCY)), 2),
        gain(recovered(LATENCY)),
        number(mean(mine, lead), 2),
        gain(lead),
        number(mean(mine, STALE), 2),
        gain(STALE),
        percent(mean(mine, held), 0),
        percent(mean(mine, lambda row: remaining(row.course, _LATER)), 0),
    )


def effects(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Paired effects on reorganization: the reference minus every other method."""
    first = reference([row for row in rows if row.shock], recipe)
    called = shown(rows, recipe)
    names = [m for m in called if of(rows, m)]
    body = []
    for method in names:
        whole = settings.reference(recipe, method, names)
        base = first if whole in (None, method) else whole
        if base is None or base == method:
            continue
        for task, mine in _by_task(of(rows, method)):
            same = {task_of(row) for row in mine}
            other = [row for row in of(rows, base) if task_of(row) in same]
            against = f"{called[base]} − {called[method]}"
            body.append((against, task, *_effects(other, mine)))
    columns = (
        "contrast", "task", "Δ recovery (pp)", "Δ event recovery (pp)", "Δ outcome recovery (pp)",
        "Δ latency", "Δ stale AUC", "Δ post msg./agent", "settings",
    )  # fmt: skip
    notes = (
        "95 % paired bootstrap over matched settings within cells, 10,000 resamples; "
        f"Δ latency over settings that both recover; {AREA}",
        *provenance([row for row in rows if row.shock], recipe),
    )
    return Table("Paired effects on reorganization", columns, tuple(body), notes)


def _effects(mine: Sequence[Row], other: Sequence[Row]) -> tuple[str, ...]:
    matched = effect(mine, other, flag("recovery"))
    return (
        *(settings.points(effect(mine, other, flag(kind))) for kind in settings.RECOVERIES),
        *(
            settings.signed(effect(mine, other, value))
            for value in (recovered(LATENCY), STALE, metric("post_messages"))
        ),
        "0" if matched is None else str(matched.units),
    )


_REASONS = ("no injection", "no holders", "too few reopened", "no replacement", "new not ahead")


def misses(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Settings that did not recover, by cell: which condition they missed."""
    body = []
    for method, called in shown(rows, recipe).items():
        for task, n, found in _scopes(of(rows, method)):
            missed = [row for row in found if row.metrics.get("recovery") != 1.0]
            if missed and n != "all":
                reasons = [_reasons(row) for row in missed]
                counts = (str(sum(text in each for each in reasons)) for text in _REASONS)
                led = sum(lead(row) is not None for row in missed)
                seeds = ", ".join(str(seed) for seed in sorted(row.seed for row in missed))
                share = f"{len(missed)}/{len(found)}"
                body.append(
                    (called, task, n, share, *counts, str(led),
                     percent(mean(missed, held), 0), seeds)
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
    """Name the conditions of recovery that a setting missed."""
    course = row.course
    if not course:
        return {"no injection"}
    holders, cleared = course["holders"][0], course["cleared"][0]
    found = {
        "no holders": not holders,
        "too few reopened": holders > 0 and 2 * cleared < holders,
        "no replacement": row.metrics.get("resynthesis_latency") is None,
        "new not ahead": course["new"][-1] <= course["old"][-1],
    }
    return {text for text, missed in found.items() if missed}
