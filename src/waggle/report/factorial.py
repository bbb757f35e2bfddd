"""Tables of the four-arm factorial: the arms, their paired effects, conventional quality.

The paper's four-arm table, paired-effects table and matched conventional quality, from
`arms/ARM-SEED.json` and the closed-loop rows of a run directory (see `evaluate.factorial`):

    waggle eval recipes/reorganization/factorial.toml && waggle report runs/factorial --records

Structure columns are over all diagnosed laws of an arm. Closed-loop columns are over the laws that
have played the settings chosen by `_closed_loop`. An arm with fewer training seeds than others in
either has a dagger. The table by cell pools all episodes of an arm; there the dagger is for an arm
that lacks episodes of others. Notes explain the daggers and list missing arms and rows, which leave
gaps and never raise an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from waggle.core.modes import Mode
from waggle.evaluate.factorial import (
    ARMS,
    TRAINING_NOTES,
    Effect,
    TrainedLaw,
    arm_of,
    behavioural,
    of_arm,
    read_arms,
    structural,
)
from waggle.evaluate.plan import MethodSpec, Recipe
from waggle.evaluate.rows import Row
from waggle.report.provenance import mixed_weights, provenance
from waggle.report.reorganization import tables as reorganization
from waggle.report.rows import (
    DAGGER,
    Rows,
    Unit,
    Value,
    cell_of,
    grouped,
    macro,
    mean_and_deviation,
    metric,
    unit,
)
from waggle.report.tables import Span, Table, number

Item = TypeVar("Item")
TITLES = {
    "decision": "Decision only",
    "orbit": "+ Orbit",
    "field": "+ Field",
    "scd": "Waggle (SCD)",
}
"""Labels of the arms in tables."""
EFFECTS = "Paired effects of the SCD terms"
"""Title of the table of effects."""


class Endpoint(NamedTuple):
    """A column of the four-arm table: a result of a trained law, or a metric of its rows."""

    text: str
    key: str
    """Key in a result, with `{}` in place of the canon order, or name of a metric of a row."""
    scale: float = 1.0
    digits: int = 3
    effect: str = ""
    """Name in the table of effects; empty if it has no line there."""
    units: str = ""
    """Key of the per-unit values."""
    relative: bool = False
    """Whether the value is divided by that of Decision only of the same seed."""
    substrate: str = ""
    """The only substrate whose rows are used; all if empty."""

    def rows(self, rows: Rows) -> list[Row]:
        """Return the rows of the endpoint's substrate."""
        return [row for row in rows if self.substrate in ("", row.substrate)]

    @property
    def of_row(self) -> Value:
        """The metric's value of a row; a row without an injection counts as not recovered."""
        kind = reorganization.flag if self.key in reorganization.RECOVERIES else metric
        return kind(self.key)


_STRUCTURE = (
    Endpoint("NLL", "nll", 1.0, 4, "held-out NLL", "nll"),
    Endpoint("orbit-head acc. (%)", "train head orbit_accuracy", 100.0, 1),
    Endpoint("train-head loss, all", "train head field"),
    Endpoint("train-head loss, event", "train head field_eventful"),
    Endpoint("summary agree. (%)", "equivariance {} summary", 100.0, 1,
             "summary agreement (pp)", "summary"),
    Endpoint("exact, decoded (%)", "equivariance {} decoded_strict", 100.0, 1,
             "exact decoded equivariance (pp)", "decoded_strict"),
    Endpoint("decoded, modulo ties (%)", "equivariance {} decoded", 100.0, 1,
             "decoded equivariance modulo ties (pp)", "decoded"),
    Endpoint("exact, admitted (%)", "equivariance {} admitted_strict", 100.0, 1,
             "exact admitted equivariance (pp)", "admitted_strict"),
    Endpoint("admitted, modulo ties (%)", "equivariance {} admitted", 100.0, 1,
             "admitted equivariance modulo ties (pp)", "admitted"),
    Endpoint("probe, all (norm.)", "probe all", 1.0, 3, "frozen-probe loss, all", "probe all",
             True),
    Endpoint("probe, event (norm.)", "probe eventful", 1.0, 3, "frozen-probe loss, eventful",
             "probe eventful", True),
)  # fmt: skip
_BEHAVIOUR = (
    Endpoint("recovery (%)", "recovery", 100.0, 1, "recovery (pp)"),
    Endpoint("event recovery (%)", "event_recovery", 100.0, 1, "event recovery (pp)"),
    Endpoint("outcome recovery (%)", "outcome_recovery", 100.0, 1, "outcome recovery (pp)"),
    Endpoint("stale AUC", "stale_auc", effect="stale AUC"),
    Endpoint("post msg./agent", "post_messages", effect="post msg./agent"),
    Endpoint("Silo msg./agent", "post_messages", effect="Silo msg./agent", substrate="silo"),
    Endpoint("Silo score (%)", "score", 100.0, 1, "Silo score (pp)", substrate="silo"),
)


