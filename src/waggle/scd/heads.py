"""Training-only heads: Q (orbit, twelve linear factors) and f (field predictor).

"Anonymous-orbit construction" and "Sequential transition collection". Both read the controller's
final current-view hidden state; neither is part of a deployed law. Invariant: output widths come
from the factor classes alone, so they do not depend on the population or on a task.
"""

from __future__ import annotations

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
"""Classes of every field target: null and bins 0-4, null and TTL 0-8, two, and empty or 0-4."""


class OrbitHeads(nn.Module):
    """Twelve linear projections of the hidden state, one per factor of rho."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factors = nn.ModuleList(nn.Linear(width, len(c)) for c in FACTORS.values())

    def forward(self, hidden: Tensor) -> list[Tensor]:
        """Return the logits of every factor."""
        hidden = hidden.float()
        return [head(hidden) for head in self.factors]


class FieldHead(nn.Module):
    """Hidden state and 32-dimensional factor embeddings to the next field, through 512 GELUs."""

    def __init__(self, width: int, dropout: float = 0.05) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Embedding(len(classes), EMBEDDING) for classes in FACTORS.values()
        )
        self.hidden = nn.Linear(width + EMBEDDING * len(FACTORS), HIDDEN)
        self.dropout = nn.Dropout(dropout)
        self.targets = nn.ModuleDict({k: nn.Linear(HIDDEN, n) for k, n in FIELD_WIDTHS.items()})

    def forward(self, hidden: Tensor, rho: Tensor) -> dict[str, Tensor]:
        """Return the logits of every target; rho holds the factor classes of the decision."""
        factors = [table(rho[:, k]) for k, table in enumerate(self.embeddings)]
        joined = torch.cat([hidden.float(), *factors], -1)
        shared = self.dropout(nn.functional.gelu(self.hidden(joined)))
        return {name: head(shared) for name, head in self.targets.items()}


class Heads(nn.Module):
    """Both training heads; psi and omega of Eq. scd."""

    def __init__(self, width: int, seed: int, dropout: float = 0.05) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            self.orbit = OrbitHeads(width)
            self.field = FieldHead(width, dropout)
