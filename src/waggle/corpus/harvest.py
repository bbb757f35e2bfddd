"""Harvest: very many labelled views at once, played, labelled and ordered in one go.

A large corpus for a free teacher needs no files between its steps: a worker plays an episode (or
makes bundles), asks the expert about every view the moment a node sees it, and hands out (view,
decision) pairs. Episodes are steered by several laws, among them the expert with some of its
choices replaced, so that the teacher is asked about states it would not itself reach. Made views
come beside them: situations, close calls, spatial tasks under a disguise, and tasks on graphs.

Invariant: jobs are a pure function of the settings and of one another independent, so the harvest
is the same however many workers share it. Only training seeds, never a transfer task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from waggle import plugins
from waggle.core.admit import violations
from waggle.core.canon import check_view
from waggle.core.order import Order, canonical
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Decision, View
from waggle.core.seeds import Split, derive, mix, require
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.views import disguised as disguise
from waggle.corpus.views import made
from waggle.corpus.views.frames import Shape, made_up_contract, made_up_frame, native_frame
from waggle.corpus.views.native import open_case, training_tasks
from waggle.corpus.views.rng import Draw
from waggle.runtime.sync import Engine

SEEDS = {"train": range(6_000), "validation": range(6_000, 7_000)}
"""Episode seeds by split, all of them training seeds."""
HORIZON = {"silo": (9, 18), "swarmbench": (100, 100)}
"""Updates of a plain and of a shocked episode; other substrates take their own horizon."""
PORTS = "silo"
"""The substrate that has a regime in which a node writes on every port."""
CAPS = (512, 4096)
"""Bytes of a frame in that regime."""
BUNDLES = 60
"""Bundles of one job."""
LINKED = 300
"""Linked views of one job."""
SPATIAL = "swarmbench"
"""The substrate whose views can be disguised."""
FRAMES = 40
"""Native views that the bundles of one job take their task side from."""
KINDS = (
    "native", "synthetic", "disguised", "linked", "close", "ports", "crowded", "poised", "eased",
    "relays", "agreed",
)  # fmt: skip
"""What a harvest is made of, as its settings name it."""
NOISE = 12
"""Of a hundred choices of `noisy-expert`, how many are any legal decision instead."""

Pair = tuple[View, Decision]
Kind: TypeAlias = Literal[
    "episode", "bundles", "disguised", "linked", "close", "crowded", "poised", "eased", "relays",
    "agreed",
]  # fmt: skip


class Job(NamedTuple):
    """One piece of work; `law` is empty where no episode is listened to."""

    case: Case
    law: str
    salt: int
    kind: Kind = "episode"
    veiled: int = 0
    """Percent of the views of an episode that are shown again under a disguise."""


def plan(settings: HarvestSettings, split: str) -> list[Job]:
    """Return the jobs of a split, families and kinds apart, in a fixed order."""
    tasks = training_tasks(settings.tasks)
    families = list(dict.fromkeys(task.substrate for task in tasks))
    wanted = {name: getattr(settings, name) for name in KINDS}
    if split != "train":
        wanted = {name: settings.held_out * bool(count) for name, count in wanted.items()}
    quota = wanted["native"] // len(families)
    played = wanted["disguised"] // 2 if quota and SPATIAL in families else 0
    jobs: list[Job] = []
    for family in families:
        own = [task for task in tasks if task.substrate == family]
        veiled = min(100, -(-100 * played // quota)) if family == SPATIAL and played else 0
        jobs += (job._replace(veiled=veiled) for job in _episodes(settings, split, own, quota))
    jobs += _bundles(settings, split, tasks, wanted["synthetic"], "bundles")
    jobs += _bundles(settings, split, tasks, wanted["disguised"] - played, "disguised")
    jobs += _bundles(settings, split, tasks, wanted["linked"], "linked")
    jobs += _bundles(settings, split, tasks, wanted["close"], "close")
    jobs += _ports(settings, split, tasks, wanted["ports"])
    jobs += _bundles(settings, split, tasks, wanted["crowded"], "crowded")
    later: tuple[Kind, ...] = ("poised", "eased", "relays", "agreed")
    for kind in later:
        jobs += _bundles(settings, split, tasks, wanted[kind], kind)
    return jobs


def _episodes(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], quota: int,
    purpose: str = "harvest",
) -> Iterator[Job]:  # fmt: skip
    """Deal episodes until their updates add up; every size gets about the same share of them."""
    sizes = [n for n in settings.n for _ in range(max(settings.n) // n)]
    root = derive(settings.seed, purpose, split, tasks[0].substrate)
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


def _ports(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], quota: int
) -> Iterator[Job]:
    """Deal episodes of the regime `ports`, with small and with large frames in turn."""
    own = [task for task in tasks if task.substrate == PORTS]
    dealt = _episodes(settings, split, own, quota, "harvest ports") if own else ()
    for number, job in enumerate(dealt):
        # Tasks take turns as well, so a cap stays for a whole turn of them.
        options = {"regime": "ports", "cap": CAPS[number // len(own) % len(CAPS)]}
        yield job._replace(case=msgspec.structs.replace(job.case, options=options))


def _bundles(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], count: int, kind: Kind
) -> Iterator[Job]:
    """Deal jobs that make views; bundles take native frames from a small episode of one task."""
    root = derive(
        settings.seed, "harvest bundles" if kind == "bundles" else f"harvest {kind}", split
    )
    sizes = dict.fromkeys(made.ON_GRAPHS, LINKED)
    sizes["close"] = BUNDLES * sum(made.CLOSE.values())
    size = sizes.get(kind, BUNDLES * made.BUNDLE // 100)
    for number in range(-(-count // size)):
        draw = Draw(root, "job", number)
        task = draw.choice(tasks)
        seed = require(draw.choice(SEEDS[split]), Split.TRAIN)
        case = Case(task.substrate, task.task, min(settings.n), seed, settings.rounds or 9)
        yield Job(case, "", draw.bits(), kind)


def gather(job: Job, settings: HarvestSettings, order: Order) -> list[Pair]:
    """Do one job: return its views in a canon order, each with the expert's decision on it."""
    expert = plugins.get_law("expert")
    if job.kind == "episode":
        pairs = _listen(job, expert, order)
        return [*pairs, *_labelled(_veiled(job, pairs), order, expert)]
    makers = {"bundles": _bundled, "disguised": _disguised, "close": _close}
    make = makers.get(job.kind, _on_graphs)
    return list(_labelled(make(job, settings, expert), order, expert))


