"""Frozen probes: how well a linear map predicts the next field from the deployed representation.

See the paper's "Frozen-probe field loss". The training predictor is discarded and the backbone is
frozen. A fresh linear probe with fixed architecture, seed, optimizer and budget is fitted for every
controller on probe-training transitions, then evaluated on an independent split, over all and over
eventful transitions. The caller divides the losses of arms by that of Decision only.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from waggle.core.seeds import derive
from waggle.core.summary import FACTORS
from waggle.scd import losses
from waggle.scd.data.arrays import Rows
from waggle.scd.heads import FIELD_WIDTHS, Classifiers
from waggle.scd.model import Student

UPDATES = 300
BATCH = 256
RATE = 1e-2
DECAY = 1e-3


class ProbeLoss(NamedTuple):
    """Held-out field loss of a fresh probe."""

    every: float
    eventful: float
    each: tuple[float, ...] = ()
    """One loss per held-out transition."""
    flags: tuple[bool, ...] = ()
    """Whether each of them is eventful."""


class Features(NamedTuple):
    """Probe inputs (frozen states and the decisions taken) and targets (the next field)."""

    inputs: Tensor
    targets: Tensor
    eventful: Tensor


def features(student: Student, transitions: Rows) -> Features:
    """Run the frozen backbone once over the transitions and return the probe's data."""
    labels = torch.from_numpy(transitions.labels)
    factors = [
        F.one_hot(labels[:, k], len(classes)).float() for k, classes in enumerate(FACTORS.values())
    ]
    return Features(
        torch.cat([student.read(transitions).hidden, *factors], -1),
        torch.from_numpy(transitions.targets),
        torch.from_numpy(transitions.eventful),
    )


class _Probe(nn.Module):
    """One linear map per target, on standardized inputs."""

    def __init__(self, inputs: Tensor, seed: int) -> None:
        super().__init__()
        spread = inputs.std(0)
        # A feature that is constant in the training data must not blow up on the test data.
        self.mean, self.scale = inputs.mean(0), torch.where(spread > 0.02, spread, 1.0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            self.targets = Classifiers(inputs.shape[1], list(FIELD_WIDTHS.values()))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.targets((inputs - self.mean) / self.scale)
        return logits


def fit(train: Features, test: Features, seed: int) -> ProbeLoss:
    """Fit a fresh probe and return its held-out loss."""
    probe = _Probe(train.inputs, derive(seed, "probe"))
    optimizer = torch.optim.AdamW(probe.parameters(), lr=RATE, weight_decay=DECAY)
    size = len(train.inputs)
    for update in range(UPDATES):
        generator = torch.Generator().manual_seed(derive(seed, "probe batch", update) % 2**63)
        chosen = torch.randint(size, (min(BATCH, size),), generator=generator)
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - update / UPDATES)
        loss = losses.field_loss(probe(train.inputs[chosen]), train.targets[chosen]).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    with torch.no_grad():
        each = losses.field_loss(probe(test.inputs), test.targets)
    eventful = each[test.eventful]
    return ProbeLoss(
        float(each.mean()), float(eventful.mean()) if len(eventful) else float("nan"),
        tuple(each.tolist()), tuple(test.eventful.tolist()),
    )  # fmt: skip
