"""Frozen probes: what of the next field can be read off the deployed representation linearly.

"Frozen-probe field loss": the training predictor is gone, the backbone is frozen, and a fresh
linear probe with fixed architecture, draw, optimizer and budget is fitted for every controller on
probe-training transitions, then evaluated on an independent split, over all and over eventful
transitions. Losses of arms are normalized to Decision only by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from waggle.core.seeds import derive
from waggle.core.summary import FACTORS
from waggle.scd import losses
from waggle.scd.data import Move
from waggle.scd.forward import run
from waggle.scd.heads import FIELD_WIDTHS, Classifiers
from waggle.scd.model import Student
from waggle.scd.passes import field_targets, grouped

UPDATES = 300
BATCH = 256
RATE = 1e-2
DECAY = 1e-3


class ProbeLoss(NamedTuple):
    """Held-out field loss of a fresh probe."""

    every: float
    eventful: float


class Features(NamedTuple):
    """Frozen states with the decisions taken, and what came next."""

    inputs: Tensor
    targets: Tensor
    eventful: Tensor


def features(student: Student, moves: Sequence[Move]) -> Features:
    """Run the frozen backbone once over some transitions."""
    student.model.eval()
    hidden: dict[int, Tensor] = {}
    place = {id(move): i for i, move in enumerate(moves)}
    with torch.no_grad(), student.arithmetic():
        for group in grouped(moves, student.recipe.run.tokens_per_pass):
            passed = run(student.model, [move.source for move in group], student.device)
            for move, state in zip(group, passed.hidden.float().cpu(), strict=True):
                hidden[place[id(move)]] = state
    states = torch.stack([hidden[i] for i in range(len(moves))])
    factors = [
        F.one_hot(torch.tensor([m.labels[k] for m in moves]), len(classes)).float()
        for k, classes in enumerate(FACTORS.values())
    ]
    return Features(
        torch.cat([states, *factors], -1),
        field_targets(moves, "cpu"),
        torch.tensor([move.eventful for move in moves]),
    )


class _Probe(nn.Module):
    """One linear map per target, on standardized inputs."""

    def __init__(self, inputs: Tensor, seed: int) -> None:
        super().__init__()
        spread = inputs.std(0)
        # A feature that does not vary where the probe is fitted must not explode where it does.
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
    return ProbeLoss(float(each.mean()), float(eventful.mean()) if len(eventful) else float("nan"))
