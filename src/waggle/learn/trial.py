"""Trials: the current law against the starting law, paired by case, on development seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from waggle.core.protocols import Case
from waggle.evaluate.stats import Interval, paired
from waggle.learn.controls import CONTROLS, Usual, usual
from waggle.learn.rollout import Rollouts, TrialEpisode, Weights, executable

HEADLINE = "score"


class Comparison(NamedTuple):
    """The result of a trial."""

    gain: Interval
    """Gain in the headline score, with equal weights for all tasks and sizes."""
    means: dict[str, float]
    """Mean score by task and size."""
    executable: float
    """Share of decisions that were executable as decoded."""
    gains: dict[str, list[float]]
    """The gain of every case, by task and size."""
    usual: Usual
    """What the law did most often, by task."""


class Trial:
    """Cases, and the results of the starting law on them."""

    def __init__(self, rollouts: Rollouts, cases: Sequence[Case], start: Weights) -> None:
        self._rollouts, self.cases = rollouts, list(cases)
        self.start = rollouts.greedy(start, self.cases)

    def compare(self, weights: Weights) -> Comparison:
        """Play the cases with other weights and compare case by case."""
        return compared(self.start, self._rollouts.greedy(weights, self.cases))

    def compare_controls(self, weights: Weights, usual: Usual) -> dict[str, Comparison]:
        """Play the cases under every control, given what these weights usually did."""
        return {
            name: compared(self.start, self._rollouts.greedy(weights, self.cases, name, usual))
            for name in CONTROLS
        }

    def compare_sampled(self, weights: Weights) -> Comparison:
        """Play the cases sampled as in training, and compare case by case."""
        return compared(self.start, self._rollouts.sampled(weights, self.cases))


def compared(start: Sequence[TrialEpisode], now: Sequence[TrialEpisode]) -> Comparison:
    """Compare two plays of the same cases."""
    gains: dict[str, list[float]] = {}
    for before, after in zip(start, now, strict=True):
        gain = after.scores[HEADLINE] - before.scores[HEADLINE]
        gains.setdefault(stratum(after.case), []).append(gain)
    most = usual(one.taken for one in now)
    return Comparison(paired(gains), means(now), executable(now), gains, most)


def means(ended: Sequence[TrialEpisode]) -> dict[str, float]:
    """Return the mean headline score by task and size."""
    table: dict[str, list[float]] = {}
    for one in ended:
        table.setdefault(stratum(one.case), []).append(one.scores[HEADLINE])
    return {name: fmean(values) for name, values in table.items()}


def stratum(case: Case) -> str:
    """Return the stratum of a case in a comparison: its task and size."""
    return f"{case.substrate}/{case.task} n={case.n}"


def plain(found: Comparison) -> dict[str, Any]:
    """Return a comparison as plain data."""
    return {
        "gain": found.gain.mean, "low": found.gain.low, "high": found.gain.high,
        "cases": found.gain.units, "executable": found.executable, "means": found.means,
        "gains": found.gains,
    }  # fmt: skip


def comparison_of(found: Mapping[str, Any]) -> Comparison:
    """Return the comparison that `plain` wrote; what the law usually did is not kept."""
    units, strata = found["cases"], len(found["means"])
    gain = Interval(found["gain"], found["low"], found["high"], units, single=units == strata)
    return Comparison(gain, found["means"], found["executable"], found["gains"], {})
