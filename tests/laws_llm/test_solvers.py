"""Organised nodes that solve with a law or with an endpoint instead of the deterministic rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from waggle import plugins
from waggle.baselines.peers.conductor import Peer, organised
from waggle.baselines.peers.solvers import LawSolver
from waggle.baselines.peers.swarmsys import SwarmSys
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Decode, Request, Usage
from waggle.core.record import EpisodeRecord
from waggle.core.schema import Decision
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

CASE = Case("silo", "I-05", 4, 10_000)


def play(law: Any, case: Case = CASE) -> EpisodeRecord:
    memory = Memory()
    world = plugins.get_substrate(case.substrate).open(case)
    Engine(world, law, case, sinks=[memory]).play()
    return memory.record()


def test_a_chat_endpoint_solves_for_organised_nodes(serve: Any) -> None:
    pytest.importorskip("openai", reason="needs the chat extra")
    url = serve(plugins.get_law("expert"))
    asked = play(organised("swarmsys", "chat", options={"base_url": url}))
    direct = play(organised("swarmsys", "expert"))
    taken = [[u.decision for u in entry.updates] for entry in asked.rounds]
    assert taken == [[u.decision for u in entry.updates] for entry in direct.rounds]
    assert asked.footer.scores == direct.footer.scores
    counters = asked.footer.counters
    assert counters["messages.delivered"] == 9 * 4
    assert counters["calls"] == direct.footer.counters["calls"] > 0


class Fixed:
    """A law that always says the same."""

    name = "fixed"

    def __init__(self, output: str | Decision) -> None:
        self.output = output
        self.asked = 0

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        self.asked += len(requests)
        return [Decode(self.output, Usage(1, 10, 2)) for _ in requests]


@pytest.mark.parametrize("said", ["no record", Decision("FLY", None, (), None)])
def test_what_is_no_legal_action_costs_its_call_and_changes_nothing(said: str | Decision) -> None:
    law = Fixed(said)
    spoilt, plain = play(Peer(SwarmSys(), solver=LawSolver(law))), play(Peer(SwarmSys()))
    assert spoilt.footer.scores == plain.footer.scores
    calls = spoilt.footer.counters["calls"]
    assert calls == plain.footer.counters["calls"] >= law.asked
    assert spoilt.footer.counters["tokens.input"] == 10 * calls


def test_a_solver_decides_actions_and_not_routes() -> None:
    waiting = Fixed(Decision("WAIT", None, (), None))
    case = Case("swarmbench", "pursuit", 4, 10_000, 6)
    record = play(Peer(SwarmSys(), solver=LawSolver(waiting)), case)
    silent = [u for entry in record.rounds for u in entry.updates if not u.writes]
    assert {u.decision.task_action for u in silent} == {"WAIT"}
    sent = play(Peer(SwarmSys(), solver=LawSolver(waiting))).footer.counters
    assert sent["messages.delivered"] == 9 * 4


def test_a_solver_is_named_by_its_law() -> None:
    law = organised("agentnet", "nano")
    assert (law.name, law.order) == ("agentnet", "canonical")
    assert law.digest == plugins.get_law("nano").digest  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="is no peer"):
        organised("relay", "nano")
    for wrong in ("{", "[" * 100_000):
        with pytest.raises(ConfigError, match="no JSON"):
            organised("agentnet", "chat", options=wrong)
    for wrong in ("[1]", "null", "1"):
        with pytest.raises(ConfigError, match="must be a JSON object"):
            organised("agentnet", "chat", options=wrong)
