"""The four-arm factorial: results of training arms, and paired effects over seeds and cases.

"Primary Factorial and Downstream Protocol". A run directory holds one file per trained law,

    arms/ARM-SEED.json      ARM one of decision, orbit, field, scd; e.g. arms/scd-3.json

and closed-loop rows whose method is the file's stem (`scd-3`). A file is the output of
`waggle diagnose --out`, a flat object of named numbers, of which these are read: `nll`,
`train head orbit_accuracy`, `train head field`, `train head field_eventful`,
`equivariance ORDER summary | decoded | admitted` and the last two with `_strict`, `probe all`,
`probe eventful`, `VIEWS f1 MODE` and other rates on held-out views, and `order`. The training
driver adds `nll` (held-out decision loss) and

    "units": {"summary": [1, 0, ...], "decoded": [...], "admitted": [...], "decoded_strict": [...],
              "admitted_strict": [...], "probe all": [...], "probe eventful": [...]},
    "unit names": {"views": ["s6-unresolved", ...], "transitions": [...]}

one value per held-out view or transition, and their ids; `trained by`, `warm start` and
`transitions played by` are lines that tables print. Intervals resample seeds and units. Units are
paired by id, never by position alone, and arms with different ids are refused. Missing arms,
seeds, units and rows are left out, never imputed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from waggle.core.errors import ConfigError
from waggle.evaluate.results import read_result
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, hierarchical

FOLDER = "arms"
SEARCH = "tune.json"
"""The results of `waggle tune`; a file beside the arms is printed as a table."""
ARMS = ("decision", "orbit", "field", "scd")
MAX_FILES = 1_000
TRAINING_NOTES = ("trained by", "warm start", "transitions played by")
"""Text entries of a result that tables print."""
_MOST = sys.float_info.max
_NAME = re.compile(rf"({'|'.join(ARMS)})-(\d{{1,6}})")


class TrainedLaw(NamedTuple):
    """The measurements of one trained law."""

    arm: str
    seed: int
    values: Mapping[str, float]
    units: Mapping[str, Sequence[float]]
    order: str
    names: Mapping[str, Sequence[str]] = {}
    """Ids of the `views` and `transitions` that the units were measured on."""
    notes: Mapping[str, str] = {}
    """How it was trained, keyed by `TRAINING_NOTES`."""

    @property
    def method(self) -> str:
        """The method name of its closed-loop rows."""
        return f"{self.arm}-{self.seed}"

    def ids(self, unit: str) -> Sequence[str]:
        """Return the ids of the views or transitions of a unit; empty if the file has none."""
        return self.names.get("transitions" if unit.startswith("probe") else "views", ())


def read_arms(folder: Path) -> list[TrainedLaw]:
    """Return the trained laws of a run directory by arm and seed; refuse any other file."""
    paths = sorted((folder / FOLDER).glob("*.json"))
    if len(paths) > MAX_FILES:
        raise ConfigError(f"{folder / FOLDER} holds over {MAX_FILES:,} files; remove some")
    found = [_read(path) for path in paths]
    return sorted(found, key=lambda each: (ARMS.index(each.arm), each.seed))


def _read(path: Path) -> TrainedLaw:
    name = _NAME.fullmatch(path.stem)
    if name is None:
        raise ConfigError(f"{path} is not named ARM-SEED.json with an arm of {', '.join(ARMS)}")
    data = read_result(path, "results of an arm")
    try:
        units = msgspec.convert(data.get("units", {}), dict[str, list[float]])
        names = msgspec.convert(data.get("unit names", {}), dict[str, list[str]])
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path} holds no results of an arm ({error}); diagnose it again"
        ) from None
    if any(len(set(ids)) < len(ids) for ids in names.values()):
        raise ConfigError(f"{path} names a unit twice; diagnose it again")
    values = {
        k: float(v) for k, v in data.items() if isinstance(v, int | float) and abs(v) <= _MOST
    }
    notes = {key: str(data[key])[:300] for key in TRAINING_NOTES if isinstance(data.get(key), str)}
    order = str(data.get("order", "shuffled"))
    return TrainedLaw(name[1], int(name[2]), values, units, order, names, notes)


def of_arm(found: Sequence[TrainedLaw], arm: str) -> dict[int, TrainedLaw]:
    """Return the trained laws of an arm by seed."""
    return {each.seed: each for each in found if each.arm == arm}


class Effect(NamedTuple):
    """A paired effect of an arm against Decision only."""

    base: float
    arm: float
    delta: Interval
    seeds: int


def structural(
    found: Sequence[TrainedLaw], arm: str, key: str, unit: str, relative: bool
) -> Effect | None:
    """Return the effect of an arm against Decision only, over seeds whose units both arms have.

    `key` names the endpoint in the results, `unit` its values per unit. A relative endpoint is
    divided by the value of Decision only at the same seed, as probe losses are.

    Raises:
        ConfigError: if two arms of a seed were measured on different units.
    """
    base, other = of_arm(found, "decision"), of_arm(found, arm)
    both = [
        s for s in sorted(base) if s in other and key in base[s].values and key in other[s].values
    ]
    pairs = {s: made for s in both if (made := _paired_units(base[s], other[s], unit))}
    scale = {s: base[s].values[key] if relative else 1.0 for s in pairs}
    if not pairs or not all(scale.values()):
        return None
    return Effect(
        fmean(base[s].values[key] / scale[s] for s in pairs),
        fmean(other[s].values[key] / scale[s] for s in pairs),
        hierarchical({"": [[(b - a) / scale[s] for a, b in pairs[s]] for s in pairs]}),
        len(pairs),
    )


def _paired_units(base: TrainedLaw, other: TrainedLaw, unit: str) -> list[tuple[float, float]]:
    """Return the two values of every unit, in the order of their ids; empty without ids."""
    one, two = base.units.get(unit, ()), other.units.get(unit, ())
    names, others = base.ids(unit), other.ids(unit)
    if not (one and two and names and others):
        return []
    if set(names) != set(others):
        raise _unlike(base, other, unit)
    if len(one) == len(names) and len(two) == len(others):
        there = dict(zip(others, two, strict=True))
        return [(value, there[name]) for name, value in sorted(zip(names, one, strict=True))]
    # A subset of the named units, chosen by a property (eventful, short enough): equal in both.
    if len(one) != len(two) or list(names) != list(others):
        raise _unlike(base, other, unit)
    return list(zip(one, two, strict=True))


def _unlike(base: TrainedLaw, other: TrainedLaw, unit: str) -> ConfigError:
    return ConfigError(
        f"{base.method} and {other.method} were measured on different units ({unit}); "
        "diagnose both on one corpus with the same --views and --transitions"
    )


def arm_of(method: str) -> tuple[str, int] | None:
    """Return the arm and training seed in a method's name, or None for other names."""
    name = _NAME.fullmatch(method)
    return None if name is None else (name[1], int(name[2]))


