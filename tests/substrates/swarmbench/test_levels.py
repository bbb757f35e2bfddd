"""Levels from a seed, levels from a state, and clear errors where the release would hang."""

from typing import Any

import msgspec
import pytest

from conformance.stored import Initial, StoredBodies, level_of_state
from tests.substrates.swarmbench.worlds import drawn, known, play
from waggle.core.errors import WaggleError
from waggle.substrates.swarmbench.sim.config import (
    TASKS,
    LevelError,
    StateError,
    Task,
    WorldConfig,
)
from waggle.substrates.swarmbench.sim.levels import generate
from waggle.substrates.swarmbench.sim.rules import Pursuit
from waggle.substrates.swarmbench.sim.world import GridWorld


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_gives_the_same_level(task: Task) -> None:
    config = WorldConfig(task, 16, 14, 12, seed=5)
    assert GridWorld.from_seed(config).grid() == GridWorld.from_seed(config).grid()


def test_flocking_uses_the_real_seed_unless_told_otherwise() -> None:
    def agents(seed: int, upstream: bool) -> list[tuple[int, int]]:
        return generate(WorldConfig("Flocking", 8, 10, 10, seed, upstream_seed=upstream)).agents

    assert agents(1, True) == agents(2, True) == agents(42, False)
    assert agents(1, False) != agents(2, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "Pursuit", "num_agents": 32},
        {"task": "Transport", "num_agents": 60},
        {"task": "Foraging", "num_agents": 64},
        {"task": "Hide"},
        {"width": 5},
        {"height": 10_000},
        {"num_agents": 0},
        {"view_size": 0},
        {"seed": "x"},
    ],
)
def test_an_impossible_configuration_is_one_clear_line(fields: dict[str, Any]) -> None:
    base = {"task": "Flocking", "num_agents": 8, "width": 10, "height": 10, "seed": 1}
    with pytest.raises(LevelError) as caught:
        GridWorld.from_seed(WorldConfig(**{**base, **fields}))
    assert "\n" not in str(caught.value)
    assert "use" in str(caught.value)


FULL = "WWWWWW\nW0123W\nW4P56W\nW789aW\nWbcdeW\nWWWWWW"


def test_on_a_full_map_the_next_prey_takes_the_cell_of_the_last_one() -> None:
    world = drawn(FULL, "Pursuit")
    play(world, "S" * world.n)
    assert world.score == 1
    assert known(world.rules, Pursuit).prey == (2, 2)


def test_without_an_empty_cell_the_search_for_the_next_prey_raises() -> None:
    world = drawn(FULL, "Pursuit")
    rules = known(world.rules, Pursuit)
    with pytest.raises(LevelError, match="larger map"):
        rules._safest(rules._danger())


BASE: dict[str, Any] = {
    "terrain": ["WWWWWW", *["W....W"] * 4, "WWWWWW"],
    "agents": [(1, 1)],
    "bodies": StoredBodies(),
    "score": 0,
    "state": {},
}


@pytest.mark.parametrize(
    ("task", "change"),
    [
        ("Flocking", {"terrain": ["W"]}),
        ("Flocking", {"terrain": ["WWWWWW", *["W.?..W"] * 4, "WWWWWW"]}),
        ("Flocking", {"agents": [(1, 1), (2, 2)]}),
        ("Flocking", {"agents": [(0, 0)]}),
        ("Flocking", {"agents": [(-1, 2)]}),
        ("Flocking", {"agents": [(900, 2)]}),
        ("Flocking", {"bodies": StoredBodies(agent_force=3)}),
        ("Flocking", {"bodies": StoredBodies(target=["AA"])}),
        ("Pursuit", {}),
        ("Transport", {}),
        ("Synchronization", {}),
        ("Foraging", {"state": {"carrying": [0, 0]}}),
    ],
)
def test_an_impossible_state_is_refused(task: Task, change: dict[str, Any]) -> None:
    config = WorldConfig(task, 1, 6, 6, seed=1)
    with pytest.raises(StateError):
        level_of_state(config, Initial(**{**BASE, **change}))


def test_a_box_with_a_hole_is_refused() -> None:
    config = WorldConfig("Transport", 1, 6, 6, seed=1)
    box = {"box": {"pos": (2, 1), "cells": [(0, 0), (0, 2)]}}
    bodies = msgspec.convert(box, StoredBodies)
    with pytest.raises(StateError, match="hole"):
        level_of_state(config, Initial(**{**BASE, "bodies": bodies}))


def test_relocation_needs_an_empty_cell_of_a_pursuit_map() -> None:
    world = GridWorld.from_seed(WorldConfig("Pursuit", 4, 10, 10, seed=3))
    for cell in [(0, 0), world.agents[0], (99, 1), (-1, -1)]:
        with pytest.raises(StateError, match="empty cell"):
            world.relocate_prey(cell)
    world.relocate_prey((8, 1))
    assert world.grid()[8][1] == "P"
    with pytest.raises(WaggleError, match="use Pursuit"):
        GridWorld.from_seed(WorldConfig("Flocking", 4, 10, 10, seed=3)).relocate_prey((1, 1))
