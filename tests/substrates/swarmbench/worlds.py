"""Worlds drawn as text, and episodes played without a law, for tests."""

from typing import TypeVar

import msgspec

from conformance.stored import Initial, StoredBodies, level_of_state
from waggle.core.protocols import Act, Case, Local, Write
from waggle.core.schema import MAX_BIN, MAX_TTL
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.sim.config import LETTERS, Task, WorldConfig
from waggle.substrates.swarmbench.sim.world import GridWorld

Kind = TypeVar("Kind")
NOTHING = Local((), None)
"""What a node holds before anything was delivered."""


def known(thing: object, kind: type[Kind]) -> Kind:
    """Return a task's rules or behaviour as the class that they are for this task."""
    assert isinstance(thing, kind), f"{type(thing).__name__} is no {kind.__name__}"
    return thing


def drawn(picture: str, task: Task = "Flocking", prey: bool = True) -> GridWorld:
    """Open a world drawn with W . N F terrain, agents 0-9 a-z by id, P prey, B box cells."""
    rows = [line.strip() for line in picture.strip().splitlines()]
    found = {s: (i, j) for i, row in enumerate(rows) for j, s in enumerate(row)}
    agents = [found[s] for s in "0123456789abcdefghijk" if s in found]
    box = [(i, j) for i, row in enumerate(rows) for j, s in enumerate(row) if s == "B"]
    terrain = ["".join(s if s in "WNF." else "." for s in row) for row in rows]
    bodies: dict[str, object] = {}
    if box:
        top, left = min(i for i, _ in box), min(j for _, j in box)
        cells = [(i - top, j - left) for i, j in box]
        bodies["box"] = {"pos": (top, left), "cells": cells}
    if "P" in found:
        bodies["prey"] = {"pos": found["P"], "movable": prey}
    n = len(agents)
    state: dict[str, object] = {"lights": [0] * n, "carrying": [0] * n}
    config = WorldConfig(task, n, len(rows[0]), len(rows), seed=1)
    stored = msgspec.convert(bodies, StoredBodies)
    return GridWorld(config, level_of_state(config, Initial(terrain, agents, stored, 0, state)))


def play(world: GridWorld, letters: str) -> list[tuple[int, int]]:
    """Play one round of action letters and return the positions."""
    world.step([LETTERS[letter] for letter in letters])
    return world.agents


def opened(task: str, n: int = 8, seed: int = 10_001, shock: bool = False) -> SwarmEpisode:
    """Open an episode of a task."""
    return SwarmBench().open(Case("swarmbench", task, n, seed, shock=shock))


def private_round(world: SwarmEpisode, intent: str | None = None) -> dict[int, str]:
    """Play one round in which every node does what it proposes; return the proposals."""
    moves = {node: world.sense(node, NOTHING).proposal.action for node in world.active()}
    world.step({k: Act(move, None, None, intent, NOTHING) for k, move in moves.items()})
    return moves


def seeing(world: SwarmEpisode, symbol: str) -> int:
    """Play privately until some node sees a symbol and has a contact; return that node."""
    for _ in range(80):
        for node in world.active():
            if symbol in "".join(world.scene.windows[node]) and world.neighbours(node):
                return node
        private_round(world)
    raise AssertionError("nobody ever saw it")


def support(writer: int, reader: int, claim: str) -> Write:
    """Return a write of full support and lifetime."""
    return Write(writer, reader, claim, MAX_BIN, MAX_BIN, 0, MAX_TTL, None, True)


def told(world: SwarmEpisode) -> list[Write]:
    """Return the writes in which everybody tells every contact all that it saw."""
    return [
        support(writer, reader, row.claim)
        for writer in world.active()
        for row in world.sense(writer, NOTHING).evidence
        for reader in world.neighbours(writer)
        if not row.conflict
    ]