def tables(folder: Path, rows: Rows, recipe: Recipe) -> list[Table]:
    """Return the factorial tables of a run directory; an empty list if it has no arms."""
    found = read_arms(folder)
    others = [row for row in rows if row.shock and not arm_of(row.method)]
    rows = [row for row in rows if arm_of(row.method)]
    late, plain = ([row for row in rows if row.shock == shock] for shock in (True, False))
    pooled_late, one = by_arm(late, recipe)
    mixed = mixed_weights(late, recipe)
    notes = (*_training(found), *mixed, *provenance(pooled_late, one))
    notes += _named("not diagnosed", recipe, {each.method for each in found})
    made = [
        _noted(arms(found, late), *notes, *_not_compared(late, recipe)),
        _noted(effects(found, late), *notes, *_not_matched(late, recipe)),
        modes(found),
        _noted(
            conventional(plain),
            *mixed_weights(plain, recipe),
            *provenance(by_arm(plain, recipe)[0], one),
        ),
    ]
    if late:
        beside = {name: spec for name, spec in recipe.methods.items() if not arm_of(name)}
        one = one.model_copy(update={"methods": {**one.methods, **beside}})
        made.append(_by_cell([*pooled_late, *others], one, late, mixed))
    return [table for table in made if table.rows]


def _noted(table: Table, *notes: str) -> Table:
    return table._replace(notes=(*table.notes, *notes))


def by_arm(rows: Rows, recipe: Recipe) -> tuple[list[Row], Recipe]:
    """Rename the laws of each arm to the arm: rows and recipe as if training seeds were cases.

    Pooled rows have no weights digest, since the laws of an arm have different weights by design.
    """
    specs: dict[str, MethodSpec] = {}
    for name, spec in recipe.methods.items():
        if arm := _arm(name):
            specs.setdefault(arm, spec.model_copy(update={"label": TITLES[arm]}))
    pooled = [
        msgspec.structs.replace(row, method=arm, weights=msgspec.UNSET)
        for row in rows
        if (arm := _arm(row.method)) in specs
    ]
    ordered = {arm: specs[arm] for arm in ARMS if arm in specs}
    return pooled, recipe.model_copy(update={"methods": ordered})


def _by_cell(pooled: Rows, one: Recipe, late: Rows, mixed: Sequence[str]) -> Table:
    """Tabulate late counterevidence by arm and cell; an arm with fewer episodes has a dagger."""
    fewer = _fewer_episodes(late)
    named = {
        arm: spec.model_copy(update={"label": _titled(arm, fewer)}) if arm in ARMS else spec
        for arm, spec in one.methods.items()
    }
    cells = reorganization.cells(pooled, one.model_copy(update={"methods": named}))
    title = "Late counterevidence by arm and cell, seeds pooled"
    return cells._replace(title=title, notes=(*mixed, *fewer.notes, *cells.notes))


def _titled(arm: str, fewer: Daggers) -> str:
    return f"{TITLES[arm]} {DAGGER}" if arm in fewer.arms else TITLES[arm]


def _order(found: Sequence[TrainedLaw]) -> str:
    return found[0].order if found else "shuffled"


def _structure_in(order: str) -> list[Endpoint]:
    return [column._replace(key=column.key.format(order)) for column in _STRUCTURE]


