"""Worlds as PettingZoo environments: its own test passes, and the runtime is the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from waggle import plugins
from waggle.compat import slots
from waggle.compat.pettingzoo import SwarmEnv
from waggle.core.admit import violations
from waggle.core.canon import decode_view
from waggle.core.protocols import Case, Request
from waggle.core.schema import Decision, View, is_wait
from waggle.laws.heuristic import Heuristic
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import play

TASKS = ("beacon", "silo/III-26", "swarmbench/synchronization", "agentsnet/matching")


@pytest.mark.parametrize("task", TASKS)
def test_pettingzoo_finds_nothing_wrong(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    parallel_api_test(SwarmEnv(task, 8, rounds=5), num_cycles=20)
    assert "Passed Parallel API test" in capsys.readouterr().out


def test_a_seed_fixes_the_episode() -> None:
    parallel_seed_test(lambda: SwarmEnv("beacon", 6, rounds=4), num_cycles=10)
    env = SwarmEnv("beacon", 6, seed=3)
    first, _ = env.reset()
    then, _ = env.reset()
    again, _ = env.reset(seed=3)
    seen = [np.stack([o["observation"] for o in each.values()]) for each in (first, then, again)]
    assert (seen[0] == seen[2]).all() and not (seen[0] == seen[1]).all()


def decided(view: str) -> Decision:
    (decode,) = Heuristic().decide([Request(decode_view(view.encode()))])
    assert isinstance(decode.output, Decision)
    return decode.output


@pytest.mark.parametrize("perturbation", [None, Perturbation(churn=0.5, churn_at=1, loss=0.2)])
def test_who_decides_as_a_law_plays_its_episode(perturbation: Perturbation | None) -> None:
    memory, alone = Memory(), Memory()
    env = SwarmEnv("silo/I-05", 8, rounds=5, sinks=[memory], perturbation=perturbation)
    _, infos = env.reset(seed=10_000)
    total = 0.0
    while env.agents:
        said = {agent: decided(info["view"]) for agent, info in infos.items() if info}
        _, rewards, _, cut, infos = env.step(said)
        total += rewards["agent_0"]
    case = Case("silo", "I-05", 8, 10_000, 5)
    world = plugins.get_substrate("silo").open(case)
    settings = {"order": "canonical", "perturbation": perturbation}
    play(world, Heuristic(), case, sinks=[alone], **settings)
    assert memory.record().rounds == alone.record().rounds
    assert total == pytest.approx(memory.record().footer.scores["score"])
    assert total > 0 or perturbation is not None
    assert cut["agent_0"], "the horizon truncates, it does not end the task"


def views(task: str) -> list[View]:
    env = SwarmEnv(task, 8, rounds=5)
    observations, _ = env.reset(seed=1)
    rng, found = np.random.default_rng(0), []
    while env.agents:
        found += [menu.view for menu in env._menus.values()]
        chosen: dict[str, Any] = {
            agent: [rng.choice(np.flatnonzero(part)) for part in seen["action_mask"]]
            for agent, seen in observations.items()
        }
        observations, *_ = env.step(chosen)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_a_legal_choice_is_an_admissible_decision(task: str) -> None:
    """One part at a time: together, parts may still forbid one another."""
    tried = 0
    for view in views(task):
        offered = slots.menu(view)
        mask = offered.mask()
        for part, choice in product(range(len(mask)), range(max(slots.PARTS))):
            if choice < slots.PARTS[part] and mask[part][choice]:
                decision = offered.decision([choice if k == part else 0 for k in range(5)])
                if not is_wait(decision):
                    assert violations(view, decision) == (), (part, choice, decision)
                    tried += 1
        assert slots.numbers(offered).shape == (slots.WIDTH,)
    assert tried > 100


def test_who_says_nothing_waits_and_a_text_is_read() -> None:
    memory = Memory()
    env = SwarmEnv("beacon", 4, rounds=2, sinks=[memory], render_mode="ansi")
    env.reset(seed=1)
    env.step({"agent_0": "not JSON", "agent_1": [0, 0, 0, 0, 0]})
    assert isinstance(env.render(), str)
    env.step({})
    assert env.agents == []
    first, second = memory.record().rounds
    assert [u.stage for u in first.updates] == ["fallback", "first", "first", "first"]
    assert {u.decision.task_action for u in second.updates} == {"WAIT"}
    env.close()


def test_a_choice_that_stands_for_nothing_changes_nothing() -> None:
    env = SwarmEnv("beacon", n=4)
    env.reset(seed=0)
    offered = env._menus[env.agents[0]]
    nothing = offered.decision([0, 0, 0, 0, 0])
    assert all(offered.decision([k, k, k, k, k]) == nothing for k in (-3, -1, 99))
