"""Harvest: very many labelled views at once, played, labelled and ordered in one go.

A large corpus for a free teacher needs no files between its steps: a worker plays an episode (or
makes bundles), asks the expert about every view the moment a node sees it, and hands out (view,
decision) pairs. Episodes are steered by several laws, among them the expert with some of its
choices replaced, so that the teacher is asked about states it would not itself reach.

Invariant: jobs are a pure function of the settings and of one another independent, so the harvest
is the same however many workers share it. Only training seeds, never a transfer task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from waggle import plugins
from waggle.core.admit import violations
from waggle.core.canon import check_view
from waggle.core.order import Order, canonical
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Decision, View
from waggle.core.seeds import Split, derive, mix, require
from waggle.corpus.draw import Draw
from waggle.corpus.frames import made_up_frame, native_frame
from waggle.corpus.native import open_case, training_tasks
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.situations import SITUATIONS, make
from waggle.runtime.sync import Engine

SEEDS = {"train": range(6_000), "validation": range(6_000, 7_000)}
"""Episode seeds by split, all of them training seeds."""
HORIZON = {"silo": (9, 18), "swarmbench": (100, 100)}
"""Updates of a plain and of a shocked episode; other substrates take their own horizon."""
BUNDLES = 25
"""Bundles of one job."""
FRAMES = 40
"""Native views that the bundles of one job take their task side from."""
NOISE = 12
"""Of a hundred choices of `noisy-expert`, how many are any legal decision instead."""

Pair = tuple[View, Decision]


class Job(NamedTuple):
    """One piece of work: an episode, or some bundles where `law` is empty."""

    case: Case
    law: str
    salt: int


def plan(settings: HarvestSettings, split: str) -> list[Job]:
    """Return the jobs of a split, families and bundles apart, in a fixed order."""
    tasks = training_tasks(settings.tasks)
    families = list(dict.fromkeys(task.substrate for task in tasks))
    held_out = settings.held_out if split != "train" else None
    jobs: list[Job] = []
    for family in families:
        quota = settings.native if held_out is None else held_out
        own = [task for task in tasks if task.substrate == family]
        jobs += _episodes(settings, split, own, quota // len(families))
    count = settings.synthetic if held_out is None else held_out
    return [*jobs, *_bundles(settings, split, tasks, count)]


def _episodes(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], quota: int
) -> Iterator[Job]:
    """Deal episodes until their updates add up; every size gets about the same share of them."""
    sizes = [n for n in settings.n for _ in range(max(settings.n) // n)]
    root = derive(settings.seed, "harvest", split, tasks[0].substrate)
    planned = number = 0
    while planned < quota:
        draw = Draw(root, "episode", number)
        task = tasks[number % len(tasks)]
        shock = draw.chance(50)
        rounds = settings.rounds or HORIZON.get(task.substrate, (None, None))[shock]
        n, law = draw.choice(sizes), draw.choice(settings.laws)
        seed = require(draw.choice(SEEDS[split]), Split.TRAIN)
        yield Job(Case(task.substrate, task.task, n, seed, rounds, shock), law, draw.bits())
        planned += n * (rounds or 10)
        number += 1


def _bundles(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], count: int
) -> Iterator[Job]:
    """Deal bundle jobs; each takes its native frames from a small episode of one task."""
    root = derive(settings.seed, "harvest bundles", split)
    for number in range(-(-count // (BUNDLES * len(SITUATIONS)))):
        draw = Draw(root, "job", number)
        task = draw.choice(tasks)
        seed = require(draw.choice(SEEDS[split]), Split.TRAIN)
        rounds = settings.rounds or 9
        yield Job(
            Case(task.substrate, task.task, min(settings.n), seed, rounds), "", draw.bits()
        )  # fmt: skip


def gather(job: Job, settings: HarvestSettings, order: Order) -> list[Pair]:
    """Do one job: return its views in a canon order, each with the expert's decision on it."""
    expert = plugins.get_law("expert")
    if not job.law:
        return list(_made(job, settings, order, expert))
    return _listen(job, expert, order)


def _listen(job: Job, expert: Law, order: Order) -> list[Pair]:
    case, world = open_case(job.case)
    pupil = Steered(expert, job.law, job.salt)
    Engine(world, pupil, case, order=order, salt=job.salt % 2**31).play()
    return pupil.pairs


class Steered:
    """Lets one law steer an episode while the expert labels every view of it."""

    def __init__(self, expert: Law, law: str, salt: int) -> None:
        self.name = law
        self.pairs: list[Pair] = []
        self._expert = expert
        self._noise = (law == "noisy-expert") * NOISE
        other = "random-legal" if self._noise else law
        self._other = None if law == "expert" else plugins.get_law(other)
        self._salt = salt
        self._count = 0

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Label the views and answer with what the steering law decides."""
        labels = self._expert.decide(requests)
        for request, decode in zip(requests, labels, strict=True):
            decision = decode.output
            # A retry shows the view again; the first answer has been kept already.
            if request.feedback or not isinstance(decision, Decision):
                continue
            if not violations(request.view, decision):
                self.pairs.append((request.view, decision))
        if self._other is None:
            return labels
        others = self._other.decide(requests)
        return [self._pick(one, two) for one, two in zip(labels, others, strict=True)]

    def _pick(self, label: Decode, other: Decode) -> Decode:
        self._count += 1
        if self._noise and mix(self._salt, self._count) % 100 >= self._noise:
            return label
        return other


def _made(job: Job, settings: HarvestSettings, order: Order, expert: Law) -> Iterator[Pair]:
    """Make bundles of the eight classes, some with made-up vocabularies."""
    native = [view for view, _ in _listen(job._replace(law="expert"), expert, "shuffled")]
    shape = "spatial" if job.case.substrate == "swarmbench" else "ports"
    for bundle in range(BUNDLES):
        for situation in SITUATIONS:
            draw = Draw(job.salt, "bundle", bundle, situation)
            made_up = draw.chance(settings.made_up) or not native
            seen = None if made_up else draw.choice(native[:: max(1, len(native) // FRAMES)])
            frame = made_up_frame(draw, shape) if seen is None else native_frame(seen, draw)  # type: ignore[arg-type]
            if frame is None:
                continue
            view = make(situation, frame, draw)
            if not SITUATIONS[situation].holds(view):
                continue
            check_view(view)
            if order == "canonical":
                view, _ = canonical(view)
            (decode,) = expert.decide([Request(view)])
            if isinstance(decode.output, Decision) and not violations(view, decode.output):
                yield view, decode.output