def arms(found: Sequence[TrainedLaw], late: Rows) -> Table:
    """Tabulate the four arms: imitation, training heads, deployed structure, closed loop."""
    base, compared = of_arm(found, "decision"), _closed_loop(late)
    fewer = _fewer_seeds(found, compared)
    columns = _structure_in(_order(found))
    body = []
    for arm in ARMS:
        own = of_arm(found, arm)
        played = [rows for name, rows in sorted(compared.items()) if _arm(name) == arm]
        if own or played:
            cells = [_structure(column, own, base) for column in columns]
            cells += [_behaviour(column, played) for column in _BEHAVIOUR]
            settings = str(sum(map(len, played)))
            body.append((_titled(arm, fewer), str(len(own)), *cells, settings))
    heads = ("objective", "seeds", *(c.text for c in (*_STRUCTURE, *_BEHAVIOUR)), "settings")
    spans = (
        Span("", 2), Span("Imitation", 1), Span("Training objective", 3),
        Span("Deployed structure", 7), Span("Closed-loop reorganization", len(_BEHAVIOUR) + 1),
    )  # fmt: skip
    notes = (
        f"mean ± sample s.d. over training seeds; canon order {_order(found)}; probe losses over "
        "Decision only of the same seed; closed loop: late counterevidence, one value per seed",
        "training heads are gone at deployment: their columns are optimization diagnostics",
        "exact: complete records are equal; modulo ties: up to what nothing in a view tells apart",
        *fewer.notes,
    )
    return Table("Four-arm SCD factorial", heads, tuple(body), notes, spans)


def modes(found: Sequence[TrainedLaw]) -> Table:
    """Tabulate F1 of every mode on held-out views, its mean over modes and the exact matches."""
    keys = (*(f"f1 {each}" for each in Mode), "mode_f1", "exact", "executable")
    body = []
    for views in ("synthetic", "native"):
        for arm in ARMS:
            own = of_arm(found, arm).values()
            measured = [
                [each.values[name] for each in own if name in each.values]
                for name in (f"{views} {key}" for key in keys)
            ]
            if any(measured):
                cells = (_over_seeds(values, 100.0, 1) for values in measured)
                body.append((TITLES[arm], views, str(len(own)), *cells))
    columns = ("objective", "views", "seeds", *Mode, "macro-F1", "exact match", "executable")
    notes = (
        "per cent, free greedy decoding; mean ± sample s.d. over training seeds; F1 of the mode "
        "that a decision has, over views whose label has it or whose decision does",
    )
    return Table("Held-out decisions by mode", columns, tuple(body), notes)


def _structure(column: Endpoint, own: dict[int, TrainedLaw], base: dict[int, TrainedLaw]) -> str:
    found = []
    for seed, each in sorted(own.items()):
        value = each.values.get(column.key)
        below = base[seed].values.get(column.key) if seed in base else None
        if value is not None and column.relative:
            value = value / below if below else None
        if value is not None:
            found.append(value)
    return _over_seeds(found, column.scale, column.digits)


def _behaviour(column: Endpoint, played: Sequence[Rows]) -> str:
    """Return the mean and deviation of a metric over the laws of an arm."""
    means = (macro(column.rows(rows), column.of_row, cell_of) for rows in played)
    found = [mean for mean in means if mean is not None]
    return _over_seeds(found, column.scale, column.digits)


def _over_seeds(values: Sequence[float], scale: float, digits: int) -> str:
    text = mean_and_deviation(values, digits, scale)
    return text if len(values) > 1 else text.partition(" ±")[0]


def effects(found: Sequence[TrainedLaw], late: Rows) -> Table:
    """Tabulate the paired effects of every arm against Decision only, complete SCD first."""
    body = []
    for arm in ("scd", "orbit", "field"):
        for each in _structure_in(_order(found)):
            if each.effect:
                made = structural(found, arm, each.key, each.units, each.relative)
                body += _effect_row(arm, each, made)
        for each in _BEHAVIOUR:
            made = behavioural(each.rows(late), arm, each.of_row, cell_of)
            body += _effect_row(arm, each, made)
    seeds = max((int(line[7]) for line in body), default=0)
    columns = ("arm", "endpoint", "Decision only", "arm's value", "paired Δ", "paired 95 % CI",
               "excludes 0", "seeds", "pairs", "resampled")  # fmt: skip
    few = (
        f"only {seeds} training seeds: to draw them again cannot show how other seeds would "
        "differ; intervals are of these laws"
    )
    notes = (
        "Δ: arm minus Decision only; 10,000 hierarchical paired resamples: training seeds first, "
        "then matched views or transitions, or matched cases within task and population",
        "probe losses are divided by Decision only of the same seed",
        *([few] if 1 < seeds < 4 else []),
    )
    return Table(EFFECTS, columns, tuple(body), notes)


