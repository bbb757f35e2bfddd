"""Tables of the runtime around reorganization: execution perturbations, parameter sensitivity.

"Delays, message loss, and temporary churn" and "Runtime-Parameter Sensitivity under a Frozen
Controller". Each method is compared with the same law in the unchanged runtime.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row, planned
from waggle.report.layout import points
from waggle.report.provenance import provenance
from waggle.report.reorganization.tables import (
    AREA,
    LATENCY,
    RECOVERED,
    STALE,
    against,
    effect,
    flag,
    late,
    own_reference,
    recovered,
    recoveries,
    since,
)
from waggle.report.rows import (
    Rows,
    Value,
    cell_of,
    grouped,
    macro,
    matched,
    mean,
    metric,
    of,
    shown,
)
from waggle.report.tables import SPLIT, Table, number


class Variant(NamedTuple):
    """Rows of a method and of its default: the same law in the unchanged runtime.

    `late` rows have late counterevidence, `plain` rows have none.
    """

    method: str
    label: str
    default: str
    late: list[Row]
    late_default: list[Row]
    plain: list[Row]
    plain_default: list[Row]

    @property
    def recovery_gain(self) -> str:
        """The paired difference in recovery; a dash for the default itself."""
        if self.method == self.default:
            return number(None)
        return points(effect(self.late, self.late_default, flag("recovery")))


def variants(rows: Rows, recipe: Recipe, *, alone: bool = False) -> Iterator[Variant]:
    """Yield every method whose law has rows in the unchanged runtime.

    With `alone`, other methods are also yielded, with themselves as the default.
    """
    names = shown(rows, recipe)
    asked: dict[str, set[str]] = defaultdict(set)
    for cell in planned(recipe, rows):
        if not (case := cell.case).shock:
            asked[cell.method].add(f"{case.substrate}/{case.task} N={case.n}")
    for method, text in names.items():
        default = own_reference(recipe, method, list(names)) or (method if alone else None)
        if default is not None:
            plain, base = (
                [row for row in of(rows, name) if not row.shock] for name in (method, default)
            )
            yield Variant(
                method, text, default, late(rows, method), late(rows, default),
                _completed(plain, base, asked[method]), base,
            )  # fmt: skip


def _completed(rows: list[Row], base: Rows, asked: set[str]) -> list[Row]:
    """Add the default's rows of cells that a configuration cannot change and so does not play.

    A planned cell without rows remains missing and is not filled from the default.
    """
    return rows + [row for row in base if cell_of(row) not in asked] if rows else rows


def relative(mine: Rows, other: Rows, value: Value) -> float | None:
    """Return a value relative to its reference in each cell, averaged over cells.

    Only settings that both have played are used. A cell whose reference is zero is left out.
    """
    mine, other = matched(mine, other)
    above, below = (
        {cell: mean(own, value) for cell, own in grouped(rows, cell_of).items()}
        for rows in (mine, other)
    )
    pairs = [(above[cell], below[cell]) for cell in above]
    found = [one / two for one, two in pairs if one is not None and two]
    return fmean(found) if found else None


def perturbations(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate execution perturbations on matched settings, relative to the synchronous engine."""
    body = []
    for each in variants(rows, recipe):
        quality = number(relative(each.late, each.late_default, metric("score")), 3)
        latency = number(mean(each.late, recovered(LATENCY)), 1)
        stale = against(each.late, each.late_default, lambda some: mean(some, STALE))
        sent = (number(mean(each.late, since(name)), 1) for name in ("attempted", "delivered"))
        line = (*recoveries(each.late), each.recovery_gain, latency, stale, SPLIT.join(sent))
        body.append((each.label, quality, *line))
    columns = (
        "execution regime", "quality / sync", *RECOVERED, "Δ recovery (pp)", "latency (round-eq.)",
        "relative stale AUC", "msg./agent attempted / delivered",
    )  # fmt: skip
    notes = (
        "quality relative to the synchronous engine in each cell, averaged over cells; "
        "stale AUC over all settings; latency over recovered settings; messages from the injection",
        "Δ: regime minus synchronous on matched settings, 95 % paired bootstrap within cells",
        *provenance(rows, recipe),
    )
    return Table("Execution perturbations", columns, tuple(body), notes)


def sensitivity(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the effect of single runtime parameters: relative quality, traffic, recovery."""
    body = [
        (
            each.label,
            number(relative(each.plain, each.plain_default, metric("score")), 3),
            number(relative(each.plain, each.plain_default, metric("messages")), 3),
            *recoveries(each.late),
            each.recovery_gain,
            number(mean(each.late, recovered(LATENCY)), 1),
            number(mean(each.late, STALE), 2),
            against(each.late, each.late_default, lambda some: macro(some, STALE, cell_of)),
            str(len(each.plain) + len(each.late)),
        )
        for each in variants(rows, recipe)
    ]
    columns = (
        "configuration", "quality / default", "messages / default", *RECOVERED, "Δ recovery (pp)",
        "latency (round-eq.)", "stale AUC", "relative stale AUC", "runs",
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
