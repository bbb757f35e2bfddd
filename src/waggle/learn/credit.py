"""Credit: from the outcomes of a batch to the advantage of every decision in it.

A credit is a function of the batch; `CREDITS` names them. `group` compares episodes of one case,
which differ by luck alone. `share` compares what the world shared out around the same node in these
episodes, and the whole outcome. `frozen` and `branch` take what replays found for single decisions.
Decisions that get no credit are not trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from waggle.core.errors import ConfigError
from waggle.learn.decisions import Decisions

Advantages: TypeAlias = NDArray[np.float64]
LEAST = 1e-6
"""Spread of outcomes below which a group says nothing."""


class Batch(NamedTuple):
    """Episodes of several cases, those of one case side by side."""

    decisions: Decisions
    rewards: NDArray[np.float64]
    """Of every episode."""
    near: Sequence[NDArray[np.float64] | None]
    """Of every episode: what was shared out to each node and its contacts."""
    replays: int
    """Episodes of a case."""

    @property
    def dead(self) -> float:
        """The share of cases whose episodes all ended alike."""
        groups = self.rewards.reshape(-1, self.replays)
        return float(np.mean(groups.std(axis=1) < LEAST))


def group(batch: Batch) -> Advantages:
    """Give every decision of an episode its outcome, compared with that of the same case."""
    return _compared(batch.rewards, batch.replays)[batch.decisions.episode]


def share(batch: Batch) -> Advantages:
    """Give a decision half of what was shared out around its node, and half of the outcome.

    Raises:
        ConfigError: where no world shares anything out.
    """
    if all(near is None for near in batch.near):
        raise ConfigError(
            "credit `share` needs share(node) of the world; write it, or use --credit group"
        )
    return auto(batch)


def auto(batch: Batch) -> Advantages:
    """Credit as `share` does in worlds that share out, and as `group` does in all others."""
    found, whole = batch.decisions, group(batch)
    local = whole.copy()
    for first in range(0, len(batch.rewards), batch.replays):
        if batch.near[first] is None:
            continue
        table = np.stack(
            [near for near in batch.near[first : first + batch.replays] if near is not None]
        )
        compared = _compared(table.T.reshape(-1), batch.replays).reshape(table.T.shape).T
        here = (found.episode >= first) & (found.episode < first + batch.replays)
        local[here] = compared[found.episode[here] - first, found.node[here]]
    return 0.5 * local + 0.5 * whole


def tried(batch: Batch) -> Advantages:
    """Give the decisions that were tried another way what the outcome lost by it."""
    worth = np.nan_to_num(batch.decisions.tried.astype(np.float64))
    spread = np.sqrt(np.mean(worth[worth != 0] ** 2)) if worth.any() else 0.0
    return worth / spread if spread > LEAST else np.zeros_like(worth)


CREDITS: Mapping[str, Callable[[Batch], Advantages]] = {
    "auto": auto,
    "group": group, "share": share, "frozen": tried, "branch": tried,
}  # fmt: skip


def advantages(batch: Batch, name: str, charge: float) -> Advantages:
    """Return the advantage of every decision; one that was not executable is charged for it."""
    return CREDITS[name](batch) - charge * ~batch.decisions.legal


def _compared(values: NDArray[np.float64], replays: int) -> NDArray[np.float64]:
    """Center values within their groups and scale them; a group without spread says nothing."""
    groups = values.reshape(-1, replays)
    spread = groups.std(axis=1, keepdims=True)
    centered = groups - groups.mean(axis=1, keepdims=True)
    compared: NDArray[np.float64] = np.where(
        spread > LEAST, centered / np.maximum(spread, LEAST), 0.0
    )
    return compared.reshape(-1)
