"""Paired bootstrap intervals and average ranks (App. "Paired uncertainty").

Resampling keeps the compared methods coupled within a matched unit. The hierarchical form draws
training seeds first and matched units within their stratum second; strata weigh equally. All
training seeds play the same cases, so a resample draws its cases once for all of them. Drawing them
for each seed alone would treat what is hard for every seed as chance: too narrow an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.core.errors import ConfigError
from waggle.core.seeds import generator

RESAMPLES = 10_000
"""Bootstrap resamples of every reported interval."""
CACHED = 16_384
"""Random numbers drawn per chunk; the result does not depend on it."""
KEPT = 256
"""Maximum units of an interval whose draws (20 MB) are cached for others of its shape."""
ORDERED = 8
"""From this length on, numpy sums a row in a different order than a column."""
PAIRED = "paired bootstrap"
"""Name of the random stream of paired intervals."""

Values = Sequence[float] | NDArray[np.float64]


class Interval(NamedTuple):
    """A mean with its paired 95 % interval and its number of units."""

    mean: float
    low: float
    high: float
    units: int
    single: bool = False
    """True if no stratum has more than one unit; the interval is then meaningless."""

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low > 0.0 and not self.single

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval lies below zero."""
        return self.high < 0.0 and not self.single


def paired(
    strata: Mapping[str, Values] | Values, *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return the mean of paired differences, resampling units within their strata.

    Args:
        strata: differences of matched units, by stratum, or one list of them. Strata weigh equally.
        seed: seed of the resampling stream.
        resamples: number of resamples.
    """
    groups = strata if isinstance(strata, Mapping) else {"": strata}
    arrays = [_finite(values) for _, values in sorted(groups.items())]
    if not arrays or any(a.size == 0 for a in arrays):
        raise ConfigError("a paired interval needs at least one matched unit in every stratum")
    return _paired(tuple(a.tobytes() for a in arrays), seed, resamples)


@lru_cache(maxsize=1024)
def _paired(strata: tuple[bytes, ...], seed: int, resamples: int) -> Interval:
    """Return the interval of strata given as bytes; cached, as a report repeats its calls."""
    arrays = [np.frombuffer(values) for values in strata]
    sizes = tuple(values.size for values in arrays)
    drawn = np.zeros(resamples)
    if sum(sizes) <= KEPT:
        for values, picks in zip(arrays, _picks(sizes, seed, resamples), strict=True):
            drawn += values.take(picks).mean(axis=int(values.size >= ORDERED))
    else:
        rng = generator(seed, PAIRED)
        for values in arrays:
            drawn += _resampled_means(rng, values, resamples)
    drawn /= len(arrays)
    mean = float(np.mean([a.mean() for a in arrays]))
    return _interval(mean, drawn, arrays, seeds=1)


@lru_cache(maxsize=4)
def _picks(sizes: tuple[int, ...], seed: int, resamples: int) -> list[NDArray[np.int64]]:
    """Return the unit indices that every resample draws per stratum, independent of the values.

    A resample is a row; for short strata it is a column, which takes a quarter of the time to sum.
    """
    rng = generator(seed, PAIRED)
    drawn = (rng.integers(size, size=(resamples, size)) for size in sizes)
    return [
        picks if picks.shape[1] >= ORDERED else np.ascontiguousarray(picks.T) for picks in drawn
    ]


def ratio(
    over: Mapping[str, Values],
    under: Mapping[str, Values],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Return the ratio of two means of matched units, resampling both sides together.

    Args:
        over: values of matched units, by stratum; strata weigh equally.
        under: values of the same units in the same order, for the divisor.
        seed: seed of the resampling stream.
        resamples: number of resamples.

    Returns:
        The ratio; None if the divisor is zero in any resample.
    """
    names = sorted(over)
    above, below = ([_finite(side.get(name, ())) for name in names] for side in (over, under))
    sizes = tuple(values.size for values in above)
    if not sizes or 0 in sizes or sizes != tuple(values.size for values in below):
        raise ConfigError("a ratio needs the same matched units on both sides, one in each stratum")
    drawn = np.zeros((2, resamples))
    for one, two, picks in zip(above, below, _picks(sizes, seed, resamples), strict=True):
        drawn += [values.take(picks).mean(axis=int(one.size >= ORDERED)) for values in (one, two)]
    if not drawn[1].all():
        return None
    middle = sum(values.mean() for values in above) / sum(values.mean() for values in below)
    return _interval(float(middle), drawn[0] / drawn[1], above, seeds=1)


def hierarchical(
    strata: Mapping[str, Sequence[Values]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return the mean of paired differences over training seeds and units within strata.

    Args:
        strata: for each stratum one list of matched differences per training seed. The training
            seeds are the same in every stratum and are drawn once for all of them. Lists of equal
            length hold the same units in the same order, which are drawn once for all seeds; lists
            of an unfinished run differ in length, and each is drawn from alone.
        seed: seed of the resampling stream.
        resamples: number of resamples.
    """
    tables = [[_finite(values) for values in rows] for _, rows in sorted(strata.items())]
    counts = {len(rows) for rows in tables}
    if len(counts) != 1 or 0 in counts or any(v.size == 0 for rows in tables for v in rows):
        raise ConfigError("every stratum needs the same training seeds, each with matched units")
    seeds = counts.pop()
    rng = generator(seed, "hierarchical bootstrap")
    chosen = rng.integers(seeds, size=(resamples, seeds))
    weights = np.stack([(chosen == trained).mean(axis=1) for trained in range(seeds)], axis=1)
    drawn = np.zeros(resamples)
    for rows in tables:
        if len({values.size for values in rows}) == 1:
            drawn += _crossed_means(rng, np.stack(rows), weights)
        else:
            drawn += _nested_means(rng, rows, chosen)
    drawn /= len(tables)
    mean = float(np.mean([np.mean([v.mean() for v in rows]) for rows in tables]))
    return _interval(mean, drawn, [values for rows in tables for values in rows], seeds)


def _crossed_means(
    rng: np.random.Generator, values: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the means of resamples of (seeds, units) values, with the seeds' weights of each."""
    units = values.shape[1]
    means = np.empty(len(weights))
    part = max(1, CACHED // units)
    for start in range(0, len(weights), part):
        by_unit = weights[start : start + part] @ values
        picks = rng.integers(units, size=by_unit.shape)
        means[start : start + part] = np.take_along_axis(by_unit, picks, axis=1).mean(axis=1)
    return means


def _nested_means(
    rng: np.random.Generator, rows: Sequence[NDArray[np.float64]], chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the means of resamples that draw units for every chosen seed alone."""
    drawn = np.zeros(len(chosen))
    for slot in chosen.T:
        for trained, values in enumerate(rows):
            here = np.flatnonzero(slot == trained)
            drawn[here] += _resampled_means(rng, values, here.size) / chosen.shape[1]
    return drawn


def _resampled_means(
    rng: np.random.Generator, values: NDArray[np.float64], resamples: int
) -> NDArray[np.float64]:
    """Return the means of `resamples` resamples, drawn in chunks that fit into the CPU cache."""
    means = np.empty(resamples)
    part = max(1, CACHED // values.size)
    for start in range(0, resamples, part):
        count = min(part, resamples - start)
        picks = rng.integers(values.size, size=(count, values.size))
        means[start : start + count] = values.take(picks).mean(axis=1)
    return means


def _finite(values: Values) -> NDArray[np.float64]:
    """Return values as an array; refuse values that are not finite."""
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise ConfigError("an interval is of finite numbers; leave out what was not measured")
    return found


def _interval(
    mean: float, drawn: NDArray[np.float64], units: Sequence[NDArray[np.float64]], seeds: int
) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    sizes = [values.size for values in units]
    return Interval(mean, float(low), float(high), sum(sizes), seeds == 1 and max(sizes) == 1)


def average_ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return each method's average rank over equally weighted endpoints, ties averaged.

    Args:
        scores: for each method one value per endpoint; the highest has rank 1.
    """
    methods = sorted(scores)
    table = np.array([scores[name] for name in methods], dtype=np.float64)
    above, level = (test(table, table[:, None]).sum(axis=1) for test in (np.greater, np.equal))
    ranks = (above + (level + 1) / 2).mean(axis=1)
    return dict(zip(methods, map(float, ranks), strict=True))
