"""Ceilings of SwarmBench: free communication, shortest paths, and a shared clock.

    score = play_sharing(Case("swarmbench", "pursuit", 16, 10_000), "contacts")
    most = walked(Case("swarmbench", "foraging", 16, 10_000))

In a sharing episode every agent keeps its private proposals and follows reports exactly as the
compiler follows a claim, but no law decides: an agent that knows a place reports it every round, at
once, at no cost, without suppression and without trace lifetimes. Only the reach varies, and in one
reach the time of delivery. Invariant: with the reach `nobody` an episode is the private-only one.

`walked` uses only the map and plays no episode: every agent walks as if it were alone.
`counted` is Synchronization with a shared clock and no message: lights on in the first round, then
all agents switch in every round. Laws see no clock but the budget bin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Act, Case, Local, Write
from waggle.core.schema import MAX_BIN, MAX_TTL
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.compass import chebyshev
from waggle.substrates.swarmbench.episode import FOLLOW, SwarmEpisode
from waggle.substrates.swarmbench.sim.config import MOVES, Cell
from waggle.substrates.swarmbench.sim.levels import EMPTY, FOOD, NEST
from waggle.substrates.swarmbench.tasks.base import Landmark
from waggle.substrates.swarmbench.tasks.sites import Sites

Audience = Callable[[SwarmEpisode, int], Iterable[int]]
"""The nodes that hear a node in the current state."""
TASKS = ("pursuit", "foraging", "flocking", "transport")
"""The tasks in which a place can be reported."""
LATE = "contacts late"
"""Contacts hear after the round, as in an episode; in every other reach nodes hear at once."""
COUNTED = "shared clock"
"""The name of the bound of `counted` in tables."""
WALKED = "shortest ways"
"""The name of the bound of `walked` in tables."""
_ALONE = Local((), None)


def _connected(episode: SwarmEpisode, node: int) -> Iterable[int]:
    """Return all nodes that are reached from contact to contact within the round."""
    reached, ring = {node}, [node]
    while ring:
        ring = [m for k in ring for m in episode.neighbours(k) if m not in reached]
        reached.update(ring)
    return reached - {node}


def _within(cells: int) -> Audience:
    def audience(episode: SwarmEpisode, node: int) -> Iterable[int]:
        at = episode.scene.cells
        return [k for k in episode.active() if k != node and chebyshev(at[k], at[node]) <= cells]

    return audience


REACHES: Mapping[str, Audience] = {
    "nobody": lambda episode, node: (),
    LATE: SwarmEpisode.neighbours,
    "contacts": SwarmEpisode.neighbours,
    "flooding": _connected,
    "within 6": _within(6),
    "within 12": _within(12),
    "everyone": _within(1 << 30),
}
"""The nodes that hear of a site, by name of the reach; the first is the private-only episode."""


def play_sharing(case: Case, reach: str) -> float:
    """Play one episode in which places are reported for free to a reach, and return its score.

    Raises:
        ConfigError: if the task has no places or the reach is unknown.
    """
    if reach not in REACHES:
        hint = suggest(reach, list(REACHES))
        raise ConfigError(f"no reach {reach!r}; use one of {', '.join(REACHES)}{hint}")
    episode = SwarmBench().open(case)
    if not episode.behaviour.places:
        raise ConfigError(f"{case.task} has no places to report; use {' or '.join(TASKS)}")
    for _ in range(episode.rounds):
        reports = _reports(episode, REACHES[reach], relayed=reach == "flooding")
        if reach != LATE:
            for write, payload in reports:
                episode.behaviour.receive(write, payload)
        episode.step({node: _act(episode, node) for node in episode.active()})
        if reach == LATE:
            for write, payload in reports:
                episode.receive(write, payload)
        if episode.done():
            break
    return episode.score()["score"]


def _act(episode: SwarmEpisode, node: int) -> Act:
    """Take the private move if the node sees what it wants, else follow the newest report of it."""
    claim = _reported(episode, node)
    if claim is None:
        return Act(episode.sense(node, _ALONE).proposal.action, None, None, None, _ALONE)
    return Act(FOLLOW, None, None, None, _ALONE, claim)


def _reported(episode: SwarmEpisode, node: int) -> str | None:
    """Return the claim to follow, or None: reported, wanted and not seen by the node itself."""
    behaviour, memory = episode.behaviour, episode.scene.memories[node]
    if isinstance(behaviour, Landmark):
        unseen = behaviour.found(node) is None and behaviour.walk(node, behaviour.kind) is not None
        return behaviour.kind if unseen else None
    assert isinstance(behaviour, Sites)
    wanted = behaviour.wants(node)
    sites = [site for site in memory.heard.values() if site.kind == wanted]
    if wanted in memory.seen or not sites:
        return None
    return min(sites, key=lambda s: (-s.round, chebyshev(s.cell, memory.here), s.cell)).claim


def _reports(
    episode: SwarmEpisode, audience: Audience, relayed: bool
) -> list[tuple[Write, object]]:
    """Return what every node hears: the newest report of each claim, from the nearest such node.

    Nodes report what they saw, and what they heard if reports are relayed. All reports are
    captured before the first is delivered, so the order of nodes has no effect. A node that knows
    something at least as new hears nothing.
    """
    nodes, cells = episode.active(), episode.scene.cells
    held = {node: _known(episode, node, heard=True) for node in nodes}
    newest: dict[tuple[int, str], tuple[int, int, Cell, int]] = {}
    for node in nodes:
        known = held[node] if relayed else _known(episode, node, heard=False)
        for hearer in audience(episode, node) if known else ():
            away = chebyshev(cells[node], cells[hearer])
            for claim, round in known.items():
                if held[hearer].get(claim, -1) < round:
                    word = (-round, away, cells[node], node)
                    newest[hearer, claim] = min(word, newest.get((hearer, claim), word))
    reports: list[tuple[Write, object]] = []
    for (hearer, claim), (_, _, _, node) in newest.items():
        write = _write(node, hearer, claim)
        payload = episode.behaviour.payload(write)
        if payload is not None:
            reports.append((write, payload))
    return reports


def _known(episode: SwarmEpisode, node: int, heard: bool) -> dict[str, int]:
    """Return the claims whose places a node knows, each with the round of the sighting."""
    behaviour, memory = episode.behaviour, episode.scene.memories[node]
    if isinstance(behaviour, Landmark):
        cell = behaviour.known(node) if heard else behaviour.found(node)
        return {} if cell is None else {behaviour.kind: 0}
    sites = [*(memory.heard.values() if heard else ()), *memory.seen.values()]
    return {site.claim: site.round for site in sites}


def _write(sender: int, receiver: int, claim: str) -> Write:
    return Write(sender, receiver, claim, MAX_BIN, MAX_BIN, 0, MAX_TTL, None, True)


def counted(case: Case) -> float:
    """Return the score of Synchronization if all agents count the same rounds.

    Raises:
        ConfigError: if the task is not synchronization.
    """
    if case.task != "synchronization":
        raise ConfigError(f"{case.task} has no lights to switch; use synchronization")
    episode = SwarmBench().open(case)
    while not episode.done():
        begun = episode.scene.world.round > 0
        views = {node: episode.sense(node, _ALONE).observation for node in episode.active()}
        flip = [node for node, seen in views.items() if begun or seen["light"] == "off"]
        episode.step({node: Act("SWITCH", None, None, None, _ALONE) for node in flip})
    return episode.score()["score"]


def walked(case: Case) -> int:
    """Return how many pieces the agents of a Foraging case bring home if each walks alone.

    Every agent knows the map, takes shortest paths one cell per round and blocks no other. Only
    being pushed along by others, in addition to an own step, could bring more.

    Raises:
        ConfigError: if the task is not foraging.
    """
    if case.task != "foraging":
        raise ConfigError(f"{case.task} has no food to bring home; use foraging")
    grid = SwarmBench().open(case).scene.world
    most = deliveries(grid.terrain, grid.config.max_round)
    return sum(int(most[cell]) for cell in grid.agents)


def deliveries(terrain: Sequence[str], rounds: int) -> NDArray[np.int64]:
    """Return for every cell how many pieces an agent that starts there can bring home.

    Counted backwards from the last round. With d the steps between cells beside the sites it is
    1 + floor((rounds - d(start, food) - d(food, nest)) / (2 d(food, nest))) if there is time for
    one; less if the nearest cells beside a site differ from path to path, or if the agent starts
    beside food, which is picked up at the end of a round.
    """
    place = np.array([list(row) for row in terrain])
    beside_food, beside_nest = _beside(place == FOOD), _beside(place == NEST)
    empty = laden = np.zeros(place.shape, dtype=np.int64)
    for _ in range(rounds):
        home = np.where(beside_nest, 1 + empty, laden)
        idle = np.where(beside_food, home, empty)
        empty, laden = (_step(np.where(place == EMPTY, end, -1)) for end in (idle, home))
    return empty


def _beside(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.any([np.roll(cells, move, (0, 1)) for move in MOVES], axis=0)
    return found


def _step(worth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the best worth within one step; the map's outer wall prevents wrap-around."""
    ways = [worth, *(np.roll(worth, move, (0, 1)) for move in MOVES)]
    best: NDArray[np.int64] = np.max(ways, axis=0)
    return best
