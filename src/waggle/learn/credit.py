"""Credit: from the outcomes of a batch to the advantage of every decision in it.

A credit is a function of the batch; `CREDITS` names them. `group` compares episodes of one case,
which differ by luck alone, as GRPO does. `share` compares what the world shared out around the
same node in these episodes, and the whole outcome. `progress` looks at what was shared out after
every round, not at the end alone, in replays that begin alike and fork. `frozen` and `branch` take
what replays found for single decisions. Decisions that get no credit are not trained on.
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
LITTLE = 0.05
"""Spread of progress below which differences are not magnified."""


class Batch(NamedTuple):
    """Episodes of several cases, those of one case side by side."""

    decisions: Decisions
    rewards: NDArray[np.float64]
    """Of every episode."""
    near: Sequence[NDArray[np.float64] | None]
    """Of every episode: what was shared out to each node and its contacts."""
    replays: int
    """Episodes of a case."""
    progress: Sequence[NDArray[np.float64] | None] = ()
    """Of every episode, with that credit: how it went on from each round, by round and node."""

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


def progress(batch: Batch) -> Advantages:
    """Give a decision how it went on around its node, compared with replays of the same case.

    Where they fork all replays show the same views: there only what was decided differs.
    """
    found = batch.decisions
    worth = np.zeros(len(found))
    for first in range(0, len(batch.rewards), batch.replays):
        some = [way for way in batch.progress[first : first + batch.replays] if way is not None]
        rounds = max(map(len, some))
        # An episode that has ended stays as it is.
        table = np.stack([np.pad(way, ((0, rounds - len(way)), (0, 0)), "edge") for way in some])
        centered = table - table.mean(axis=0)
        forked = centered[np.isfinite(centered)]
        spread = max(float(np.sqrt(np.mean(forked**2))), LITTLE) if forked.size else 1.0
        here = (found.episode >= first) & (found.episode < first + batch.replays)
        place = found.episode[here] - first, found.round[here], found.node[here]
        worth[here] = np.nan_to_num(centered[place]) / spread
    return worth


def tried(batch: Batch) -> Advantages:
    """Give the decisions that were tried another way what the outcome lost by it."""
    worth = np.nan_to_num(batch.decisions.tried.astype(np.float64))
    spread = np.sqrt(np.mean(worth[worth != 0] ** 2)) if worth.any() else 0.0
    return worth / spread if spread > LEAST else np.zeros_like(worth)


CREDITS: Mapping[str, Callable[[Batch], Advantages]] = {
    "auto": auto,
    "group": group, "share": share, "progress": progress, "frozen": tried, "branch": tried,
}  # fmt: skip


def advantages(batch: Batch, name: str, charge: float) -> Advantages:
    """Return the advantage of every decision; one that was not executable is charged for it."""
    return CREDITS[name](batch) - charge * ~batch.decisions.legal


def drawn(
    worth: Advantages, count: int, draws: np.random.Generator
) -> tuple[NDArray[np.int64], Advantages]:
    """Draw about so many decisions in random order, the more likely the larger their advantage.

    Returns them, and the advantage of every decision divided by its chance of being drawn
    (importance sampling), so that the mean gradient is that of all decisions.
    """
    size = np.abs(worth)
    credited = int(np.count_nonzero(size))
    chance = (size > 0).astype(np.float64)
    if credited > count:
        chance = np.minimum(1.0, count * size / size.sum())
    taken = np.flatnonzero(draws.random(len(worth)) < chance)
    evened = worth / np.maximum(chance, LEAST) * (len(taken) / max(1, credited))
    return draws.permutation(taken), evened


def _compared(values: NDArray[np.float64], replays: int) -> NDArray[np.float64]:
    """Center values within their groups and scale them; a group without spread says nothing."""
    groups = values.reshape(-1, replays)
    spread = groups.std(axis=1, keepdims=True)
    centered = groups - groups.mean(axis=1, keepdims=True)
    compared: NDArray[np.float64] = np.where(
        spread > LEAST, centered / np.maximum(spread, LEAST), 0.0
    )
    return compared.reshape(-1)
