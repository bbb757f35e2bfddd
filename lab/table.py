"""A table in place of a law: can a credit of `waggle learn` find a good rule at all?

The world, runtime, replays and credit are those that train laws; only the law is a table, which
needs no GPU. The table has one row for every kind of view that a game distinguishes, with one logit
for every option that can be chosen there. It begins as the shipped law does, with one option far
above the others. `leader_election` and `synchronization` are such games.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from waggle import plugins
from waggle.core.protocols import Decode, Request
from waggle.core.schema import Decision, View
from waggle.core.seeds import generator, mix
from waggle.learn.config import Settings, development_cases, training_cases
from waggle.learn.credit import Batch, progress
from waggle.learn.decisions import SampledDecision, pack, stack
from waggle.learn.luck import Job, SampledEpisode, jobs_of
from waggle.learn.rollout import append_rewards, returns
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, play_together

Row = tuple[int, ...]
STEP = 4.0
"""How far a logit moves per batch for a mean advantage of one."""
FEW = 8
"""Draws of zero advantage added to those of every option, so that rare options move little."""
COUNT = 9
"""Development cases of each size."""


class Game(Protocol):
    """The rows that a table distinguishes, and the options it chooses from."""

    settings: Settings
    rows: tuple[int, ...]
    """The number of values of each component of a row."""
    choices: tuple[tuple[str, ...], ...]
    """The choices of a decision, each with its options; the table begins with the first option."""
    head_start: float
    """How far the initial logit of the first option is above the others."""

    def row(self, view: View) -> Row:
        """Return the row of a view."""

    def decision(self, view: View, taken: Sequence[str]) -> Decision:
        """Return the decision for the chosen options."""


class Table:
    """A law that draws its choices from the table row of each view."""

    name: ClassVar[str] = "table"
    order: ClassVar[Literal["shuffled"]] = "shuffled"

    def __init__(self, game: Game, temperature: float) -> None:
        self.game, self.temperature, self.greedy = game, temperature, False
        self.logits = [np.zeros((*game.rows, len(names))) for names in game.choices]
        for logits in self.logits:
            logits[..., 0] = game.head_start
        self.drawn: list[tuple[Row, list[int]]] = []
        self.place: dict[int, int] = {}
        """The index in `drawn` of every update, by the entropy of its request."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(self._decision(request)) for request in requests]

    def _decision(self, request: Request) -> Decision:
        row, draws = self.game.row(request.view), generator(request.entropy, "table")
        taken = [
            int(chances.argmax() if self.greedy else draws.choice(len(chances), p=chances))
            for chances in self._chances(row)
        ]
        self.place[request.entropy] = len(self.drawn)
        self.drawn.append((row, taken))
        names = [some[move] for some, move in zip(self.game.choices, taken, strict=True)]
        return self.game.decision(request.view, names)

    def _chances(self, row: Row) -> list[NDArray[np.float64]]:
        logits = [table[row] / self.temperature for table in self.logits]
        found = [np.exp(some - some.max()) for some in logits]
        return [some / some.sum() for some in found]

    def learn(self, batch: Batch) -> None:
        """Move every logit in proportion to the mean advantage of its draws."""
        sums = [np.zeros_like(logits) for logits in self.logits]
        counts = [np.full_like(logits, FEW) for logits in self.logits]
        for place, advantage in zip(batch.decisions.ids, progress(batch), strict=True):
            row, taken = self.drawn[place]
            for total, count, move in zip(sums, counts, taken, strict=True):
                total[(*row, move)] += advantage
                count[(*row, move)] += 1
        for logits, total, count in zip(self.logits, sums, counts, strict=True):
            logits += STEP * total / count
        self.drawn.clear()
        self.place.clear()


def sampled(settings: Settings, law: Table, jobs: Sequence[Job]) -> Batch:
    """Play episodes and return them as a batch with every node's discounted local rewards."""
    memories = [Memory() for _ in jobs]
    stood: list[list[NDArray[np.float64]]] = [[] for _ in jobs]

    def engines() -> Iterator[Engine]:
        for place, job in enumerate(jobs):
            watch = partial(append_rewards, settings, stood[place])
            yield SampledEpisode(job, law, sinks=[memories[place]], watch=watch)

    for _ in play_together(engines(), law, 1_024):
        pass
    ways, decided, scores = [], [], []
    for job, memory, values in zip(jobs, memories, stood, strict=True):
        record = memory.record()
        fork = job.fork(record.header.rounds)
        way = returns(values, settings, fork)
        some = [
            SampledDecision(
                [law.place[mix(u.entropy, job.luck)]], [], [], u.node, entry.round, True
            )
            for entry in record.rounds[fork:]
            for u in entry.updates
        ]
        decided.append(pack(some, [float("nan")] * len(some)))
        ways.append(way)
        scores.append(record.footer.scores["score"])
    return Batch(stack(decided), np.array(scores), [None] * len(jobs), settings.replays, ways)


def development_score(settings: Settings, law: Table) -> float:
    """Return the mean score of the most likely decisions on development cases."""
    law.greedy = True
    cases = development_cases(settings, COUNT, final=True)
    engines = [
        Engine(plugins.get_substrate(case.substrate).open(case), law, case, order=law.order)
        for case in cases
    ]
    ended = [footer.scores["score"] for _, footer in play_together(engines, law, 1_024)]
    law.greedy = False
    return float(np.mean(ended))


def play(game: Game, description: str, temperature: float, far: Sequence[Settings] = ()) -> None:
    """Train, and print a line every ten batches; cases of `far` are only evaluated."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--temperature", type=float, default=temperature)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    settings, law = game.settings, Table(game, given.temperature)
    for batch in range(1, given.batches + 1):
        cases = training_cases(settings, given.seed, batch)
        jobs = jobs_of(cases, settings.replays, given.seed, batch, trunk=True)
        found = sampled(settings, law, jobs)
        law.learn(found)
        if batch % 10 == 0:
            greedy = [f"{development_score(some, law):.2f}" for some in (settings, *far)]
            print(
                f"batch {batch}: sampled {found.rewards.mean():.2f}, "
                f"most likely {', '.join(greedy)}",
                flush=True,
            )
