"""Levels: their parts, and their generation with the official draw order (spec sections 3 and 4).

Positions are (row, column). They lie outside the map only for agents that escaped and for box cells
in the Transport gap. Invariant: every draw goes through `random.Random.randint` or `choice` in the
order written here, because layouts are compared bit for bit.
"""

from __future__ import annotations

import random
from typing import TypeAlias

import msgspec

from waggle.substrates.swarmbench.sim.config import Cell, LevelError, WorldConfig

EMPTY, WALL, NEST, FOOD, PREY, BOX = ".", "W", "N", "F", "P", "B"
_Canvas: TypeAlias = list[list[str]]
_SCENES = "bottom-right bottom-left right-top right-bottom left-top left-bottom top-left top-right"
_GAP, _BLOCK = 4, 3


class Box(msgspec.Struct, frozen=True):
    """The Transport box: top-left of its bounding box, cell offsets, mass."""

    pos: Cell
    cells: tuple[Cell, ...]
    mass: int = 5


class Prey(msgspec.Struct, frozen=True):
    """The Pursuit prey; only the first one of an episode can be pushed."""

    pos: Cell
    movable: bool = True
    mass: int = 1


class Level(msgspec.Struct, frozen=True):
    """The initial state of an episode."""

    terrain: list[str]
    agents: list[Cell]
    rng: random.Random
    """The generator's state right after level generation; only Pursuit draws from it later."""
    prey: Prey | None = None
    box: Box | None = None
    lit: list[bool] = []
    """Synchronization: light on. Foraging: carrying food."""
    last_unison: int = -1
    initial_distance: int | None = None
    score: float = 0


def generate(config: WorldConfig) -> Level:
    """Build the level of a configuration.

    Raises:
        LevelError: if the agents or the prey do not fit on the map.
    """
    rng = random.Random(config.rng_seed)
    h, w = config.height, config.width
    edges = (0, h - 1), (0, w - 1)
    canvas = [
        [WALL if i in edges[0] or j in edges[1] else EMPTY for j in range(w)] for i in range(h)
    ]
    match config.task:
        case "Pursuit":
            return _pursuit(config, rng, canvas)
        case "Foraging":
            return _foraging(config, rng, canvas)
        case "Transport":
            return _transport(config, rng, canvas)
        case "Synchronization":
            lit = [rng.randint(0, 1) == 1 for _ in range(config.num_agents)]
            return Level(_rows(canvas), _spawn_anywhere(config, rng, canvas), rng, lit=lit)
        case "Flocking":
            return Level(_rows(canvas), _spawn_anywhere(config, rng, canvas), rng)


def _rows(canvas: _Canvas) -> list[str]:
    return ["".join(row) for row in canvas]


def _spawn(
    config: WorldConfig, rng: random.Random, taken: _Canvas, columns: Cell, rows: Cell
) -> list[Cell]:
    """Place agents in id order, column drawn before row, redrawing until the cell is empty.

    A cell off the map (possible in Pursuit on elongated maps) counts as taken.
    """
    h, w = config.height, config.width
    room = sum(
        taken[i][j] == EMPTY
        for i in range(rows[0], min(rows[1], h - 1) + 1)
        for j in range(columns[0], min(columns[1], w - 1) + 1)
    )
    if room < config.num_agents:
        raise LevelError(
            f"{config.num_agents} agents do not fit: {config.task} on {h}x{w} has {room} start "
            "cells; use a larger map or fewer agents"
        )
    agents: list[Cell] = []
    for _ in range(config.num_agents):
        while True:
            x, y = rng.randint(*columns), rng.randint(*rows)
            if y < h and x < w and taken[y][x] == EMPTY:
                break
        taken[y][x] = "A"
        agents.append((y, x))
    return agents


def _spawn_anywhere(config: WorldConfig, rng: random.Random, taken: _Canvas) -> list[Cell]:
    return _spawn(config, rng, taken, (1, config.width - 2), (1, config.height - 2))


def _pursuit(config: WorldConfig, rng: random.Random, canvas: _Canvas) -> Level:
    h, w = config.height, config.width
    terrain = _rows(canvas)
    prey = (rng.randint(h // 2 + 1, h - 2), rng.randint(w // 2 + 1, w - 2))
    canvas[prey[0]][prey[1]] = PREY
    # The release computes the column range from the height and the row range from the width.
    agents = _spawn(config, rng, canvas, (1, max(h // 2, 5)), (1, max(w // 2, 5)))
    return Level(terrain, agents, rng, prey=Prey(prey))


def _foraging(config: WorldConfig, rng: random.Random, canvas: _Canvas) -> Level:
    h, w = config.height, config.width
    fi, fj = rng.choice([1, h - 3]), rng.choice([1, w - 3])
    ni, nj = h - 2 - fi, w - 2 - fj
    if rng.randint(0, 1) == 0:
        lines = range(4, h - 4, 4)
        if len(lines) % 2:
            fj = nj = 1
        for order, i in enumerate(lines):
            for j in _wall_span(order, w):
                canvas[i][j] = WALL
    else:
        lines = range(4, w - 4, 4)
        if len(lines) % 2:
            fi = ni = 1
        for order, j in enumerate(lines):
            for i in _wall_span(order, h):
                canvas[i][j] = WALL
    for corner, symbol in (((ni, nj), NEST), ((fi, fj), FOOD)):
        for di, dj in ((0, 0), (0, 1), (1, 0), (1, 1)):
            canvas[corner[0] + di][corner[1] + dj] = symbol
    terrain = _rows(canvas)
    lit = [False] * config.num_agents
    return Level(terrain, _spawn_anywhere(config, rng, canvas), rng, lit=lit)


def _wall_span(order: int, side: int) -> range:
    """Return the indices of an inner wall: first, third, ... from the start, others to the end."""
    return range(side // 3, side) if order % 2 else range(side - -(-side // 3) + 1)


def _transport(config: WorldConfig, rng: random.Random, canvas: _Canvas) -> Level:
    scene = rng.choice(_SCENES.split())
    gap, block = _scene_cells(scene, config.height, config.width)
    for i, j in gap:
        canvas[i][j] = EMPTY
    terrain = _rows(canvas)
    cells = gap + block
    for i, j in cells:
        canvas[i][j] = "B"
    top, left = min(i for i, _ in cells), min(j for _, j in cells)
    offsets = tuple(sorted((i - top, j - left) for i, j in cells))
    agents = _spawn_anywhere(config, rng, canvas)
    return Level(terrain, agents, rng, box=Box((top, left), offsets))


def _scene_cells(scene: str, h: int, w: int) -> tuple[list[Cell], list[Cell]]:
    """Return the gap (plugged by the box's bar) and the box's 3x3 block of a scene.

    Along the exit side, counted from the corner, the bar covers 0..3 and the block 2..4; across
    it the bar is on the border and the block on the three lines inside.
    """
    side, corner = scene.split("-")
    vertical = side in ("left", "right")
    length, depth = (h, w) if vertical else (w, h)
    from_end = corner in ("right", "bottom")
    far = side in ("right", "bottom")

    def cell(along: int, across: int) -> Cell:
        a = length - 1 - along if from_end else along
        b = depth - 1 - across if far else across
        return (a, b) if vertical else (b, a)

    gap = [cell(along, 0) for along in range(_GAP)]
    block = [cell(along, across) for along in range(2, 2 + _BLOCK) for across in (1, 2, 3)]
    return gap, block
