"""Random-legal: the control that speaks legally but without reason (paper App. "Same-Runtime ...").

Invariant: what is sampled comes from the request's own entropy, so it moves with a relabelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from waggle.core import templates
from waggle.core.protocols import Decode, Request


class RandomLegal:
    """Sample uniformly over the templates of admissible records, then over their bins."""

    name: ClassVar[str] = "random-legal"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(templates.sample(r.view, r.entropy)) for r in requests]