_Pairs = dict[str, list[tuple[float, float]]]
"""By cell, the values of Decision only and of the other arm on every case that both have."""


def behavioural(
    rows: Sequence[Row], arm: str, value: Callable[[Row], float | None], cell: Callable[[Row], str]
) -> Effect | None:
    """Return the effect of an arm on closed-loop rows, over seeds, cells and matched cases.

    Every seed that is used has matched cases in every cell that is used, so that seeds can be
    resampled; `_whole` chooses both if a run is unfinished.
    """
    found: dict[str, dict[int, dict[tuple[str, int], float]]] = {"decision": {}, arm: {}}
    for row in rows:
        name = arm_of(row.method)
        if name is not None and name[0] in found and (measured := value(row)) is not None:
            found[name[0]].setdefault(name[1], {})[cell(row), row.seed] = measured
    base, other = found["decision"], found[arm]
    pairs: dict[int, _Pairs] = {}
    for seed in sorted(base.keys() & other.keys()):
        pairs[seed] = {}
        for where, case in sorted(base[seed].keys() & other[seed].keys()):
            both = base[seed][where, case], other[seed][where, case]
            pairs[seed].setdefault(where, []).append(both)
    seeds, cells = _whole(pairs)
    if not cells:
        return None
    strata = {name: [[b - a for a, b in pairs[seed][name]] for seed in seeds] for name in cells}
    mean, mean_of_arm = (
        fmean(fmean(fmean(p[side] for p in pairs[seed][name]) for seed in seeds) for name in cells)
        for side in (0, 1)
    )
    return Effect(mean, mean_of_arm, hierarchical(strata), len(seeds))


def _whole(pairs: Mapping[int, _Pairs]) -> tuple[list[int], list[str]]:
    """Choose all seeds and their common cells, or all cells and the seeds that have every one."""
    some = [seed for seed, cells in pairs.items() if cells]
    every = {name for cells in pairs.values() for name in cells}
    common = {name for name in every if all(name in pairs[seed] for seed in some)}
    full = [seed for seed in some if pairs[seed].keys() == every]
    choices = ((some, sorted(common)), (full, sorted(every) if full else []))
    return max(choices, key=lambda made: sum(len(pairs[s][c]) for s in made[0] for c in made[1]))
