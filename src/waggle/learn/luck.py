"""Episodes with luck: the same case, sampled several times.

Luck is the seed of an episode's sampling. The world draws only from the seed of the case; the law
samples with the node's draw mixed with the luck. Replays of a case (a group in GRPO) may have a
trunk: they share the luck of their first rounds, and each has a different luck from the round in
which they fork. Invariant: the decisions of an episode depend only on weights, case and luck.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.seeds import derive, mix
from waggle.laws.local import LocalLaw, Sample
from waggle.runtime.recorder import Sink
from waggle.runtime.sync import Engine, Watcher

WIDTH = 1_024
"""Target number of requests per batch of the law, as long as there are enough episodes."""


class Job(NamedTuple):
    """One episode to sample."""

    case: Case
    luck: int
    trunk: int | None = None
    """The luck of the first rounds, shared by the replays of a case; None for no shared rounds."""

    def fork(self, rounds: int) -> int:
        """Return the first of `rounds` rounds that uses `luck` instead of the trunk's."""
        return 0 if self.trunk is None else derive(self.trunk, "fork") % rounds

    def luck_in(self, round: int, rounds: int) -> int:
        """Return the luck of a round in an episode of `rounds` rounds."""
        return self.luck if self.trunk is None or round >= self.fork(rounds) else self.trunk


def jobs_of(
    cases: Sequence[Case], replays: int, seed: int, batch: int, *, trunk: bool = False
) -> list[Job]:
    """Return the episodes of a batch: `replays` episodes of each case, ordered by case.

    With a trunk, the replays of a case share their first rounds and then fork.
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
    """An episode whose law samples with the luck of its job."""

    def __init__(
        self, job: Job, law: Law, *, sinks: Sequence[Sink] = (), watch: Watcher | None = None
    ) -> None:
        """Open the world of the job; sinks and `watch` are as in `Engine`."""
        world = plugins.get_substrate(job.case.substrate).open(job.case)
        super().__init__(world, law, job.case, sinks=sinks, watch=watch)
        self.job = job

    def _play_round(self, round: int) -> Generator[Sequence[Request], Sequence[Decode], None]:
        """Play a round with the luck mixed into the entropy of its requests."""
        inner, luck = super()._play_round(round), self.job.luck_in(round, self.world.rounds)
        try:
            requests = next(inner)
            while True:
                requests = inner.send((yield [lucky(r, luck) for r in requests]))
        except StopIteration:
            return


def lucky(request: Request, luck: int) -> Request:
    """Return the request with this luck mixed into its entropy."""
    return msgspec.structs.replace(request, entropy=mix(request.entropy, luck))


class Sampler:
    """A law that samples, and stores the first sample of every request by its entropy.

    Requests of equal entropy must show the same view, as those of a trunk do.
    """

    def __init__(self, law: LocalLaw) -> None:
        self.name, self.order = law.name, law.order
        self.samples: dict[int, Sample] = {}
        self._law = law

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Sample a decision for every request; first requests of equal entropy share a sample."""
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
