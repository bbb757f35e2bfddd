"""The official SwarmBench observation: a window of tokens, messages within reach, task extras.

Recorded episodes contain these observations; our own agents get different ones. Invariant: an
observation depends only on the state after the last round, never on actions of the same round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waggle.substrates.swarmbench.sim.levels import BOX, PREY
from waggle.substrates.swarmbench.sim.physics import PAD
from waggle.substrates.swarmbench.sim.rules import Foraging, Pursuit, Synchronization
from waggle.substrates.swarmbench.sim.world import GridWorld

OUTSIDE = "*"


class Spoken:
    """The messages of a world's last round."""

    def __init__(self, world: GridWorld) -> None:
        self._world = world
        self._last: list[tuple[int, str]] = []

    def say(self, messages: Mapping[int, str]) -> None:
        """Store the messages of a round before it is played, except those of escaped agents."""
        gone = self._world.escaped
        self._last = [(a, messages[a]) for a in sorted(messages) if messages[a] and not gone[a]]

    def heard(self, agent: int) -> list[tuple[int, str]]:
        """Return the messages within an agent's reach, ordered by sender, its own included."""
        reach, agents = self._world.config.view_size // 2, self._world.agents
        i, j = agents[agent]
        return [
            (sender, text)
            for sender, text in self._last
            if abs(agents[sender][0] - i) <= reach and abs(agents[sender][1] - j) <= reach
        ]


def token_rows(world: GridWorld) -> list[list[str]]:
    """Return the tokens of the map in a margin of outside marks; agents appear as their ids."""
    margin = world.config.view_size + PAD
    side = [OUTSIDE] * margin
    blank = [OUTSIDE] * (world.config.width + 2 * margin)
    rows = [side + list(row) + side for row in world.terrain]
    rows = [blank] * margin + rows + [blank] * margin
    for agent, (i, j) in enumerate(world.agents):
        if not world.escaped[agent]:
            token = f"${agent}" if world.rules.dimmed(agent) else str(agent)
            rows[i + margin][j + margin] = token
    if isinstance(world.rules, Pursuit):
        i, j = world.rules.prey
        rows[i + margin][j + margin] = PREY
    for c in world.physics.box:
        if world.physics.inside[c]:
            i, j = world.physics.cell(c)
            rows[i + margin][j + margin] = BOX
    return rows


def window(world: GridWorld, rows: Sequence[Sequence[str]], agent: int) -> list[list[str]]:
    """Cut the window around an agent out of the tokens of the map."""
    k = world.config.view_size
    i, j = world.physics.cell(world.physics.pos[agent])
    top, left = i - k // 2 + k + PAD, j - k // 2 + k + PAD
    return [list(row[left : left + k]) for row in rows[top : top + k]]


def extra(world: GridWorld, agent: int) -> dict[str, object]:
    """Return the fields that the task adds to an agent's observation."""
    rules = world.rules
    if isinstance(rules, Synchronization):
        return {"light_on": rules.lights[agent]}
    if isinstance(rules, Foraging):
        return {"carrying_food": rules.carrying[agent]}
    return {"score": int(rules.score)} if isinstance(rules, Pursuit) else {}
