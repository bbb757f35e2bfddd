"""Credit assignment: from the rewards of a batch to the advantage of every decision in it.

A credit is a function of the batch; `CREDITS` maps names to them. `group` compares episodes of one
case, which differ only in luck, as GRPO does. `share` averages that with the local reward of the
node: the world's share for it and its contacts. `progress` uses the returns from each round on
instead of the final reward alone, in replays that share their first rounds and then fork. `frozen`
and `branch` are counterfactual: replays measure the effect of single decisions. Decisions without
credit are not trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from waggle.core.errors import ConfigError
from waggle.learn.decisions import Decisions

Advantages: TypeAlias = NDArray[np.float64]
MIN_SPREAD = 1e-6
"""Standard deviation of rewards below which a group gives no credit."""
MIN_PROGRESS_SPREAD = 0.05
"""Smallest divisor of returns (a standard deviation), so that small differences stay small."""


class Batch(NamedTuple):
    """Episodes of several cases: first all replays of the first case, then those of the second."""

    decisions: Decisions
    rewards: NDArray[np.float64]
    """One per episode."""
    local_rewards: Sequence[NDArray[np.float64] | None]
    """Per episode (nodes,): the reward of each node, averaged with that of its contacts."""
    replays: int
    """Episodes per case."""
    progress: Sequence[NDArray[np.float64] | None] = ()
    """Per episode (rounds, nodes), with credit `progress`: the returns from each round on."""

    def cases(self) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """Yield for every case the slice of its episodes and the mask of their decisions."""
        episode = self.decisions.episode
        for first in range(0, len(self.rewards), self.replays):
            end = first + self.replays
            yield slice(first, end), (episode >= first) & (episode < end)

    @property
    def dead(self) -> float:
        """The share of cases whose episodes all have the same reward."""
        groups = self.rewards.reshape(-1, self.replays)
        return float(np.mean(groups.std(axis=1) < MIN_SPREAD))


def group(batch: Batch) -> Advantages:
    """Return for every decision the reward of its episode, normalised within its case."""
    groups = batch.rewards.reshape(-1, batch.replays)
    return _standardised(groups).reshape(-1)[batch.decisions.episode]


def share(batch: Batch) -> Advantages:
    """Return half of the node's local reward plus half of the episode's, both normalised.

    Raises:
        ConfigError: if no world provides shares.
    """
    if all(rewards is None for rewards in batch.local_rewards):
        raise ConfigError(
            "credit `share` needs share(node) of the world; write it, or use --credit group"
        )
    return auto(batch)


def auto(batch: Batch) -> Advantages:
    """Return the credit of `share` for cases whose episodes all have shares, else of `group`."""
    decisions, whole = batch.decisions, group(batch)
    local = whole.copy()
    for episodes, here in batch.cases():
        rewards = [each for each in batch.local_rewards[episodes] if each is not None]
        if len(rewards) < batch.replays:
            continue
        by_node = np.stack(rewards).T.copy()  # (nodes, replays); strides affect rounding
        replay = decisions.episode[here] - episodes.start
        local[here] = _standardised(by_node)[decisions.node[here], replay]
    return 0.5 * local + 0.5 * whole


def progress(batch: Batch) -> Advantages:
    """Return for every decision its node's return from this round on, minus the mean over replays.

    In the round where they fork, all replays have the same views; only the decisions differ.
    """
    decisions = batch.decisions
    advantage = np.zeros(len(decisions))
    for episodes, here in batch.cases():
        returns = [each for each in batch.progress[episodes] if each is not None]
        rounds = max(map(len, returns))
        # An episode that has ended keeps its last return. The axes are (replays, rounds, nodes).
        table = np.stack([np.pad(r, ((0, rounds - len(r)), (0, 0)), "edge") for r in returns])
        centered = table - table.mean(axis=0)
        forked = centered[np.isfinite(centered)]  # returns before the fork are NaN
        spread = float(np.sqrt(np.mean(forked**2))) if forked.size else 1.0
        replay = decisions.episode[here] - episodes.start
        own = centered[replay, decisions.round[here], decisions.node[here]]
        advantage[here] = np.nan_to_num(own) / max(spread, MIN_PROGRESS_SPREAD)
    return advantage


def counterfactual(batch: Batch) -> Advantages:
    """Return for every decision the reward lost when another one was tried in its place."""
    advantage = np.nan_to_num(batch.decisions.counterfactual.astype(np.float64))
    spread = np.sqrt(np.mean(advantage[advantage != 0] ** 2)) if advantage.any() else 0.0
    return advantage / spread if spread > MIN_SPREAD else np.zeros_like(advantage)


CREDITS: Mapping[str, Callable[[Batch], Advantages]] = {
    "auto": auto, "group": group, "share": share, "progress": progress,
    "frozen": counterfactual, "branch": counterfactual,
}  # fmt: skip


def advantages(batch: Batch, name: str, charge: float) -> Advantages:
    """Return the advantage of every decision; one that was not executable loses `charge`."""
    return CREDITS[name](batch) - charge * ~batch.decisions.legal


def sample_decisions(
    advantage: Advantages, count: int, draws: np.random.Generator
) -> tuple[NDArray[np.int64], Advantages]:
    """Draw about `count` decisions in random order, more likely the larger their |advantage|.

    Returns their indices, and the advantage of every decision divided by its probability of being
    drawn (importance sampling), so that the mean gradient is that of all decisions.
    """
    size = np.abs(advantage)
    credited = int(np.count_nonzero(size))
    chance = (size > 0).astype(np.float64)
    if credited > count:
        chance = np.minimum(1.0, count * size / size.sum())
    taken = np.flatnonzero(draws.random(len(advantage)) < chance)
    weighted = advantage / np.maximum(chance, MIN_SPREAD) * (len(taken) / max(1, credited))
    return draws.permutation(taken), weighted


def _standardised(groups: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standardise (groups, replays) within each group; a group without spread gets zeros."""
    spread = groups.std(axis=1, keepdims=True)
    centered = groups - groups.mean(axis=1, keepdims=True)
    return np.where(spread > MIN_SPREAD, centered / np.maximum(spread, MIN_SPREAD), 0.0)
