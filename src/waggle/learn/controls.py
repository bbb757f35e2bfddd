"""Controls of a learned law: the same law silenced, or with its answers held constant.

A law that organises scores lower under both. One that scores as well when silenced has learned no
communication, and one that scores as well with a constant answer has learned only the answer that
scores best. A constant answer that names a contact or a claim always names the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from waggle.core.decode import parse
from waggle.core.errors import ConfigError
from waggle.core.options import actions, responses
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import WAIT, Contract, Decision, action_argument

CONTROLS = ("silent", "constant")


def controlled(law: Any, control: str) -> Law:
    """Return a law under a control; with an empty name, the law itself."""
    if not control:
        return law  # type: ignore[no-any-return]
    if control not in CONTROLS:
        raise ConfigError(f"no control {control!r}; there are {', '.join(CONTROLS)}")
    return _Controlled(law, control)


class _Controlled:
    def __init__(self, law: Any, control: str) -> None:
        self.name, self.order = law.name, law.order
        self._law, self._control = law, control
        self._said: dict[str, Counter[str]] = {}
        """Per task: how often each kind of action was decided so far, whatever it names."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        decodes = self._law.decide(requests)
        return [
            self._changed(request, decode)
            for request, decode in zip(requests, decodes, strict=True)
        ]

    def _changed(self, request: Request, decode: Decode) -> Decode:
        output = decode.output
        decision = parse(output).decision if isinstance(output, str) else output
        if decision is None:
            return decode
        if self._control == "silent":
            return Decode(msgspec.structs.replace(decision, deposits=()), decode.usage)
        return Decode(self._constant(request, decision), decode.usage)

    def _constant(self, request: Request, decision: Decision) -> Decision:
        """Return a decision with the most frequent action of this task that is legal here.

        If the action may name several contacts or claims, the alphabetically first is used, since
        names do not change during an episode. A response is that of the private proposal, if any.
        """
        view, contract = request.view, request.view.contract
        said = self._said.setdefault(contract.task, Counter())
        said[_kind(contract, decision.task_action)] += 1
        legal: dict[str, str] = {}
        for option in sorted(actions(view)):
            legal.setdefault(_kind(contract, option), option)
        action = next((legal[kind] for kind, _ in said.most_common() if kind in legal), None)
        if action is None:
            return decision
        if action == WAIT:
            return Decision(WAIT, None, (), None)
        answer = next(iter(responses(view)), decision.response)
        return msgspec.structs.replace(
            decision,
            task_action=action,
            response=answer if action == contract.response else None,
        )


def _kind(contract: Contract, action: str) -> str:
    """Return an action without the contact or the claim that it names."""
    return action if action in contract.actions else f"{action_argument(action)[0]}:"