def outcome(made: Iterable[Table]) -> str:
    """Return what complete SCD changed, in one sentence, from the table of effects if it is there.

    The generic opening would compare every law of every training seed with all others.
    """
    body = [line for table in made if table.title == EFFECTS for line in table.rows]
    own = [[str(cell) for cell in line] for line in body if line[0] == TITLES["scd"]]
    if not own:
        return ""
    resolved = [f"{line[1]} {line[4]} {line[5]}" for line in own if line[6] == "yes"]
    rest = len(own) - len(resolved)
    found = (
        f"{'; '.join(resolved)}; no difference in {rest} others" if resolved else "no difference"
    )
    return f"{TITLES['scd']} minus {TITLES['decision']}, paired over training seeds: {found}."


def _effect_row(arm: str, endpoint: Endpoint, made: Effect | None) -> list[tuple[str, ...]]:
    if made is None:
        return []
    delta, scale, digits = made.delta, endpoint.scale, endpoint.digits
    span = f"[{scale * delta.low:+.{digits}f}, {scale * delta.high:+.{digits}f}]"
    apart = "yes" if delta.low > 0 or delta.high < 0 else "no"
    resampled = "seeds and units" if made.seeds > 1 else "units of one seed"
    if delta.single:
        span = apart = number(None)
        resampled = "nothing"
    return [
        (
            TITLES[arm], endpoint.effect, number(scale * made.base, digits),
            number(scale * made.arm, digits), f"{scale * delta.mean:+.{digits}f}", span, apart,
            str(made.seeds), str(delta.units), resampled,
        )
    ]  # fmt: skip


def conventional(plain: Rows) -> Table:
    """Tabulate quality on ordinary cases, to show what complete SCD costs without reorganization.

    By benchmark, then by task and population, for Decision only and complete SCD of the same seeds.
    """
    scopes: dict[str, list[Row]] = {}
    for substrate, own in sorted(grouped(plain, lambda row: row.substrate).items()):
        scopes[substrate] = own
        if substrate != "silo":
            scopes |= sorted(grouped(own, cell_of).items())
    body = []
    for text, own in scopes.items():
        made = behavioural(own, "scd", metric("score"), cell_of)
        if made is not None:
            delta = made.delta
            low, high = (f"{delta.low:+.3f}", f"{delta.high:+.3f}")
            if delta.single:
                low = high = number(None)
            ratio = number(made.arm / made.base if made.base else None)
            body.append(
                (text, number(made.base), number(made.arm), f"{delta.mean:+.3f}", low, high, ratio,
                 str(made.seeds), str(delta.units))
            )  # fmt: skip
    columns = ("benchmark", "Decision only quality", "SCD quality", "Δ quality", "95 % lower bound",
               "95 % upper bound", "SCD / Decision only", "seeds", "pairs")  # fmt: skip
    notes = (
        "Δ: SCD minus Decision only; 10,000 hierarchical paired resamples over training seeds, "
        "then matched cases within task and population; cells weigh equally",
    )
    return Table("Matched conventional quality", columns, tuple(body), notes)


def _training(found: Sequence[TrainedLaw]) -> list[str]:
    """Return lines that describe how the laws were trained, one per distinct setting."""
    lines = []
    for key in TRAINING_NOTES:
        texts = sorted({each.notes[key] for each in found if key in each.notes})
        lines += [f"{key} {text}" for text in texts]
    return lines


def _arm(name: str) -> str:
    """Return the arm in the name of a law; empty for other methods."""
    law = arm_of(name)
    return "" if law is None else law[0]


class Shared(NamedTuple):
    """Settings, and the laws that have played all of them."""

    settings: tuple[Unit, ...]
    laws: list[str]

    @property
    def size(self) -> tuple[int, int]:
        """Number of episodes, then of laws."""
        return len(self.settings) * len(self.laws), len(self.laws)


