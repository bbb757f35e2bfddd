"""The four-arm factorial: results of training arms, and paired effects over seeds and cases.

"Primary Factorial and Downstream Protocol". A run directory holds one file per trained law,

    arms/ARM-SEED.json      ARM one of decision, orbit, field, scd; e.g. arms/scd-3.json

and closed-loop rows whose method is the file's stem (`scd-3`). A file is what
`waggle diagnose --out` writes, a flat object of named numbers, of which these are read: `nll`,
`train head orbit_accuracy`, `train head field`, `train head field_eventful`,
`equivariance ORDER summary | decoded | admitted`, `probe all`, `probe eventful`, and `order`. The
training driver adds `nll` (held-out decision loss) and may add

    "units": {"summary": [1, 0, ...], "decoded": [...], "admitted": [...],
              "probe all": [...], "probe eventful": [...]},
    "unit names": {"views": ["s6-unresolved", ...], "transitions": [...]}

one value per held-out view or transition, and their ids. Invariant: units are paired by id, never
by place alone; arms with different ids are refused. With ids structural intervals resample seeds
and units, without them seeds alone; the tables say which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from waggle.core.errors import ConfigError
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, hierarchical

FOLDER = "arms"
ARMS = ("decision", "orbit", "field", "scd")
MAX_BYTES = 64 << 20
MAX_FILES = 1_000
_NAME = re.compile(rf"({'|'.join(ARMS)})-(\d{{1,6}})")


class Trained(NamedTuple):
    """What was measured of one trained law."""

    arm: str
    seed: int
    values: Mapping[str, float]
    units: Mapping[str, Sequence[float]]
    order: str
    names: Mapping[str, Sequence[str]] = {}
    """Ids of the `views` and `transitions` that the units were measured on."""

    @property
    def method(self) -> str:
        """The name of its closed-loop rows."""
        return f"{self.arm}-{self.seed}"

    def ids(self, unit: str) -> Sequence[str]:
        """Return what a unit was measured on; nothing where the file does not say."""
        return self.names.get("transitions" if unit.startswith("probe") else "views", ())


def read_arms(folder: Path) -> list[Trained]:
    """Return the trained laws of a run directory, by arm and seed; none where there are none.

    Raises:
        ConfigError: for a file that is not one of them.
    """
    paths = sorted((folder / FOLDER).glob("*.json"))
    if len(paths) > MAX_FILES:
        raise ConfigError(f"{folder / FOLDER} holds over {MAX_FILES:,} files; remove some")
    found = [_read(path) for path in paths]
    return sorted(found, key=lambda each: (ARMS.index(each.arm), each.seed))


def _read(path: Path) -> Trained:
    name = _NAME.fullmatch(path.stem)
    if name is None:
        raise ConfigError(f"{path} is not named ARM-SEED.json with an arm of {', '.join(ARMS)}")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is too long for the results of an arm; remove it")
        # The standard reader: what could not be measured is written as NaN.
        data = msgspec.convert(json.loads(path.read_bytes()), dict[str, Any])
        units = msgspec.convert(data.get("units", {}), dict[str, list[float]])
        names = msgspec.convert(data.get("unit names", {}), dict[str, list[str]])
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} holds no results of an arm ({error}); diagnose it again"
        ) from None
    if any(len(set(ids)) < len(ids) for ids in names.values()):
        raise ConfigError(f"{path} names a unit twice; diagnose it again")
    values = {k: float(v) for k, v in data.items() if isinstance(v, int | float) and isfinite(v)}
    return Trained(name[1], int(name[2]), values, units, str(data.get("order", "shuffled")), names)


def of_arm(found: Sequence[Trained], arm: str) -> dict[int, Trained]:
    """Return the trained laws of an arm by seed."""
    return {each.seed: each for each in found if each.arm == arm}


class Effect(NamedTuple):
    """A paired effect of an arm against Decision only."""

    base: float
    arm: float
    delta: Interval
    seeds: int
    cases: bool
    """Whether units or cases were resampled within seeds, not seeds alone."""


def structural(
    found: Sequence[Trained], arm: str, key: str, unit: str, relative: bool
) -> Effect | None:
    """Return the effect of an arm on a structural endpoint, over seeds that both arms have.

    Args:
        found: the trained laws.
        arm: the arm that is compared with Decision only.
        key: the endpoint's name in a result.
        unit: the name of its per-unit values.
        relative: divide by Decision only of the same seed, as probe losses are.

    Raises:
        ConfigError: if two arms of a seed were measured on different units.
    """  # fmt: skip
    base, other = of_arm(found, "decision"), of_arm(found, arm)
    seeds = sorted(s for s in base.keys() & other.keys() if key in base[s].values)
    seeds = [s for s in seeds if key in other[s].values]
    if not seeds:
        return None
    scale = {s: base[s].values[key] if relative else 1.0 for s in seeds}
    if not all(scale.values()):
        return None
    pairs = {s: _paired_units(base[s], other[s], unit) for s in seeds}
    whole = all(pairs.values())
    differences = [
        [(b - a) / scale[s] for a, b in pairs[s]]
        if whole
        else [(other[s].values[key] - base[s].values[key]) / scale[s]]
        for s in seeds
    ]
    return Effect(
        _mean(base[s].values[key] / scale[s] for s in seeds),
        _mean(other[s].values[key] / scale[s] for s in seeds),
        hierarchical({"": differences}), len(seeds), whole,
    )  # fmt: skip


def _paired_units(base: Trained, other: Trained, unit: str) -> list[tuple[float, float]]:
    """Return the two values of every unit, in the order of the first; none without ids."""
    one, two = base.units.get(unit, ()), other.units.get(unit, ())
    names, others = base.ids(unit), other.ids(unit)
    if not (one and two and names and others):
        return []
    if set(names) != set(others):
        raise _unlike(base, other, unit)
    if len(one) == len(names) and len(two) == len(others):
        there = dict(zip(others, two, strict=True))
        return [(value, there[name]) for name, value in zip(names, one, strict=True)]
    # A part of the named, chosen by what they are (eventful, short enough) and so alike in both.
    if len(one) != len(two) or list(names) != list(others):
        raise _unlike(base, other, unit)
    return list(zip(one, two, strict=True))


def _unlike(base: Trained, other: Trained, unit: str) -> ConfigError:
    return ConfigError(
        f"{base.method} and {other.method} were measured on different units ({unit}); "
        "diagnose both on one corpus with the same --views and --transitions"
    )


def _mean(values: Any) -> float:
    found = list(values)
    return float(sum(found) / len(found))


def behavioural(
    rows: Sequence[Row],
    found: Sequence[Trained],
    arm: str,
    value: Callable[[Row], float | None],
    cell: Callable[[Row], str],
) -> Effect | None:
    """Return the effect of an arm on closed-loop rows, over seeds, cells and matched cases.

    A cell counts where every common seed has matched cases in it, so that seeds can be resampled.
    """
    seeds = sorted(of_arm(found, "decision").keys() & of_arm(found, arm).keys())
    sides = [
        [_cases(rows, f"{side}-{seed}", value, cell) for seed in seeds]
        for side in ("decision", arm)
    ]
    cells = {name for side in sides for cases in side for name in cases}
    strata: dict[str, list[list[float]]] = {}
    means: tuple[list[float], list[float]] = ([], [])
    for name in sorted(cells):
        both = [_matched(a.get(name, {}), b.get(name, {})) for a, b in zip(*sides, strict=True)]
        if all(both):
            strata[name] = [[b - a for a, b in pairs] for pairs in both]
            for side in (0, 1):
                means[side].append(_mean(_mean(p[side] for p in pairs) for pairs in both))
    if not strata:
        return None
    return Effect(_mean(means[0]), _mean(means[1]), hierarchical(strata), len(seeds), True)


def _cases(
    rows: Sequence[Row],
    method: str,
    value: Callable[[Row], float | None],
    cell: Callable[[Row], str],
) -> dict[str, dict[int, float]]:
    cases: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.method == method and (measured := value(row)) is not None:
            cases.setdefault(cell(row), {})[row.seed] = measured
    return cases


def _matched(one: Mapping[int, float], two: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(one[seed], two[seed]) for seed in sorted(one.keys() & two.keys())]
