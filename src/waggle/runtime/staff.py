"""Calls to the private workers of an episode, before views are built.

The workers of all nodes that are due are called in one batch. Under the schedule `reuse`, a node
keeps its latest proposal while deliveries and its own evidence are unchanged. If a worker fails or
its answer is refused, the node keeps its latest proposal, or waits if it has none. Failed calls and
refused answers are counted separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from waggle.core.errors import ConfigError
from waggle.core.protocols import Usage, World
from waggle.core.record import EpisodeRecord, WorkRecord
from waggle.core.schema import Json
from waggle.core.seeds import mix
from waggle.core.worker import Desk, Schedule, Work, Workplace
from waggle.runtime.state import Swarm
from waggle.runtime.views import draw_of

_STREAM = 1 << 33
"""Offset that separates the draws of workers from those of the law."""


class Refusal(NamedTuple):
    """An answer of a private worker that the world refused."""

    answer: Json
    actions: tuple[str, ...]
    """The legal answers; empty if there is no list of them."""


class Staff:
    """The private workers of one episode, and the latest answered request of every node."""

    refusal: Refusal | None = None
    """The first answer that was refused."""

    def __init__(self, desk: Desk, schedule: Schedule = "full") -> None:
        self._desk = desk
        self._schedule = schedule
        self._solved: dict[int, Work] = {}
        """Node -> the request that its latest proposal answers."""
        self.about: Mapping[str, Json] = {**desk.about, "schedule": schedule}
        """Its description in the header of the record."""

    def open(self, world: World) -> None:
        """Make a world take its proposals from workers."""
        if not isinstance(world, Workplace):
            raise ConfigError(
                f"{world.contract.task} has no private workers; give its world staff(), work() and "
                "adopt(), or leave --worker out"
            )
        world.staff()

    def refresh(self, swarm: Swarm, nodes: Sequence[int], round: int) -> dict[int, WorkRecord]:
        """Call the workers that are due; return the record of each call, by node."""
        asked = self._due(swarm, nodes, round)
        answers = self._desk.answer([work for _, work in asked]) if asked else ()
        done = {}
        for (node, work), answer in zip(asked, answers, strict=True):
            done[node] = _adopted(swarm.world, node, answer.value, answer.usage)
            if done[node].answer is not None:  # else it is called again at the next update
                self._solved[node] = work
            elif self.refusal is None and not answer.usage.failures:
                self.refusal = Refusal(answer.value, work.actions)
        return done

    def _due(self, swarm: Swarm, nodes: Sequence[int], round: int) -> list[tuple[int, Work]]:
        world: Any = swarm.world
        due = []
        for node in nodes:
            work = world.work(node, swarm.local(node))
            if self._schedule == "reuse" and _same(work, self._solved.get(node)):
                continue
            if self._desk.sampled:
                draw = mix(swarm.nodes[node].seed, _STREAM + round)
                work = msgspec.structs.replace(work, entropy=draw)
            due.append((node, work))
        return due


def _same(work: Work, before: Work | None) -> bool:
    """Return whether deliveries and own evidence are those of the latest answered request."""
    return (
        before is not None and work.version == before.version and work.delivered == before.delivered
    )


def _adopted(world: Any, node: int, value: Json, usage: Usage) -> WorkRecord:
    """Hand an answer to the world, which may refuse it."""
    adopted = value is not None and world.adopt(node, value)
    return WorkRecord(value if adopted else None, usage)


class RecordedStaff(Staff):
    """Returns recorded answers; the node's random draw identifies the update."""

    def __init__(self, record: EpisodeRecord) -> None:
        self.about = record.header.worker
        self._done = {
            u.entropy: u.work for r in record.rounds for u in r.updates if u.work is not None
        }

    def refresh(self, swarm: Swarm, nodes: Sequence[int], round: int) -> dict[int, WorkRecord]:
        """Adopt the recorded answers."""
        found = {}
        for node in nodes:
            done = self._done.get(draw_of(swarm.nodes[node], round))
            if done is not None:
                found[node] = _adopted(swarm.world, node, done.answer, done.usage)
        return found
