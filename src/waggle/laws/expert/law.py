"""The expert: one readable deterministic law that serves as teacher.

It sees exactly one View and dispatches on the contract's task to the rule module of its substrate,
`waggle.laws.expert.<substrate>`, or to the generic rules where there is none. Invariant: the
contract selects the rules, so every node of an episode runs the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar, TypeAlias, cast

from waggle.core.protocols import Decode, Request
from waggle.core.schema import Decision, View
from waggle.laws.expert import generic

Rules: TypeAlias = Callable[[View], Decision]


class Expert:
    """Apply the rules that were written for the view's substrate."""

    name: ClassVar[str] = "expert"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(rules(r.view.contract.task)(r.view)) for r in requests]


@lru_cache(maxsize=4096)
def rules(task: str) -> Rules:
    """Return the rules for a contract's task (`substrate/task`, or the substrate alone)."""
    substrate = task.partition("/")[0]
    module = f"waggle.laws.expert.{substrate}"
    known = substrate.isidentifier() and find_spec(module) is not None
    own = getattr(import_module(module), "decide", None) if known else None
    return cast(Rules, own or generic.decide)
