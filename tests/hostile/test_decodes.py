"""Whole episodes under a hostile law: nothing crashes, all admitted records keep the contract.

The contract is that of `tests.hostile.contract`, which was written from the paper.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Literal

import msgspec
import pytest

from tests.hostile.contract import breaches, view_breaches
from tests.hostile.decodes import Attacker
from tests.hostile.tally import Tally
from waggle import plugins
from waggle.core.canon import encode_decision
from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

TASKS = (("beacon", "beacon"), ("silo", "I-01"), ("swarmbench", "foraging"),
         ("agentsnet", "coloring"))  # fmt: skip


def attacked(
    substrate: str, task: str, seed: int, engine: Literal["sync", "event"], rounds: int
) -> tuple[EpisodeRecord, int]:
    """Play one episode under a hostile law; return its record and the number of decodes."""
    case = Case(substrate, task, 8, 10_000 + seed, rounds)
    law, memory = Attacker(seed), Memory()
    kind = Engine if engine == "sync" else EventEngine
    kind(plugins.get_substrate(substrate).open(case), law, case, sinks=[memory]).play()
    return memory.record(), law.decodes


def admitted(record: EpisodeRecord) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return every view of an episode with the decision that was admitted on it, as JSON."""
    contract = msgspec.to_builtins(record.header.contract)
    return [
        (
            {"contract": contract, **json.loads(bytes(update.view))},
            json.loads(encode_decision(update.decision)),
        )
        for entry in record.rounds
        for update in entry.updates
    ]


def attack(episodes: int, rounds: int, tally: Tally) -> Counter[str]:
    """Play episodes on every substrate and engine; return the stages of admission."""
    stages: Counter[str] = Counter()
    for substrate, task in TASKS:
        for seed in range(episodes):
            engine: Literal["sync", "event"] = "event" if seed % 2 else "sync"
            record, decodes = attacked(substrate, task, seed, engine, rounds)
            for view, decision in admitted(record):
                assert list(view_breaches(view)) == []
                assert list(breaches(view, decision)) == [], (view, decision)
            stages.update(u.stage for entry in record.rounds for u in entry.updates)
            tally.note(f"Hostile decodes on {substrate}", "no crash, no illegal record", decodes)
    return stages


def test_no_hostile_decode_breaks_the_contract(tally: Tally) -> None:
    stages = attack(4, 9, tally)
    assert sum(stages.values()) > 1_000
    assert min(stages[stage] for stage in ("first", "regenerated", "projected")) > 30, stages


@pytest.mark.slow
def test_many_hostile_decodes_break_nothing(tally: Tally) -> None:
    attack(60, 20, tally)


TAMPERED: dict[str, Any] = {
    "amplified": {"support": 5}, "renewed": {"ttl": 9}, "a boolean": {"novelty": True},
    "misrouted": {"channel": "h0"}, "fabricated": {"claim": "z0"}, "another key": {"agent_id": 3},
}  # fmt: skip


@pytest.mark.parametrize("kind", [*TAMPERED, "a wait that writes", "a commitment from nowhere"])
def test_the_checker_sees_what_it_must_see(kind: str) -> None:
    record, _ = attacked("beacon", "beacon", 0, "sync", 9)
    view, decision = next(pair for pair in admitted(record) if pair[1]["deposits"])
    assert list(breaches(view, decision)) == []
    if kind in TAMPERED:
        decision["deposits"][0] |= TAMPERED[kind]
    elif kind == "a wait that writes":
        decision["task_action"] = "WAIT"
    else:
        decision["commit"] = {"claim": "z0", "confidence_bin": 4}
    assert list(breaches(view, decision))