def _closed_loop(late: Rows) -> dict[str, list[Row]]:
    """Return the rows of the laws in the closed-loop columns, on settings that all of them have.

    The settings are those that some law has played, chosen to give the most episodes, then the most
    laws. Laws that lack any of them are left out, so that no unfinished law is compared.
    """
    played = {law: {unit(row): row for row in own}
              for law, own in grouped(late, lambda row: row.method).items()}  # fmt: skip
    choices = [
        Shared(settings, [law for law, own in played.items() if own.keys() >= set(settings)])
        for settings in sorted({tuple(sorted(own)) for own in played.values()})
    ]
    best = max(choices, key=lambda choice: choice.size, default=Shared((), []))
    return {law: [played[law][setting] for setting in best.settings] for law in best.laws}


def _planned(recipe: Recipe) -> list[str]:
    return [name for name in recipe.methods if arm_of(name)]


def _named(what: str, recipe: Recipe, present: Collection[str]) -> tuple[str, ...]:
    """Return a note that lists the planned laws that are not present, if any."""
    gone = [name for name in _planned(recipe) if name not in present]
    return (f"{what}: {', '.join(gone)}",) if gone else ()


def _not_compared(late: Rows, recipe: Recipe) -> list[str]:
    """Return notes on the laws that are not compared, and on the settings that the others share."""
    compared = _closed_loop(late)
    lines = list(_named("not in the closed-loop columns", recipe, compared))
    played = sum(row.method in compared for row in late)
    if played > sum(map(len, compared.values())):
        shown = len(next(iter(compared.values())))
        lines.append(f"closed-loop columns: the {shown} settings that all these laws have played")
    return lines


def _not_matched(late: Rows, recipe: Recipe) -> list[str]:
    """Return notes for paired effects on laws with no closed-loop rows, or fewer than others."""
    counts = {name: sum(row.method == name for row in late) for name in _planned(recipe)}
    lines = []
    if gone := [name for name, count in counts.items() if not count]:
        lines.append(f"no closed-loop rows of {', '.join(gone)}")
    if len({count for count in counts.values() if count}) > 1:
        lines.append(
            "laws have played different numbers of settings: closed-loop endpoints of an arm rest "
            "on those that it and Decision only of the same seed have, counted under pairs, and so "
            "does the value of Decision only beside it"
        )
    return lines


class Daggers(NamedTuple):
    """The arms with a dagger, and the note that explains it, if there are any."""

    arms: Collection[str]
    notes: Sequence[str]


def _fewer_seeds(found: Sequence[TrainedLaw], compared: Collection[str]) -> Daggers:
    """Mark the arms whose means are over fewer training seeds than those of others."""
    kinds = {"structure": [each.method for each in found], "closed loop": compared}
    fewer: set[str] = set()
    parts = []
    for kind, laws in kinds.items():
        seeds_of = _seeds_of(laws)
        for arm in _lacking(seeds_of):
            fewer.add(arm)
            seeds = sorted(seeds_of[arm])
            listed = ", ".join(map(str, seeds))
            parts.append(f"{TITLES[arm]} {kind}: seed{'s' if len(seeds) > 1 else ''} {listed}")
    text = "over fewer training seeds than other arms, so not to be read beside their means"
    note = f"{DAGGER} {text}: {'; '.join(parts)}; the paired effects compare the same seeds"
    return Daggers(fewer, [note] if parts else [])


def _seeds_of(laws: Iterable[str]) -> dict[str, set[int]]:
    """Return the training seeds of each arm among these laws."""
    seeds: dict[str, set[int]] = defaultdict(set)
    for name in laws:
        if law := arm_of(name):
            arm, seed = law
            seeds[arm].add(seed)
    return seeds


def _fewer_episodes(late: Rows) -> Daggers:
    """Mark the arms that lack episodes which others have, laws pooled."""
    episodes: dict[str, set[tuple[int, Unit]]] = defaultdict(set)
    for row in late:
        if law := arm_of(row.method):
            arm, seed = law
            episodes[arm].add((seed, unit(row)))
    fewer = _lacking(episodes)
    total = len(set().union(*episodes.values()))
    counts = "; ".join(f"{TITLES[arm]} {len(episodes[arm]):,} of {total:,}" for arm in fewer)
    text = "pooled over fewer episodes than other arms, so not to be read beside them"
    return Daggers(fewer, [f"{DAGGER} {text}: {counts}"] if fewer else [])


def _lacking(items: Mapping[str, set[Item]]) -> list[str]:
    """Return the arms that lack an item of another arm; absent arms are skipped."""
    every = set().union(*items.values())
    return [arm for arm in ARMS if arm in items and items[arm] != every]
