"""Controls of a learned law: the same law silenced, or with its answers held constant.

A law that organises scores lower under both. One that scores as well when silenced has learned no
communication, and one that scores as well with a constant answer has learned only the answer that
scores best. The constant answer is what the law did most often when it played freely; one that
names a contact or a claim always names the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from waggle.core.decode import parse
from waggle.core.errors import ConfigError
from waggle.core.options import actions, responses
from waggle.core.protocols import Decode, Law, Request
from waggle.core.record import EpisodeRecord
from waggle.core.schema import WAIT, Contract, Decision, action_argument

CONTROLS = ("silent", "constant")
Usual: TypeAlias = Mapping[str, Sequence[str]]
"""By task, the kinds of actions that a law took, the most frequent first."""


def controlled(law: Any, control: str, usual: Usual) -> Law:
    """Return a law under a control; with an empty name, the law itself."""
    if not control:
        return law  # type: ignore[no-any-return]
    if control not in CONTROLS:
        raise ConfigError(f"no control {control!r}; there are {', '.join(CONTROLS)}")
    return _Controlled(law, control, usual)


class Taken(NamedTuple):
    """The actions of one episode."""

    task: str
    """The task as the contract names it."""
    counts: Mapping[str, int]
    """How often each kind of action was taken, whatever it named."""


def taken(record: EpisodeRecord) -> Taken:
    """Count the actions of an episode."""
    contract = record.header.contract
    kinds = (
        _kind(contract, update.decision.task_action)
        for entry in record.rounds
        for update in entry.updates
    )
    return Taken(contract.task, Counter(kinds))


def usual(episodes: Iterable[Taken]) -> dict[str, tuple[str, ...]]:
    """Return the ranking of actions by task over several episodes."""
    by_task: dict[str, Counter[str]] = {}
    for task, found in episodes:
        by_task.setdefault(task, Counter()).update(found)
    return {
        task: tuple(sorted(found, key=lambda kind: (-found[kind], kind)))
        for task, found in by_task.items()
    }


class _Controlled:
    def __init__(self, law: Any, control: str, usual: Usual) -> None:
        self.name, self.order = law.name, law.order
        self._law, self._control, self._usual = law, control, usual

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
        """Return a decision with the most usual action of this task that is legal here.

        If the action may name several contacts or claims, the alphabetically first is used, since
        names do not change during an episode. A response is that of the private proposal, if any.
        """
        view, contract = request.view, request.view.contract
        legal: dict[str, str] = {}
        for option in sorted(actions(view)):
            legal.setdefault(_kind(contract, option), option)
        ranking = self._usual.get(contract.task, ())
        action = next((legal[kind] for kind in ranking if kind in legal), None)
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
