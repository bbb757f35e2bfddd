"""Does the credit of `waggle learn` find leader election, with a table in place of a law?

    python -m lab.leader_election --temperature 2 --batches 60 --seed 0

World, runtime, replays and credit are those that train laws; only the law is a table, which needs
no GPU. Its rows say whether the own priority is the smallest held, whether the node answers Yes,
whether some contact lacks the smallest, and whether a contact answers Yes. It begins as laws do: it
answers No, tells its own claim and passes nothing on. Prints the mean score of the sampled episodes
and that of the most likely decisions on development cases.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from waggle import plugins
from waggle.core.protocols import Decode, Request, World
from waggle.core.record import RoundRecord
from waggle.core.relations import relay_ttl
from waggle.core.schema import BROADCAST, MAX_BIN, MAX_TTL, Decision, Trace, View
from waggle.core.seeds import generator, mix
from waggle.laws import moves
from waggle.learn.config import Settings, development_cases, training_cases
from waggle.learn.credit import Batch, progress
from waggle.learn.decisions import Decided, pack, stack
from waggle.learn.luck import Job, jobs_of, open_sampled
from waggle.learn.rollout import discounted, shares
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, play_together

Row = tuple[int, ...]
ANSWERS = "No", "Yes"
MESSAGES = "own", "smallest", "none"
HEAD_START = 6.0
"""How far the logits of what it does at first are above the others."""
STEP = 0.5
"""The most that a logit moves in a batch."""


class Table:
    """Draws an answer and a message by the row of a view."""

    name: ClassVar[str] = "table"
    order: ClassVar[Literal["shuffled"]] = "shuffled"

    def __init__(self, temperature: float) -> None:
        self.temperature, self.greedy = temperature, False
        self.logits = [np.zeros((2, 2, 2, 2, len(names))) for names in (ANSWERS, MESSAGES)]
        for logits in self.logits:
            logits[..., 0] = HEAD_START
        self.drawn: list[tuple[Row, list[int]]] = []
        self.place: dict[int, int] = {}
        """By the draw of an update: where in `drawn` it stands."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(self._decision(request)) for request in requests]

    def chances(self, row: Row) -> list[NDArray[np.float64]]:
        """Return the chances of answers and of messages."""
        logits = [table[row] / self.temperature for table in self.logits]
        found = [np.exp(some - some.max()) for some in logits]
        return [some / some.sum() for some in found]

    def _decision(self, request: Request) -> Decision:
        row, draws = row_of(request.view), generator(request.entropy, "table")
        taken = [
            int(chances.argmax() if self.greedy else draws.choice(len(chances), p=chances))
            for chances in self.chances(row)
        ]
        self.place[request.entropy] = len(self.drawn)
        self.drawn.append((row, taken))
        return Decision(ANSWERS[taken[0]], None, written(request.view, MESSAGES[taken[1]]), None)


def row_of(view: View) -> Row:
    """Return the row of a view."""
    shown = view.private.observation
    smallest = next(row for row in view.private.claims if row.facts["order"] == 0)
    contacts = [port.facts.get("answer") for port in view.private.channels]
    told = (
        shown["order"] == 0,
        shown["answer"] == "Yes",
        smallest.facts["untold"],
        "Yes" in contacts,
    )
    return tuple(int(bool(fact)) for fact in told)


def written(view: View, message: str) -> tuple[Trace, ...]:
    """Return the deposits of a message."""
    smallest = next(row for row in view.private.claims if row.facts["order"] == 0)
    if view.budget == 0 or message == "none":
        return ()
    if message == "own" or smallest.facts["own"]:
        own = view.private.evidence[0]
        return (Trace(BROADCAST, own.claim, own.novelty, MAX_BIN, 0, MAX_TTL),)
    alive = [trace for trace in view.traces if trace.claim == smallest.claim and relay_ttl(trace)]
    longest = max(alive, key=lambda t: (t.ttl, t.novelty, t.support), default=None)
    return () if longest is None else (moves.relay(longest, BROADCAST),)


def sampled(settings: Settings, law: Table, jobs: Sequence[Job]) -> Batch:
    """Play episodes and return them with what stood to each node's credit."""
    memories = [Memory() for _ in jobs]
    stood: list[list[NDArray[np.float64]]] = [[] for _ in jobs]

    def note(place: int, _entry: RoundRecord, world: World) -> None:
        near = shares(world, "standing", own=0.5)
        assert near is not None
        stood[place].append(near)

    def engines() -> Iterator[Engine]:
        for place, job in enumerate(jobs):
            yield open_sampled(job, law, memories[place], watch=partial(note, place))

    for _ in play_together(engines(), law, 1_024):
        pass
    ways, decided, scores = [], [], []
    for job, memory, values in zip(jobs, memories, stood, strict=True):
        record = memory.record()
        way, fork = discounted(np.stack(values), settings.discount), job.fork(record.header.rounds)
        way[:fork] = np.nan
        some = [
            Decided([law.place[mix(u.entropy, job.luck)]], [], [], u.node, entry.round, True)
            for entry in record.rounds[fork:]
            for u in entry.updates
        ]
        decided.append(pack(some, [float("nan")] * len(some)))
        ways.append(way)
        scores.append(record.footer.scores["score"])
    return Batch(stack(decided), np.array(scores), [None] * len(jobs), settings.replays, ways)


def learn(law: Table, batch: Batch) -> None:
    """Move the logits by the advantage of what was drawn."""
    slopes = [np.zeros_like(logits) for logits in law.logits]
    for place, worth in zip(batch.decisions.ids, progress(batch), strict=True):
        row, taken = law.drawn[place]
        for slope, chances, move in zip(slopes, law.chances(row), taken, strict=True):
            slope[row] -= worth * chances
            slope[(*row, move)] += worth
    for logits, slope in zip(law.logits, slopes, strict=True):
        logits += STEP * np.clip(slope / (30 * law.temperature), -1, 1)


def development_score(settings: Settings, law: Table) -> float:
    """Return the mean score of the most likely decisions."""
    law.greedy = True
    cases = development_cases(settings, 9, final=True)
    world = plugins.get_substrate("agentsnet").open
    engines = [Engine(world(case), law, case, order=law.order) for case in cases]
    ended = [footer.scores["score"] for _, footer in play_together(engines, law, 1_024)]
    law.greedy = False
    return float(np.mean(ended))


def main() -> None:
    """Learn, and print a line for every ten batches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    settings = Settings(
        tasks=("agentsnet/leader_election",), n=(6, 8, 11, 13, 16), credit="progress", discount=0.9,
        vary={"family": ("ws", "ba", "dt"), "index": (0, 1, 2)}, cases=12, replays=8,
    )  # fmt: skip
    law = Table(given.temperature)
    for batch in range(1, given.batches + 1):
        law.drawn.clear()
        cases = training_cases(settings, given.seed, batch)
        jobs = jobs_of(cases, settings.replays, given.seed, batch, trunk=True)
        found = sampled(settings, law, jobs)
        learn(law, found)
        if batch % 10 == 0:
            greedy = development_score(settings, law)
            print(f"batch {batch}: sampled {found.rewards.mean():.2f}, most likely {greedy:.2f}")


if __name__ == "__main__":
    main()
