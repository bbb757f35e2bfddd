"""Tables of the four-arm factorial: the arms, their paired effects, conventional quality.

The paper's four-arm table, paired-effects table and matched conventional quality, from
`arms/ARM-SEED.json` and the closed-loop rows of a run directory (see `evaluate.factorial`):

    waggle eval recipes/reorganization/factorial.toml && waggle report runs/factorial --records

Invariant: arms and rows that are not there leave gaps that the notes name, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import msgspec

from waggle.evaluate.factorial import (
    ARMS,
    Effect,
    Trained,
    arm_of,
    behavioural,
    of_arm,
    read_arms,
    structural,
)
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.conventional import conventional
from waggle.report.factorial_laws import (
    TITLES,
    of_laws,
    partial,
    short,
    titled,
    told,
    undiagnosed,
    unmatched,
    unplayed,
    whole,
)
from waggle.report.matching import weighed
from waggle.report.reading import metric, provenance
from waggle.report.reorganization import tables as reorganization
from waggle.report.reorganization.settings import cell_of, macro
from waggle.report.tables import Span, Table, number

FEW = (
    "only {} training seeds: to draw them again cannot show how other seeds would differ; "
    "intervals are of these laws"
)
"""What is to be said of intervals over few training seeds."""


class Column(NamedTuple):
    """A structural column of the four-arm table."""

    text: str
    key: str
    scale: float = 1.0
    digits: int = 3
    relative: bool = False
    """Divided by Decision only of the same seed."""


def _columns(order: str) -> tuple[Column, ...]:
    return (
        Column("NLL", "nll", digits=4),
        Column("orbit-head acc. (%)", "train head orbit_accuracy", 100.0, 1),
        Column("train-head loss, all", "train head field"),
        Column("train-head loss, event", "train head field_eventful"),
        Column("summary agree. (%)", f"equivariance {order} summary", 100.0, 1),
        Column("exact, decoded (%)", f"equivariance {order} decoded", 100.0, 1),
        Column("exact, admitted (%)", f"equivariance {order} admitted", 100.0, 1),
        Column("probe, all (norm.)", "probe all", relative=True),
        Column("probe, event (norm.)", "probe eventful", relative=True),
    )


_BEHAVIOUR: tuple[tuple[str, str, float, int, str], ...] = (
    ("recovery (%)", "recovery", 100.0, 1, ""),
    ("event recovery (%)", "event_recovery", 100.0, 1, ""),
    ("outcome recovery (%)", "outcome_recovery", 100.0, 1, ""),
    ("stale AUC", "stale_auc", 1.0, 3, ""),
    ("post msg./agent", "post_messages", 1.0, 3, ""),
    ("Silo msg./agent", "post_messages", 1.0, 3, "silo"),
)
"""Closed-loop columns: heading, metric, scale, digits, substrate."""


def tables(folder: Path, rows: Sequence[Row], recipe: Recipe) -> list[Table]:
    """Return the factorial tables of a run directory; none where there are no arms."""
    found = read_arms(folder)
    rows = [row for row in rows if arm_of(row.method)]
    if not found and not rows:
        return []
    late, plain = ([row for row in rows if row.shock == shock] for shock in (True, False))
    pooled, one = by_arm(rows, recipe)
    sources = [
        (*weighed(own, recipe), *provenance([r for r in pooled if r.shock == shock], one))
        for shock, own in ((True, late), (False, plain))
    ]
    said = (*told(found), *sources[0], *undiagnosed(found, recipe))
    first, second, third = arms(found, late), effects(found, late), conventional(plain)
    made = [
        first._replace(notes=(*first.notes, *said, *unplayed(late, recipe))),
        second._replace(notes=(*second.notes, *said, *unmatched(late, recipe))),
        third._replace(notes=(*third.notes, *sources[1])),
    ]
    if late:
        made.append(_by_cell([row for row in pooled if row.shock], one, late, recipe))
    return [table for table in made if table.rows]


def _by_cell(pooled: Sequence[Row], one: Recipe, late: Sequence[Row], recipe: Recipe) -> Table:
    """Every cell of late counterevidence by arm; an arm with fewer episodes has a dagger."""
    fewer, notes = short(late)
    named = {
        arm: spec.model_copy(update={"label": titled(arm, fewer)})
        for arm, spec in one.methods.items()
    }
    cells = reorganization.cells(pooled, one.model_copy(update={"methods": named}))
    title = "Late counterevidence by arm and cell, seeds pooled"
    return cells._replace(title=title, notes=(*weighed(late, recipe), *notes, *cells.notes))


def by_arm(rows: Sequence[Row], recipe: Recipe) -> tuple[list[Row], Recipe]:
    """Give the laws of an arm one name: rows and recipe as if training seeds were cases.

    Pooled rows do not say their weights: that the laws of an arm have different ones is no mistake.
    """
    named = {name: arm_of(name) for name in recipe.methods}
    specs = {
        arm: next(recipe.methods[name] for name, own in named.items() if own and own[0] == arm)
        for arm in ARMS
        if any(own and own[0] == arm for own in named.values())
    }
    labelled = {arm: spec.model_copy(update={"label": TITLES[arm]}) for arm, spec in specs.items()}
    pooled = [
        msgspec.structs.replace(row, method=own[0], weights=msgspec.UNSET)
        for row in rows
        if (own := arm_of(row.method)) and own[0] in labelled
    ]
    return pooled, recipe.model_copy(update={"methods": labelled})


def _order(found: Sequence[Trained]) -> str:
    return found[0].order if found else "shuffled"


def arms(found: Sequence[Trained], late: Sequence[Row]) -> Table:
    """The four arms: imitation, training heads, deployed structure, closed loop."""
    columns = _columns(_order(found))
    base, played_whole = of_arm(found, "decision"), whole(late)
    fewer, lacking = partial(found, played_whole)
    body = []
    for arm in ARMS:
        own = of_arm(found, arm)
        played = of_laws(played_whole, arm)
        if own or played:
            cells = [_structure(column, own, base) for column in columns]
            cells += [_behaviour(entry, played) for entry in _BEHAVIOUR]
            counts = str(len(own)), str(sum(map(len, played)))
            body.append((titled(arm, fewer), counts[0], *cells, counts[1]))
    heads = (
        "objective", "seeds", *(c.text for c in columns), *(e[0] for e in _BEHAVIOUR), "settings",
    )  # fmt: skip
    spans = (
        Span("", 2), Span("Imitation", 1), Span("Training objective", 3),
        Span("Deployed structure", 5), Span("Closed-loop reorganization", len(_BEHAVIOUR) + 1),
    )  # fmt: skip
    notes = (
        f"mean ± sample s.d. over training seeds; canon order {_order(found)}; probe losses over "
        "Decision only of the same seed; closed loop: late counterevidence, one value per seed",
        "training heads are gone at deployment: their columns are optimization diagnostics",
        *lacking,
    )
    return Table("Four-arm SCD factorial", heads, tuple(body), notes, spans)


def _spread(values: Sequence[float], scale: float, digits: int) -> str:
    if not values:
        return number(None)
    middle = number(scale * fmean(values), digits)
    return f"{middle} ± {number(scale * stdev(values), digits)}" if len(values) > 1 else middle


def _structure(column: Column, own: dict[int, Trained], base: dict[int, Trained]) -> str:
    found = []
    for seed, each in sorted(own.items()):
        value = each.values.get(column.key)
        below = base[seed].values.get(column.key) if seed in base else None
        if value is not None and column.relative:
            value = value / below if below else None
        if value is not None:
            found.append(value)
    return _spread(found, column.scale, column.digits)


def _of(rows: Sequence[Row], substrate: str) -> list[Row]:
    return [row for row in rows if substrate in ("", row.substrate)]


def _behaviour(entry: tuple[str, str, float, int, str], played: Sequence[Sequence[Row]]) -> str:
    """Return the spread of a metric over the laws of an arm."""
    _, name, scale, digits, substrate = entry
    means = [macro(_of(rows, substrate), metric(name)) for rows in played]
    return _spread([m for m in means if m is not None], scale, digits)


_STRUCTURE = (
    ("held-out NLL", "nll", "nll", 1.0, 4, False),
    ("summary agreement (pp)", "equivariance {} summary", "summary", 100.0, 1, False),
    ("exact decoded equivariance (pp)", "equivariance {} decoded", "decoded", 100.0, 1, False),
    ("exact admitted equivariance (pp)", "equivariance {} admitted", "admitted", 100.0, 1, False),
    ("frozen-probe loss, all", "probe all", "probe all", 1.0, 3, True),
    ("frozen-probe loss, eventful", "probe eventful", "probe eventful", 1.0, 3, True),
)
"""Endpoint, key, units, scale, digits, relative to Decision only."""


def effects(found: Sequence[Trained], late: Sequence[Row]) -> Table:
    """Paired effects of every arm against Decision only, complete SCD first."""
    body = []
    for arm in ("scd", "orbit", "field"):
        for text, key, part, scale, digits, relative in _STRUCTURE:
            made = structural(found, arm, key.format(_order(found)), part, relative)
            body += _effect_row(arm, text, made, scale, digits)
        for text, name, scale, digits, substrate in _BEHAVIOUR:
            made = behavioural(_of(late, substrate), arm, metric(name), cell_of)
            body += _effect_row(arm, text.replace("(%)", "(pp)"), made, scale, digits)
    seeds = max((int(line[7]) for line in body), default=0)
    columns = ("arm", "endpoint", "Decision only", "arm's value", "paired Δ", "paired 95 % CI",
               "excludes 0", "seeds", "pairs", "resampled")  # fmt: skip
    notes = (
        "Δ: arm minus Decision only; 10,000 hierarchical paired resamples: training seeds first, "
        "then matched views or transitions, or matched cases within task and population",
        "probe losses are divided by Decision only of the same seed",
        *([FEW.format(seeds)] if 1 < seeds < 4 else []),
    )
    return Table("Paired effects of the SCD terms", columns, tuple(body), notes)


def _effect_row(
    arm: str, text: str, made: Effect | None, scale: float, digits: int
) -> list[tuple[str, ...]]:
    if made is None:
        return []
    delta = made.delta
    apart = "yes" if delta.low > 0 or delta.high < 0 else "no"
    span = f"[{scale * delta.low:+.{digits}f}, {scale * delta.high:+.{digits}f}]"
    if delta.single:
        apart = span = number(None)
    return [
        (
            TITLES[arm], text, number(scale * made.base, digits), number(scale * made.arm, digits),
            f"{scale * delta.mean:+.{digits}f}", span, apart, str(made.seeds),
            str(made.delta.units), _resampled(made),
        )
    ]  # fmt: skip


def _resampled(made: Effect) -> str:
    """Say over what the interval of an effect was drawn."""
    if made.seeds > 1:
        return "seeds and units" if made.cases else "seeds only"
    return "nothing" if made.delta.single else "units of one seed"
