"""Sampled decisions as arrays."""

import numpy as np

from waggle.learn.decisions import Choice, Decisions, SampledDecision, pack, stack

ONE = SampledDecision(
    (1, 2, 3), (7, 8, 9), (Choice(0, (7, 4), -0.1), Choice(2, (9, 5, 6), -0.2)), 0, 0, True
)
TWO = SampledDecision((1,), (8, 9), (Choice(1, (), -0.3),), 1, 2, False)


def spelled(found: Decisions, row: int) -> tuple[list[int], list[int], list[int], list[int]]:
    one = found.take(np.array([row]))
    return one.ids.tolist(), one.offsets.tolist(), one.widths.tolist(), one.allowed.tolist()


def test_taking_decisions_takes_their_tokens_and_choices_along() -> None:
    found = pack([ONE, TWO], [0.0, 1.0])
    assert spelled(found, 0) == ([1, 2, 3, 7, 8, 9], [0, 2], [2, 3], [7, 4, 9, 5, 6])
    assert spelled(found, 1) == ([1, 8, 9], [1], [0], [])
    swapped = found.take(np.array([1, 0]))
    assert spelled(swapped, 1) == spelled(found, 0)
    assert swapped.node.tolist() == [1, 0]
    assert swapped.counterfactual.tolist() == [1.0, 0.0]
    assert np.allclose(swapped.logprobs, [-0.3, -0.1, -0.2])


def test_episodes_are_numbered_in_the_order_they_are_stacked() -> None:
    found = stack([pack([ONE], [0.0]), pack([TWO, ONE], [0.0, 0.0])])
    assert found.episode.tolist() == [0, 1, 1]
    assert spelled(found, 2) == spelled(found, 0)
