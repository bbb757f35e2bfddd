"""The loss of sampled decisions: a clipped policy gradient under the grammar.

A choice is a softmax over the tokens that were allowed; tokens that the grammar forced have
probability one and no gradient. The other terms are the divergence from the starting law, the
entropy of choices, and legality: how likely the law is to choose allowed tokens when it decodes
freely. Invariant: every term is a sum over decisions divided by their number in the update, so any
split into passes gives the gradient of the whole update.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from waggle.learn.decisions import Decisions
from waggle.scd.forward.ragged import to_device


class Choices(NamedTuple):
    """The choices of a pass, on the device."""

    row: Tensor
    """Index of each choice among the predicted tokens of the pass."""
    allowed: Tensor
    """(choices, width) allowed tokens, padded with the taken token."""
    real: Tensor
    """(choices, width): False for padding."""
    taken: Tensor
    """Column of the token that was taken."""
    sampled: Tensor
    """Log-probability it was sampled with."""
    advantage: Tensor
    free: Tensor
    """Whether all tokens were allowed; the only real column is then the taken token."""
    token: Tensor
    """The token that was taken."""


class Terms(NamedTuple):
    """Sums over the choices of a pass; for a free choice only the taken token counts."""

    policy: Tensor
    divergence: Tensor
    """For a free choice half the squared log-ratio, which has the divergence's mean gradient."""
    entropy: Tensor
    """For a free choice minus the log-probability, whose mean is the entropy, with a gradient whose
    mean is that of the entropy."""
    legality: Tensor
    clipped: Tensor
    """Number of choices without policy gradient because their ratio was clipped."""


def lay_out_choices(found: Decisions, advantage: NDArray[np.float64], device: str) -> Choices:
    """Copy the choices of these decisions to the device."""
    answers = found.lengths - found.prompts
    first = np.repeat(np.cumsum(answers) - answers, found.choices)
    starts = np.repeat(np.cumsum(found.lengths) - found.lengths + found.prompts, found.choices)
    tokens = found.ids[starts + found.offsets].astype(np.int64)
    widths = np.maximum(found.widths, 1)
    allowed = np.repeat(tokens[:, None], int(widths.max(initial=1)), axis=1)
    columns = np.arange(allowed.shape[1])
    inside = columns < found.widths[:, None]
    allowed[inside] = found.allowed
    real = columns < widths[:, None]
    return Choices(
        to_device(first + found.offsets, device), to_device(allowed, device),
        to_device(real, device), to_device((allowed == tokens[:, None]).argmax(1), device),
        to_device(found.logprobs, device),
        to_device(np.repeat(advantage, found.choices).astype(np.float32), device),
        to_device(found.widths == 0, device), to_device(tokens, device),
    )  # fmt: skip


def log_policy(logits: Tensor, shown: Choices, temperature: float) -> Tensor:
    """Return the log-probabilities of the allowed tokens of each choice, (choices, width)."""
    rows = logits.index_select(0, shown.row).float() / temperature
    some = rows.gather(1, shown.allowed).masked_fill(~shown.real, float("-inf"))
    whole = torch.where(shown.free, rows.logsumexp(1), some.logsumexp(1))
    return some - whole.unsqueeze(1)


def policy_terms(
    logits: Tensor, targets: Tensor, shown: Choices, start: Tensor | None, *, temperature: float,
    clip: float, most: float,
) -> Terms:  # fmt: skip
    """Return the terms of a pass.

    Args:
        logits: of all predicted tokens of the pass.
        targets: the actual tokens at these positions.
        shown: the choices among them.
        start: `log_policy` of the starting law, or None for no divergence term.
        temperature: sampling temperature of the choices.
        clip: PPO's clipping range.
        most: the entropy of a choice is rewarded up to this value.
    """
    logp = log_policy(logits, shown, temperature)
    taken = logp.gather(1, shown.taken.unsqueeze(1)).squeeze(1)
    ratio = (taken - shown.sampled).exp()
    inside = ratio.clamp(1 - clip, 1 + clip)
    gain = torch.minimum(ratio * shown.advantage, inside * shown.advantage)
    likely = logp.exp()
    known = torch.where(shown.real, logp, 0.0)
    zero = logits.new_zeros((), dtype=torch.float32)
    divergence = zero
    if start is not None:
        apart = known - torch.where(shown.real, start, 0.0)
        exact = (likely * apart).sum(1)
        divergence = torch.where(shown.free, apart[:, 0].square() / 2, exact).sum()
    surprise = -taken.detach()
    # Minus the log-probability itself has a mean gradient of zero.
    entropy = torch.where(shown.free, surprise * (1 + taken + surprise), -(likely * known).sum(1))
    return Terms(
        -gain.sum(), divergence, entropy.clamp(max=most).sum(),
        _illegality(logits, targets, shown),
        (gain.detach() < (ratio * shown.advantage).detach()).sum(),
    )  # fmt: skip


def _illegality(logits: Tensor, targets: Tensor, shown: Choices) -> Tensor:
    """Return the loss of forced tokens plus that of mass outside the allowed tokens."""
    whole = logits.float().logsumexp(1)
    inside = logits.gather(1, targets.unsqueeze(1)).squeeze(1).float()
    some = logits.index_select(0, shown.row).float().gather(1, shown.allowed)
    allowed = some.masked_fill(~shown.real, float("-inf")).logsumexp(1)
    allowed = torch.where(shown.free, whole.index_select(0, shown.row), allowed)
    return (whole - inside.index_copy(0, shown.row, allowed)).sum()
