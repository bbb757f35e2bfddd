"""Training-only heads: Q (orbit, twelve linear factors) and f (field predictor).

See the paper's "Anonymous-orbit construction" and "Sequential transition collection". Both heads
read the controller's final current-view hidden state; neither is part of a deployed law. Invariant:
output widths depend on the factor classes alone, not on the population or on a task.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from waggle.core.summary import FACTORS

EMBEDDING = 32
"""Width of one factor embedding."""
HIDDEN = 512
"""Width of the GELU layer."""
FIELD_WIDTHS = {
    "novelty": 6, "support": 6, "conflict": 6, "ttl": 10, "ready": 2, "commitment": 6,
}  # fmt: skip
"""Classes per field target: null and bins 0-4; null and TTL 0-8; two; empty or 0-4."""


FAR = -1e4
"""Logit of a class that a group does not have; its probability is zero in every dtype."""


class Classifiers(nn.Module):
    """Several linear classifiers of one input, computed as one matrix product.

    Logits are (records, groups, classes of the widest group); classes that a group does not have
    get `FAR`.
    """

    far: Tensor

    def __init__(self, width: int, classes: Sequence[int]) -> None:
        super().__init__()
        groups, widest = len(classes), max(classes)
        self.linear = nn.Linear(width, groups * widest)
        there = torch.arange(widest)[None] < torch.tensor(classes)[:, None]
        self.register_buffer("far", torch.where(there, 0.0, FAR), persistent=False)
        with torch.no_grad():
            self.linear.weight[~there.flatten()] = 0.0
            self.linear.bias[~there.flatten()] = 0.0

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits of every group."""
        logits: Tensor = self.linear(states)
        return logits.view(-1, *self.far.shape) + self.far


class OrbitHeads(Classifiers):
    """Twelve linear projections of the hidden state, one per factor of rho."""

    def __init__(self, width: int) -> None:
        super().__init__(width, [len(classes) for classes in FACTORS.values()])

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits of every factor."""
        return super().forward(hidden.float())


class FieldHead(nn.Module):
    """The next-field predictor: hidden state and 32-dimensional factor embeddings, 512 GELUs."""

    first: Tensor

    def __init__(self, width: int, dropout: float = 0.05) -> None:
        super().__init__()
        sizes = [len(classes) for classes in FACTORS.values()]
        # One table for all factors: the rows of factor k begin at first[k].
        self.embedding = nn.Embedding(sum(sizes), EMBEDDING)
        first = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("first", first, persistent=False)
        self.hidden = nn.Linear(width + EMBEDDING * len(FACTORS), HIDDEN)
        self.dropout = nn.Dropout(dropout)
        self.targets = Classifiers(HIDDEN, list(FIELD_WIDTHS.values()))

    def forward(self, hidden: Tensor, rho: Tensor) -> Tensor:
        """Return the logits of every target; rho holds the factor classes of the decision."""
        factors = self.embedding(rho + self.first).flatten(1)
        joined = torch.cat([hidden.float(), factors], -1)
        shared = self.dropout(nn.functional.gelu(self.hidden(joined)))
        logits: Tensor = self.targets(shared)
        return logits


class Heads(nn.Module):
    """Both training heads; psi and omega of Eq. scd."""

    def __init__(self, width: int, seed: int, dropout: float = 0.05) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            self.orbit = OrbitHeads(width)
            self.field = FieldHead(width, dropout)
