"""Matched conventional quality of the two endpoint arms of a factorial.

The paper's question whether complete SCD costs anything where nothing is reorganized: ordinary
cases, played by Decision only and complete SCD of the same training seeds. Invariant: both sides of
every number are of the same seeds and cases.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.evaluate.factorial import behavioural
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report.reading import Value, metric
from waggle.report.reorganization.settings import cell_of
from waggle.report.tables import Table, number


def conventional(plain: Sequence[Row]) -> Table:
    """Conventional quality of the two endpoint arms: by benchmark, then by task and population."""
    scopes: list[tuple[str, list[Row]]] = []
    for substrate in sorted({row.substrate for row in plain}):
        own = [row for row in plain if row.substrate == substrate]
        scopes.append((substrate, own))
        if substrate != "silo":
            cells = sorted({cell_of(row) for row in own})
            scopes += [(cell, [row for row in own if cell_of(row) == cell]) for cell in cells]
    body = []
    value: Value = metric("score")
    for text, own in scopes:
        made = behavioural(own, "scd", value, cell_of)
        if made is not None:
            ratio = number(made.arm / made.base if made.base else None)
            body.append(
                (
                    text, number(made.base), number(made.arm), f"{made.delta.mean:+.3f}",
                    *_bounds(made.delta), ratio, str(made.seeds), str(made.delta.units),
                )
            )  # fmt: skip
    columns = ("benchmark", "Decision only quality", "SCD quality", "Δ quality", "95 % lower bound",
               "95 % upper bound", "SCD / Decision only", "seeds", "pairs")  # fmt: skip
    notes = (
        "Δ: SCD minus Decision only; 10,000 hierarchical paired resamples over training seeds, "
        "then matched cases within task and population; cells weigh equally",
    )
    return Table("Matched conventional quality", columns, tuple(body), notes)


def _bounds(found: Interval) -> tuple[str, str]:
    if found.single:
        return number(None), number(None)
    return f"{found.low:+.3f}", f"{found.high:+.3f}"
