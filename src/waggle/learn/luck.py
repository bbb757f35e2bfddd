"""Episodes with luck: the same case, sampled several times.

Luck is the seed of an episode's sampling. The world draws by the seed of the case alone; the law
samples by the node's own draw, mixed with the luck. Replays of a case (a group in GRPO) may have a
trunk: they share the luck of their first rounds, and each has its own from the round on in which
they fork. Invariant: what an episode decides depends on weights, case and luck alone.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import msgspec

from waggle import plugins
from waggle.core.protocols import Case, Decode, Request
from waggle.core.seeds import derive, mix
from waggle.laws.local import LocalLaw, Sample
from waggle.runtime.recorder import Sink
from waggle.runtime.sync import Engine, Watcher

WIDTH = 1_024
"""Requests that one batch of the law should hold, while episodes last."""


class Job(NamedTuple):
    """One episode to sample."""

    case: Case
    luck: int
    trunk: int | None = None
    """The luck of its first rounds, which the replays of a case have in common; None for none."""

    def fork(self, rounds: int) -> int:
        """Return the round from which an episode of so many has a luck of its own."""
        return 0 if self.trunk is None else derive(self.trunk, "fork") % rounds

    def luck_in(self, round: int, rounds: int) -> int:
        """Return the luck of a round, in an episode of so many."""
        return self.luck if self.trunk is None or round >= self.fork(rounds) else self.trunk


def jobs_of(
    cases: Sequence[Case], replays: int, seed: int, batch: int, *, trunk: bool = False
) -> list[Job]:
    """Return the episodes of a batch: so many replays of each case, case by case.

    With a trunk, those of a case begin alike and fork in some round.
    """
    return [
        Job(
            case, derive(seed, "luck", batch, place, replay),
            derive(seed, "trunk", batch, place) if trunk else None,
        )
        for place, case in enumerate(cases)
        for replay in range(replays)
    ]  # fmt: skip


class SampledEpisode(Engine):
    """An episode whose law draws with luck of its own."""

    job: Job

    def _play_round(self, round: int) -> Generator[Sequence[Request], Sequence[Decode], None]:
        """Play a round whose requests have their entropy mixed with the luck."""
        inner, luck = super()._play_round(round), self.job.luck_in(round, self.world.rounds)
        try:
            requests = next(inner)
            while True:
                requests = inner.send((yield [lucky(r, luck) for r in requests]))
        except StopIteration:
            return


def lucky(request: Request, luck: int) -> Request:
    """Return a request whose draw is that of an episode with this luck."""
    return msgspec.structs.replace(request, entropy=mix(request.entropy, luck))


class Sampler:
    """A law that samples, and remembers the first decode of every request by its entropy."""

    def __init__(self, law: LocalLaw) -> None:
        self.name, self.order = law.name, law.order
        self.samples: dict[int, Sample] = {}
        self._law = law

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Sample a decision for every request; the same draw in the same view is made once."""
        again = [request for request in requests if request.feedback]
        fresh = {
            request.entropy: request
            for request in requests
            if not request.feedback and request.entropy not in self.samples
        }
        new = [*fresh.values(), *again]
        found = self._law.sample(new) if new else []
        self.samples.update(zip(fresh, found, strict=False))
        second = iter(found[len(fresh) :])
        return [
            (next(second) if request.feedback else self.samples[request.entropy]).decode
            for request in requests
        ]


def open_sampled(job: Job, law: Any, *sinks: Sink, watch: Watcher | None = None) -> SampledEpisode:
    """Return the engine of an episode, ready to play."""
    world = plugins.get_substrate(job.case.substrate).open(job.case)
    engine = SampledEpisode(world, law, job.case, order=law.order, sinks=sinks, watch=watch)
    engine.job = job
    return engine
