"""The losses of Section 4 and "Training Details", as pure functions of tensors.

Every function returns one value per record, so that a mean over records is the only reduction and
gradient accumulation over any split of a batch equals the whole batch. Equation names are those of
the paper's source: token-loss, orbit-loss-components, field-loss-components, scd.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

HISTOGRAMS = ("novelty", "support", "conflict", "ttl")
"""Family F of the field loss: targets with soft labels. The targets after these are family B."""


def token_nll(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p of each target token; logits (tokens, vocabulary), targets (tokens,)."""
    return F.cross_entropy(logits.float(), targets, reduction="none")


def record_loss(nll: Tensor, record: Tensor, records: int, *, mean: bool) -> Tensor:
    """Sum token losses per record, Eq. token-loss: (tokens,) -> (records,).

    Args:
        nll: token losses of all assistant tokens of a batch, in any order.
        record: index of each token's record.
        records: number of records.
        mean: divide by the record's length; the equation itself sums.
    """
    total = torch.zeros(records, dtype=nll.dtype, device=nll.device).index_add(0, record, nll)
    if not mean:
        return total
    length = torch.zeros_like(total).index_add(0, record, torch.ones_like(nll))
    return total / length.clamp(min=1)


def symmetric_kl(one: Tensor, other: Tensor) -> Tensor:
    """Return D_SKL of two batches of logits, per row: half the sum of the KL in both directions."""
    p, q = one.float().log_softmax(-1), other.float().log_softmax(-1)
    return 0.5 * ((p.exp() - q.exp()) * (p - q)).sum(-1)


def orbit_head_loss(source: Tensor, image: Tensor, labels: Tensor, beta: float) -> Tensor:
    """Return the head part of Eq. orbit-loss-components, per record.

    Both cross-entropies and beta times the symmetric KL, averaged over the factors.

    Args:
        source: logits of every factor on the view, (records, factors, classes).
        image: logits of every factor on the transformed view.
        labels: classes of rho(d*), (records, factors).
        beta: the consistency coefficient.
    """
    p, q = source.float().log_softmax(-1), image.float().log_softmax(-1)
    both = -(p + q).gather(-1, labels[..., None])[..., 0]
    return (both + beta * symmetric_kl(p, q)).mean(-1)


def orbit_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the share of factors that the orbit heads predict, per record."""
    return (logits.argmax(-1) == labels).float().mean(-1)


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy against a distribution, per row."""
    return -(target * logits.float().log_softmax(-1)).sum(-1)


def field_loss(logits: Tensor, targets: Tensor, state_weight: float = 1.0) -> Tensor:
    """Return Eq. field-loss-components, per record; both are (records, targets, classes).

    Histogram terms are averaged over four targets, state terms over two, so both groups have equal
    weight at lambda_state = 1. A categorical target is a distribution with all mass on one class.
    """
    each, split = soft_cross_entropy(logits, targets), len(HISTOGRAMS)
    return each[:, :split].mean(-1) + state_weight * each[:, split:].mean(-1)


def ramp(update: int, warm_up: int, length: int) -> float:
    """Return the factor on auxiliary weights: 0 during warm-up, then linear to 1."""
    if update < warm_up:
        return 0.0
    return min(1.0, (update - warm_up + 1) / length) if length else 1.0