def _labelled(views: Iterable[View], order: Order, expert: Law) -> Iterator[Pair]:
    """Ask the expert about made views, and leave out what it cannot answer admissibly."""
    for plain in views:
        check_view(plain)
        view = canonical(plain)[0] if order == "canonical" else plain
        (decode,) = expert.decide([Request(view)])
        if isinstance(decode.output, Decision) and not violations(view, decode.output):
            yield view, decode.output


def _veiled(job: Job, pairs: Sequence[Pair]) -> Iterator[View]:
    """Show some views of a spatial episode again under a disguise, eventful ones more often."""
    if not job.veiled or not pairs:
        return
    shown = 0
    for number, (view, _) in enumerate(pairs):
        draw = Draw(job.salt, "disguise", number)
        eventful = bool(view.traces or view.private.evidence or view.private.claims)
        if draw.chance(job.veiled * 3 // 2 if eventful else job.veiled // 2):
            if shown % made.ALIKE == 0:
                look = disguise.look(Draw(job.salt, "look", shown), view.contract)
            shown += 1
            yield disguise.disguise(view, look, draw)


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


def _bundled(job: Job, settings: HarvestSettings, expert: Law) -> Iterator[View]:
    """Make bundles of the eight classes, some with made-up vocabularies."""
    return made.situations(job.salt, BUNDLES, _frames(job, settings, expert))


def _close(job: Job, settings: HarvestSettings, expert: Law) -> Iterator[View]:
    """Make close calls, some with made-up vocabularies."""
    return made.close(job.salt, BUNDLES, _frames(job, settings, expert))


def _frames(job: Job, settings: HarvestSettings, expert: Law) -> Callable[[Draw], made.FrameOf]:
    """Return what makes up a task, or takes the task side from native views of an episode."""
    native = [view for view, _ in _listen(job._replace(law="expert"), expert, "shuffled")]
    sample = native[:: max(1, len(native) // FRAMES)]
    shape: Shape = "spatial" if job.case.substrate == SPATIAL else "ports"

    def frames(task: Draw) -> made.FrameOf:
        if sample and not task.chance(settings.made_up):
            return lambda draw: native_frame(draw.choice(sample), draw)
        contract = made_up_contract(task, shape, wild=task.chance(50))
        return lambda draw: made_up_frame(draw, shape, contract)

    return frames


def _disguised(job: Job, _settings: HarvestSettings, _expert: Law) -> Iterator[View]:
    """Make bundles in disguised spatial frames."""
    return made.disguised(job.salt, BUNDLES)


def _on_graphs(job: Job, _settings: HarvestSettings, _expert: Law) -> Iterator[View]:
    """Make views of tasks on graphs, of the kind that the job names."""
    return made.on_graphs(job.kind, job.salt, LINKED)
