"""Credit fidelity: the correlation of a credit with the measured effect of decisions.

After a run the law samples one more batch. Some of its decisions are branched: the law samples an
alternative, and nodes whose view has changed decide again. The correlation of the run's credit with
these branches is its fidelity. Branches draw separate alternatives, so that the credit `branch` is
compared with independent branches: its fidelity is the most that other credits can reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from waggle.learn.config import Settings, training_cases
from waggle.learn.credit import advantages
from waggle.learn.luck import jobs_of
from waggle.learn.rollout import Rollouts, Weights, batch_of


def measure(
    rollouts: Rollouts, weights: Weights | None, settings: Settings, seed: int
) -> dict[str, Any]:
    """Compare the credit of a run with branches of about `settings.fidelity` decisions."""
    cases = max(settings.cases, ceil(settings.fidelity / (settings.replays * settings.probes)))
    branches = ceil(settings.fidelity / (cases * settings.replays))
    number = settings.batches  # training has not seen these cases
    drawn = training_cases(settings.model_copy(update={"cases": cases}), seed, number)
    trunk = settings.credit == "progress"
    jobs = jobs_of(drawn, settings.replays, seed, number, trunk=trunk)
    outcomes = rollouts.sample(weights, jobs, branches)
    batch = batch_of(outcomes, settings)
    credit = advantages(batch, settings.credit, settings.charge)
    branched = np.concatenate([o.branched for o in outcomes if o.branched is not None])
    known = np.isfinite(branched)
    if settings.credit in ("frozen", "branch"):
        known &= np.isfinite(batch.decisions.counterfactual)
    return {
        "correlation": correlation(credit[known], branched[known]),
        "decisions": int(known.sum()),
        "mattered": int((branched[known] != 0).sum()),
    }


def correlation(credit: Sequence[float], branches: Sequence[float]) -> float | None:
    """Return the correlation of a credit with branch advantages; None if either is constant."""
    one, two = np.asarray(credit, float), np.asarray(branches, float)
    if len(one) < 2 or one.std() == 0 or two.std() == 0:
        return None
    return float(np.corrcoef(one, two)[0, 1])
