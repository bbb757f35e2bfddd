"""Ceilings: Pursuit and Foraging with free telling, and what the ways of Foraging allow at all.

    score = play_told(Case("swarmbench", "pursuit", 16, 10_000), "contacts")
    most = walked(Case("swarmbench", "foraging", 16, 10_000))

Every body keeps its private proposals and follows what it was told exactly as the compiler follows
a field, but nobody decides: whoever knows a site tells it every round, at once, at no cost, without
suppression and without trace lifetimes. Only the reach varies, and once the moment of hearing.
Invariant: with the reach `nobody` an episode is the private-only episode.

`walked` knows the map and plays nothing: every agent walks as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Act, Case, Local, Write
from waggle.core.schema import MAX_BIN, MAX_TTL
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.compass import reach
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.sim.config import MOVES
from waggle.substrates.swarmbench.sim.level import EMPTY, FOOD, NEST
from waggle.substrates.swarmbench.tasks.sites import Sites

Audience = Callable[[SwarmEpisode, int], Iterable[int]]
"""Whom a node tells in the present state."""
TASKS = ("pursuit", "foraging")
"""The tasks in which a site can be told."""
LATE = "contacts late"
"""Contacts hear after the round, as messages of an episode do; every other reach hears at once."""
WALKED = "shortest ways"
"""What tables call the bound of `walked`."""
_ALONE = Local((), None)


def _nobody(episode: SwarmEpisode, node: int) -> Iterable[int]:
    return ()


def _contacts(episode: SwarmEpisode, node: int) -> Iterable[int]:
    return episode.neighbours(node)


def _connected(episode: SwarmEpisode, node: int) -> Iterable[int]:
    """Everyone who is reached from contact to contact within the round."""
    reached, ring = {node}, [node]
    while ring:
        ring = [m for k in ring for m in episode.neighbours(k) if m not in reached]
        reached.update(ring)
    return reached - {node}


def _within(cells: int) -> Audience:
    def audience(episode: SwarmEpisode, node: int) -> Iterable[int]:
        where = episode.scene.cells
        return [k for k in episode.active() if k != node and reach(where[k], where[node]) <= cells]

    return audience


REACHES: Mapping[str, Audience] = {
    "nobody": _nobody,
    LATE: _contacts,
    "contacts": _contacts,
    "flooding": _connected,
    "within 6": _within(6),
    "within 12": _within(12),
    "everyone": _within(1 << 30),
}
"""Who hears of a site, by name; the first is the private-only episode."""


def play_told(case: Case, telling: str) -> float:
    """Play one episode in which a site is told for free to a reach, and return its score.

    Raises:
        ConfigError: if the task has no sites or the reach is unknown.
    """
    if telling not in REACHES:
        hint = suggest(telling, list(REACHES))
        raise ConfigError(f"no reach {telling!r}; use one of {', '.join(REACHES)}{hint}")
    episode = SwarmBench().open(case)
    sites = episode.behaviour
    if not isinstance(sites, Sites):
        raise ConfigError(f"{case.task} has no sites to tell of; use {' or '.join(TASKS)}")
    for _ in range(episode.rounds):
        said = _said(episode, sites, REACHES[telling], relayed=telling == "flooding")
        if telling != LATE:
            for write, payload in said:
                sites.receive(write, payload)
        episode.step({node: _act(episode, sites, node) for node in episode.active()})
        if telling == LATE:
            for write, payload in said:
                episode.receive(write, payload)
        if episode.done():
            break
    return episode.score()["score"]


def _act(episode: SwarmEpisode, sites: Sites, node: int) -> Act:
    """Own eyes first; one that was only told follows the field (the compiler's FIELD)."""
    seen = sites.wants(node) in episode.scene.memories[node].seen
    proposal = episode.sense(node, _ALONE).proposal
    return Act(proposal.action, None, None, "PRIVATE" if seen else "FIELD", _ALONE)


def _said(
    episode: SwarmEpisode, sites: Sites, audience: Audience, relayed: bool
) -> list[tuple[Write, object]]:
    """Return what every node tells its audience: what it saw (and was told, where relayed).

    All of it is captured before the first is taken in, so the order of nodes decides nothing.
    Word is not repeated to a hearer who has it as new already: at most its way there could be told
    a little shorter, and the table would take many times as long.
    """
    memories = episode.scene.memories
    said: list[tuple[Write, object]] = []
    for node in episode.active():
        known = [*memories[node].seen.values()]
        if relayed:
            known += memories[node].told.values()
        audible = list(audience(episode, node)) if known else []
        for site in known:
            hearers = [k for k in audible if not _knows(memories[k], site)]
            if hearers:
                payload = sites.payload(_write(node, hearers[0], site.claim))
                said += [(_write(node, hearer, site.claim), payload) for hearer in hearers]
    return said


def _knows(memory: Memory, site: Site) -> bool:
    """Whether an agent has word of a claim that is at least as new as this site."""
    own = memory.seen.get(site.claim.partition(":")[0])
    told = memory.told.get(site.claim)
    return any(s and s.claim == site.claim and s.round >= site.round for s in (own, told))


def _write(sender: int, receiver: int, claim: str) -> Write:
    return Write(sender, receiver, claim, MAX_BIN, MAX_BIN, 0, MAX_TTL, None, True)


def walked(case: Case) -> int:
    """Return how many pieces the agents of a Foraging case bring home if each walks alone.

    Everyone knows the map, takes shortest ways one cell a round and stands in nobody's way. Only
    being pushed along by others, on top of an own step, could bring more.

    Raises:
        ConfigError: if the task is not foraging.
    """
    if case.task != "foraging":
        raise ConfigError(f"{case.task} has no food to bring home; use foraging")
    grid = SwarmBench().open(case).scene.world
    most = deliveries(grid.terrain, grid.config.max_round)
    return sum(int(most[cell]) for cell in grid.agents)


def deliveries(terrain: Sequence[str], rounds: int) -> NDArray[np.int64]:
    """Return for every cell how many pieces one who starts there empty-handed can bring home.

    Counted backwards from the last round. With d the steps between cells beside the sites it is
    1 + floor((rounds - d(start, food) - d(food, nest)) / (2 d(food, nest))) where there is time for
    one; less where the nearest cells beside a site differ from way to way, or where one starts
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
    """Return the best worth within one step; the map's frame keeps opposite edges apart."""
    ways = [worth, *(np.roll(worth, move, (0, 1)) for move in MOVES)]
    best: NDArray[np.int64] = np.max(ways, axis=0)
    return best
