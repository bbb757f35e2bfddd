"""The policy gradient under the grammar, against plain arithmetic."""

import numpy as np
import pytest
import torch

from waggle.learn.decisions import Choice, Decisions, SampledDecision, pack
from waggle.learn.losses import Terms, lay_out_choices, log_policy, policy_terms

VOCABULARY = 12


def sampled(logprob: float) -> Decisions:
    """Two decisions: one choice among three in the second token, one free choice."""
    one = SampledDecision((1, 2), (3, 4, 5), (Choice(1, (7, 4, 9), logprob),), 0, 0, True)
    two = SampledDecision((1,), (6,), (Choice(0, (), logprob),), 1, 0, True)
    return pack([one, two], [0.0, 0.0])


def terms(
    logits: torch.Tensor, logprob: float, worth: list[float], start: bool = False,
    most: float = 9.0,
) -> Terms:  # fmt: skip
    found = sampled(logprob)
    shown = lay_out_choices(found, np.array(worth), "cpu")
    targets = torch.tensor([3, 4, 5, 6])
    before = log_policy(torch.zeros_like(logits), shown, 2.0) if start else None
    return policy_terms(logits, targets, shown, before, temperature=2.0, clip=0.2, most=most)


def gradient(term: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(term, logits)[0]


def drawn() -> torch.Tensor:
    return torch.randn(4, VOCABULARY, generator=torch.Generator().manual_seed(0))


def test_probabilities_are_those_among_the_allowed_tokens_at_the_temperature() -> None:
    logits = drawn()
    shown = lay_out_choices(sampled(0.0), np.ones(2), "cpu")
    found = log_policy(logits, shown, 2.0)
    masked = torch.log_softmax(logits[1, [7, 4, 9]].float() / 2, 0)
    assert torch.allclose(found[0], masked)
    assert torch.allclose(found[1, 0], torch.log_softmax(logits[3].float() / 2, 0)[6])
    assert shown.taken.tolist() == [1, 0]


def test_a_better_decision_becomes_more_likely_by_a_step_against_the_gradient() -> None:
    logits = drawn().requires_grad_()
    before = log_policy(logits, lay_out_choices(sampled(0.0), np.ones(2), "cpu"), 2.0).detach()
    taken = torch.stack([before[0, 1], before[1, 0]])
    found = sampled(0.0)
    found.logprobs[:] = taken.numpy()
    shown = lay_out_choices(found, np.array([1.0, -1.0]), "cpu")
    targets = torch.tensor([3, 4, 5, 6])
    there = policy_terms(logits, targets, shown, None, temperature=2.0, clip=0.2, most=9.0)
    slope = gradient(there.policy, logits)
    moved = log_policy(logits.detach() - 0.5 * slope, shown, 2.0)
    assert moved[0, 1] > before[0, 1]
    assert moved[1, 0] < before[1, 0]


def test_forced_tokens_and_tokens_that_were_not_allowed_have_no_policy_gradient() -> None:
    logits = drawn().requires_grad_()
    slope = gradient(terms(logits, -1.0, [1.0, 0.0]).policy, logits)
    touched = torch.nonzero(slope).tolist()
    assert touched == [[1, 4], [1, 7], [1, 9]]


def test_a_choice_that_has_moved_too_far_counts_no_more() -> None:
    logits = drawn().requires_grad_()
    found = terms(logits, -50.0, [1.0, 1.0])  # now far more likely than it was sampled
    assert found.clipped == 2
    assert not gradient(found.policy, logits).any()


def test_divergence_from_the_start_is_zero_at_the_start_and_positive_elsewhere() -> None:
    assert terms(
        torch.zeros(4, VOCABULARY), -1.0, [1.0, 1.0], start=True
    ).divergence == pytest.approx(0)
    found = sampled(-1.0)
    one = found.take(np.array([0]))
    shown = lay_out_choices(one, np.ones(1), "cpu")
    logits = drawn()[:3]
    start = log_policy(torch.zeros_like(logits), shown, 2.0)
    targets = torch.tensor([3, 4, 5])
    there = policy_terms(logits, targets, shown, start, temperature=2.0, clip=0.2, most=9.0)
    likely = torch.softmax(logits[1, [7, 4, 9]].float() / 2, 0)
    assert there.divergence == pytest.approx(float((likely * (likely * 3).log()).sum()), abs=1e-5)


def test_divergence_pulls_nowhere_at_the_start_and_back_from_elsewhere() -> None:
    logits = torch.zeros(4, VOCABULARY).requires_grad_()
    there = terms(logits, -1.0, [1.0, 1.0], start=True)
    assert gradient(there.divergence, logits).abs().max() < 1e-6, "of free choices neither"
    moved = torch.zeros(4, VOCABULARY)
    moved[1, 4] = moved[3, 6] = 3.0  # what was taken has become more likely
    moved.requires_grad_()
    slope = gradient(terms(moved, -1.0, [1.0, 1.0], start=True).divergence, moved)
    assert slope[1, 4] > 0 and slope[3, 6] > 0


def test_entropy_counts_up_to_a_ceiling() -> None:
    logits = drawn().requires_grad_()
    likely = torch.softmax(logits.detach()[1, [7, 4, 9]].float() / 2, 0)
    whole = float(-(likely * likely.log()).sum())
    alone = logits.detach()[3].float() / 2
    free = -float(alone.log_softmax(0)[6])
    found = terms(logits, -1.0, [1.0, 1.0]).entropy.item()
    assert found == pytest.approx(whole + free, abs=1e-5)
    capped = terms(logits, -1.0, [1.0, 1.0], most=whole / 2).entropy
    assert capped.item() == pytest.approx(whole / 2 + min(free, whole / 2), abs=1e-5)
    assert not gradient(capped, logits)[1].any(), "more of it is not rewarded"


def test_of_free_choices_entropy_and_its_gradient_are_right_on_average() -> None:
    logits = drawn()[:1].requires_grad_()
    likely = torch.softmax(logits[0] / 2, 0)
    whole = -(likely * likely.log()).sum()
    value, slope = 0.0, torch.zeros(VOCABULARY)
    for token, p in enumerate(likely.tolist()):
        one = SampledDecision((1,), (token,), (Choice(0, (), -1.0),), 0, 0, True)
        shown = lay_out_choices(pack([one], [0.0]), np.ones(1), "cpu")
        targets = torch.tensor([token])
        there = policy_terms(logits, targets, shown, None, temperature=2.0, clip=0.2, most=99.0)
        value += p * there.entropy.item()
        slope += p * gradient(there.entropy, logits)[0]
    assert value == pytest.approx(whole.item(), abs=1e-5)
    assert torch.allclose(slope, gradient(whole, logits)[0], atol=1e-6)


def test_legality_counts_forced_tokens_and_the_mass_outside_of_what_was_allowed() -> None:
    logits = drawn()
    logp = torch.log_softmax(logits.float(), 1)
    inside = logp[1, [7, 4, 9]].logsumexp(0)
    expected = -(logp[0, 3] + inside + logp[2, 5])  # the free choice is legal whatever it says
    assert terms(logits, -1.0, [1.0, 1.0]).legality == pytest.approx(float(expected), abs=1e-5)
