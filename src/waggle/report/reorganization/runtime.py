"""Tables of the runtime around reorganization: execution perturbations, parameter sensitivity.

"Delays, message loss, and temporary churn" and "Runtime-Parameter Sensitivity under a Frozen
Controller". Each method is read against its own law in the unchanged runtime.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.matching import matched, shown
from waggle.report.reading import Value, mean, metric, provenance
from waggle.report.reorganization import settings
from waggle.report.reorganization.settings import cell_of, effect, flag, macro, of, recovered, since
from waggle.report.reorganization.tables import AREA, LATENCY, STALE
from waggle.report.tables import Table, number


def relative(mine: Sequence[Row], other: Sequence[Row], value: Value) -> float | None:
    """Return a value relative to its reference in each cell, averaged over cells.

    Both are read on the settings that both have played. A cell in which the reference is zero says
    nothing about a ratio and is left out.
    """
    mine, other = matched(mine, other)
    groups: dict[str, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((mine, other)):
        for row in rows:
            groups[cell_of(row)][side].append(row)
    found = []
    for left, right in groups.values():
        above, below = mean(left, value), mean(right, value)
        if above is not None and below:
            found.append(above / below)
    return fmean(found) if found else None


def perturbations(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Execution perturbations over the matched settings, relative to the synchronous engine."""
    names = shown(rows, recipe)
    body = []
    for method, called in names.items():
        sync = settings.reference(recipe, method, list(names))
        if sync is None:
            continue
        mine, other = of(rows, method), of(rows, sync)
        lost = None if method == sync else effect(mine, other, flag("recovery"))
        body.append(
            (
                called,
                number(relative(mine, other, metric("score")), 3),
                *settings.recoveries(mine),
                settings.points(lost),
                number(mean(mine, recovered(LATENCY)), 1),
                settings.against(mine, other, lambda some: mean(some, STALE)),
                f"{number(mean(mine, since('attempted')), 1)} / "
                f"{number(mean(mine, since('delivered')), 1)}",
            )
        )
    columns = (
        "execution regime", "quality / sync", "recovery", "event recovery", "outcome recovery",
        "Δ recovery (pp)", "latency (round-eq.)", "relative stale AUC",
        "msg./agent attempted / delivered",
    )  # fmt: skip
    notes = (
        "quality relative to the synchronous engine in each cell, averaged over cells; "
        "stale AUC over all settings; latency over recovered settings; messages from the injection",
        "Δ: regime minus synchronous on matched settings, 95 % paired bootstrap within cells",
        *provenance(rows, recipe),
    )
    return Table("Execution perturbations", columns, tuple(body), notes)


def sensitivity(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Runtime parameters one at a time: quality and traffic relative to the default, recovery."""
    names = shown(rows, recipe)
    body = []
    for method, called in names.items():
        default = settings.reference(recipe, method, list(names))
        if default is None:
            continue
        base = of(rows, default, shock=False)
        plain = completed(of(rows, method, shock=False), base)
        late, before = of(rows, method), of(rows, default)
        body.append(
            (
                called,
                number(relative(plain, base, metric("score")), 3),
                number(relative(plain, base, metric("messages")), 3),
                *settings.recoveries(late),
                number(None)
                if method == default
                else settings.points(effect(late, before, flag("recovery"))),
                number(mean(late, recovered(LATENCY)), 1),
                number(mean(late, STALE), 2),
                settings.against(late, before, lambda some: macro(some, STALE)),
                str(len(plain) + len(late)),
            )
        )
    columns = (
        "configuration", "quality / default", "messages / default", "recovery", "event recovery",
        "outcome recovery", "Δ recovery (pp)", "latency (round-eq.)", "stale AUC",
        "relative stale AUC", "runs",
    )  # fmt: skip
    notes = (
        "quality and messages relative to the default within each task and population, averaged",
        "recovery and stale AUC: Pursuit with late counterevidence; Δ: configuration minus default "
        "on matched settings, 95 % paired bootstrap within cells, 10,000 resamples",
        AREA,
        "a refresh interval is Pursuit's own: those configurations share the default's other runs",
        *provenance(rows, recipe),
    )
    return Table("Runtime-parameter sensitivity", columns, tuple(body), notes)


def completed(rows: list[Row], base: Sequence[Row]) -> list[Row]:
    """Add the default's rows of cells that a configuration cannot change and so did not play."""
    played = {cell_of(row) for row in rows}
    return rows + [row for row in base if cell_of(row) not in played] if rows else rows
