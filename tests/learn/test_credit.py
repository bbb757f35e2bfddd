"""Credit: what every decision of a batch gets from the outcomes."""

import numpy as np
import pytest

from waggle.core.errors import ConfigError
from waggle.learn.credit import (
    Batch,
    advantages,
    counterfactual,
    group,
    progress,
    sample_decisions,
    share,
)
from waggle.learn.decisions import Choice, Decisions, SampledDecision, pack, stack


def episode(nodes: int, *, advantage: float = float("nan"), legal: bool = True) -> Decisions:
    decided = [
        SampledDecision((1, 2), (3, 4), (Choice(0, (3, 5), -0.5),), node, 0, legal)
        for node in range(nodes)
    ]
    return pack(decided, [advantage] * nodes)


def batch(rewards: list[float], local_rewards: list[np.ndarray | None] | None = None) -> Batch:
    decisions = stack([episode(2) for _ in rewards])
    return Batch(decisions, np.array(rewards), local_rewards or [None] * len(rewards), 2)


def test_episodes_of_a_case_are_compared_with_one_another_alone() -> None:
    # The second case has better outcomes throughout, which says nothing about its decisions.
    assert group(batch([0.0, 1.0, 5.0, 9.0])).tolist() == [-1, -1, 1, 1, -1, -1, 1, 1]


def test_a_case_whose_episodes_end_alike_gives_no_credit_and_counts_as_dead() -> None:
    found = batch([0.3, 0.3, 0.0, 1.0])
    assert group(found).tolist() == [0, 0, 0, 0, -1, -1, 1, 1]
    assert found.dead == 0.5


def test_a_share_credits_the_node_it_was_given_to() -> None:
    local_rewards = [np.array([0.0, 1.0]), np.array([1.0, 1.0])]
    found = share(batch([0.5, 1.0], local_rewards))
    assert found.tolist() == [-1.0, -0.5, 1.0, 0.5]  # half by the share, half by the outcome


def test_a_world_that_shares_nothing_out_is_told_so() -> None:
    with pytest.raises(ConfigError, match=r"share\(node\)"):
        share(batch([0.0, 1.0]))
    assert advantages(batch([0.0, 1.0]), "auto", 0.0).tolist() == [-1, -1, 1, 1]


@pytest.mark.parametrize("shared", [0, 1])
def test_a_case_whose_replays_are_not_all_shared_out_is_compared_as_a_whole(shared: int) -> None:
    local_rewards: list[np.ndarray | None] = [None, None]
    local_rewards[shared] = np.array([0.0, 1.0])
    found = batch(
        [0.5, 1.0, 0.5, 1.0], [*local_rewards, np.array([0.0, 1.0]), np.array([1.0, 1.0])]
    )
    assert share(found).tolist() == [-1, -1, 1, 1, -1.0, -0.5, 1.0, 0.5]


def test_what_was_tried_another_way_gets_what_the_outcome_lost_and_nothing_else_does() -> None:
    decisions = stack(
        [episode(1, advantage=0.5), episode(1, advantage=-0.5), episode(1), episode(1)]
    )
    found = counterfactual(Batch(decisions, np.zeros(4), [None] * 4, 2))
    assert found.tolist() == [1.0, -1.0, 0.0, 0.0]


def test_what_was_not_executable_is_charged() -> None:
    decisions = stack([episode(1), episode(1, legal=False)])
    found = advantages(Batch(decisions, np.array([0.0, 1.0]), [None] * 2, 2), "group", 3.0)
    assert found.tolist() == [-1.0, -2.0]  # the better episode, by an illegal decision


def test_progress_credits_by_round_and_node_from_the_fork_on() -> None:
    before = [float("nan")] * 2  # the replays of the case begin alike: nothing to compare
    ways = [np.array([before, [1.0, 0.0]]), np.array([before, [0.0, 0.0]])]
    decided = [
        SampledDecision((1,), (2,), (Choice(0, (2, 3), -0.5),), node, round, legal=True)
        for round in (0, 1)
        for node in (0, 1)
    ]
    decisions = stack([pack(decided, [float("nan")] * 4) for _ in ways])
    found = progress(Batch(decisions, np.zeros(2), [None] * 2, 2, ways))
    advantage = 0.5 / np.sqrt(0.125)
    assert found == pytest.approx([0, 0, advantage, 0, 0, 0, -advantage, 0])


def test_an_episode_that_ended_early_stays_as_it_ended() -> None:
    ways = [np.array([[1.0]]), np.array([[0.0], [1.0]])]
    decided = SampledDecision((1,), (2,), (Choice(0, (2, 3), -0.5),), 0, 1, legal=True)
    decisions = stack([pack([], []), pack([decided], [float("nan")])])
    assert progress(Batch(decisions, np.zeros(2), [None] * 2, 2, ways)).tolist() == [0.0]


def test_decisions_are_drawn_by_their_credit_and_weigh_alike_on_average() -> None:
    advantage = np.array([0.0, 4.0, -2.0, 1.0, 1.0])
    sums, counts = np.zeros(5), []
    for k in range(2_000):
        order, weighted = sample_decisions(advantage, 2, np.random.default_rng(k))
        sums[order] += weighted[order] / max(1, len(order))
        counts.append(len(order))
    assert sums[0] == 0, "what got no credit is never drawn"
    assert np.mean(counts) == pytest.approx(2, abs=0.1)
    assert sums / 2_000 == pytest.approx(advantage / 4, abs=0.06)
    order, weighted = sample_decisions(advantage, 9, np.random.default_rng(0))
    assert sorted(order) == [1, 2, 3, 4] and weighted.tolist() == advantage.tolist()
