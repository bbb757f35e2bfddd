"""A control changes what a law says and leaves it executable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from waggle import plugins
from waggle.core.admit import violations
from waggle.core.options import actions
from waggle.core.order import Order
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import WAIT, Decision
from waggle.learn.controls import Taken, controlled, taken, usual
from waggle.runtime.recorder import Memory, Sink
from waggle.runtime.sync import Engine

SHUFFLED: Order = "shuffled"


class Varied:
    """Takes an action of one kind as luck has it, and every fourth time another."""

    def __init__(self, kind: str) -> None:
        self.name, self.order, self.kind = "varied", SHUFFLED, kind

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        return [Decode(self.act(request)) for request in requests]

    def act(self, request: Request) -> Decision:
        legal = actions(request.view)
        mine = [a for a in legal if a.startswith(self.kind)]
        other = [a for a in legal if a not in mine]
        some = other if request.entropy % 4 == 0 else mine
        action = some[request.entropy // 4 % len(some)]
        answer = "x" if action == request.view.contract.response else None
        return Decision(action, answer, (), None)


class Noted:
    """Notes what a law decides, by the contacts of who decides."""

    def __init__(self, law: Law) -> None:
        self.name, self.order, self._law = law.name, SHUFFLED, law
        self.said: dict[frozenset[str], list[Decision]] = defaultdict(list)

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        decodes = list(self._law.decide(requests))
        for request, decode in zip(requests, decodes, strict=True):
            assert isinstance(decode.output, Decision)
            assert not violations(request.view, decode.output)
            node = frozenset(port.channel for port in request.view.private.channels)
            self.said[node].append(decode.output)
        return decodes


def play(case: Case, law: Any, *sinks: Sink) -> None:
    world = plugins.get_substrate(case.substrate).open(case)
    Engine(world, law, case, order=law.order, sinks=sinks).play()


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (Case("agentsnet", "matching", 8, 0), "MATCH:"),
        (Case("silo", "I-05", 8, 0), "ANSWER"),
        (Case("beacon", "beacon", 8, 0), WAIT),
    ],
)
def test_a_constant_node_does_the_same_thing_to_the_end(case: Case, kind: str) -> None:
    free = Memory()
    play(case, Varied(kind), free)
    most = usual([taken(free.record())])
    assert next(iter(most.values()))[0].startswith(kind)
    noted = Noted(controlled(Varied(kind), "constant", most))
    play(case, noted)
    for said in noted.said.values():
        assert said[0].task_action.startswith(kind)
        assert len({decision.task_action for decision in said}) == 1 < len(said)


def test_what_is_usual_is_counted_over_all_episodes_of_a_task() -> None:
    episodes = [Taken("a", {"X": 3, "Y": 1}), Taken("a", {"Y": 4}), Taken("b", {"Z": 1})]
    assert usual(episodes) == {"a": ("Y", "X"), "b": ("Z",)} == usual(episodes[::-1])
