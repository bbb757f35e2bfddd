"""How decodes became executable: the share of each decoder stage, by method and substrate.

"first" is the decode as emitted; "normalized" needed its text cleaned; "regenerated" was asked for
once more with the validator's codes; "projected" and "fallback" are the runtime's own repair.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.core.record import STAGES
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.reading import provenance
from waggle.report.tables import Table


def stages(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Share of each stage over all local updates, by method and substrate."""
    present = {row.method for row in rows}
    body = []
    for method in (name for name in recipe.methods if name in present):
        own = [row for row in rows if row.method == method]
        parts = {name: [r for r in own if r.substrate == name] for name in _substrates(own)}
        body += [(method, name, *_shares(some)) for name, some in {**parts, "all": own}.items()]
    columns = ("method", "substrate", "decisions", *STAGES)
    notes = provenance(rows, recipe)
    return Table("How decodes became executable", columns, tuple(body), notes)


def _substrates(rows: Sequence[Row]) -> list[str]:
    return sorted({row.substrate for row in rows})


def _shares(rows: Sequence[Row]) -> tuple[str, ...]:
    total = sum(row.counters.get("updates", 0) for row in rows)
    counts = (sum(row.counters.get(f"stage.{s}", 0) for row in rows) for s in STAGES)
    return (f"{total:,}", *(f"{count / total:.2%}" if total else "—" for count in counts))
