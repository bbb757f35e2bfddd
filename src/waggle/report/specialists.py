"""One law for both substrates against pairs of specialists, in the paper's layout.

"Joint Law versus Substrate-Specific Specialists". A pair is deployed as two laws, `PAIR-SUBSTRATE`,
each on its own substrate, and treated as one deployment; the recipe's first method is compared with
every other. Two tolerances against the pair `oracle` were fixed before any episode was played.
"""

from __future__ import annotations

import msgspec

from waggle.evaluate import anchors
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.layout import signed
from waggle.report.provenance import mixed_weights, provenance
from waggle.report.reorganization import tables as reorganization
from waggle.report.rows import Rows, difference, macro, metric, of, shown, silo, swarmbench
from waggle.report.tables import Table, number, percent

ORACLE = "oracle"
"""The pair that had the whole budget of the joint law for each substrate."""
SILO_TOLERANCE = -0.030
"""Smallest accepted difference of the joint law from the oracle pair in Silo success."""
SWARM_TOLERANCE = 0.950
"""Smallest accepted share of the oracle pair's SwarmBench score that the joint law keeps."""
_SUCCESS = metric("score")


def _pair(method: str) -> str:
    """Return the deployment that a law belongs to."""
    return method.removesuffix("-swarmbench").removesuffix("-silo")


def deployed(rows: Rows, recipe: Recipe) -> tuple[list[Row], Recipe, list[str]]:
    """Rename the two laws of a pair to the pair: rows and recipe as if a pair were one method.

    Pooled rows have no weights digest, since the laws of a pair differ in weights; a law that was
    played with several weights is reported in the notes.
    """
    pooled = [
        msgspec.structs.replace(row, method=_pair(row.method), weights=msgspec.UNSET)
        for row in rows
    ]
    specs = {_pair(name): spec for name, spec in recipe.methods.items()}
    one = recipe.model_copy(update={"methods": specs, "reference": [next(iter(specs))]})
    return pooled, one, [*mixed_weights(rows, recipe), *provenance(pooled, one)]


def _swarm(rows: Rows) -> float | None:
    return macro(swarmbench(rows), anchors.normalized)


def _silo(rows: Rows) -> float | None:
    return macro(silo(rows), _SUCCESS)


def _share(mine: float | None, other: float | None) -> float | None:
    return mine / other if mine is not None and other else None


def main(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the deployments' scores, also as a share of the oracle pair's."""
    pooled, one, found = deployed([row for row in rows if not row.shock], recipe)
    oracle = of(pooled, ORACLE)
    laws = [_pair(name) for name in recipe.methods]
    body = []
    for name, text in shown(pooled, one).items():
        own = of(pooled, name)
        cells = [
            f"{number(read(own))} / {percent(_share(read(own), read(oracle)))}"
            for read in (_swarm, _silo)
        ]
        body.append((text, *cells, str(laws.count(name))))
    columns = ("deployment", "SwarmBench normalized / kept (%)", "Silo success / kept (%)", "laws")
    notes = ("kept: share of the oracle pair's score", anchors.describe(), *found)
    return Table("Joint law and specialists", columns, tuple(body), notes)


def effects(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the joint law minus each pair, and whether the tolerances are kept."""
    pooled, one, found = deployed([row for row in rows if not row.shock], recipe)
    names = shown(pooled, one)
    joint = of(pooled, one.reference[0])
    body = []
    for name, text in names.items():
        other = of(pooled, name)
        gap = difference(silo(joint), silo(other), _SUCCESS)
        gain = difference(swarmbench(joint), swarmbench(other), anchors.normalized)
        if name == one.reference[0] or gap is None or gain is None:
            continue
        kept = _share(_swarm(joint), _swarm(other))
        verdict = number(None)
        if name == ORACLE:
            held = gap.mean >= SILO_TOLERANCE, (kept or 0.0) >= SWARM_TOLERANCE
            verdict = ", ".join("kept" if each else "missed" for each in held)
        units = f"{gain.units} / {gap.units}"
        body.append(
            (text, f"{gain.mean:+.3f}", number(kept), signed(gap, 3), units, verdict)
        )  # fmt: skip
    columns = ("comparator", "Δ SwarmBench normalized", "joint / comparator",
               "Δ Silo success [95 %]", "units: SwarmBench / Silo",
               "tolerances: Silo, SwarmBench")  # fmt: skip
    notes = (
        "Δ: joint minus comparator; 10,000 paired resamples of seeds within Silo tasks; SwarmBench "
        "has too few units for an interval",
        f"tolerances, fixed beforehand: Silo difference at least {SILO_TOLERANCE:.3f}, SwarmBench "
        f"share at least {SWARM_TOLERANCE:.3f}; both of point estimates",
        *found,
    )
    return Table("Joint minus specialists", columns, tuple(body), notes)


def recovery(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate reorganization after late counterevidence, by deployment."""
    late = [row for row in rows if row.shock]
    pooled, one, _ = deployed(late, recipe)
    made = reorganization.process(pooled, one)
    notes = (*made.notes, *mixed_weights(late, recipe))
    return made._replace(title="Late counterevidence by deployment", notes=notes)
