"""Control laws: silent, constant, random, and scripted for tests (App. "Same-Runtime Ablation").

`private-only` shows what the private proposals alone achieve under the runtime, `constant` what one
fixed answer achieves, which solves every consensus. `random-legal` makes random legal decisions.
Invariant: stateless; samples are drawn from the request's own
entropy, so they are equivariant under relabelling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec.structs import replace

from waggle.core import templates
from waggle.core.protocols import Decode, Request
from waggle.core.schema import WAIT, Decision, View, private_decision


class PrivateOnly:
    """Take the private proposal and suppress every social record."""

    name: ClassVar[str] = "private-only"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(private_decision(request.view)) for request in requests]


class Constant:
    """Take the first action that the contract names, in every round, and send nothing."""

    name: ClassVar[str] = "constant"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(self._decision(request.view)) for request in requests]

    def _decision(self, view: View) -> Decision:
        private = private_decision(view)
        fixed = (a for a in view.contract.actions if a != WAIT and ":" not in a)
        return replace(private, task_action=next(fixed, private.task_action))


class RandomLegal:
    """Sample uniformly over the templates of admissible records, then over their bins."""

    name: ClassVar[str] = "random-legal"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(templates.sample(r.view, r.entropy)) for r in requests]


class Scripted:
    """Give the answers that a test prescribes: one text for every call, or a function's result.

    Args:
        script: answer to every call, or a function that returns it for a request.
    """

    name: ClassVar[str] = "scripted"

    def __init__(self, script: str | Callable[[Request], str | Decision] = "") -> None:
        self._script = script

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        script = self._script
        if isinstance(script, str):
            return [Decode(script) for _ in requests]
        return [Decode(script(request)) for request in requests]
