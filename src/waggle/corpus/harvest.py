"""Harvest: a large corpus of views that are played, labelled and ordered in one pass.

With a free teacher, a large corpus needs no files between these steps. A worker plays an episode or
makes up views, labels every view with the expert, and returns (view, decision) pairs. Episodes are
steered by several laws, among them the expert with some of its choices replaced, so that the
teacher also labels states that it would not reach itself.

Invariant: jobs are a pure function of the settings and independent of one another, so the harvest
does not depend on the number of workers. Only training seeds are used, and no transfer task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core import prompt
from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_decision
from waggle.core.order import Order, canonical
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Contract, Decision, View
from waggle.core.seeds import Split, derive, mix, require
from waggle.corpus.problems import families
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.views import disguised, situations
from waggle.corpus.views.frames import Shape, made_up_contract, made_up_frame, native_frame
from waggle.corpus.views.native import TRAINING, open_case, training_tasks
from waggle.corpus.views.rng import Draw
from waggle.runtime.sync import Engine

SEEDS = {"train": range(6_000), "validation": range(6_000, 7_000)}
"""Episode seeds by split, all of them training seeds."""
HORIZON = {"silo": (9, 18), "swarmbench": (100, 100)}
"""Updates of a plain and of a shocked episode; other substrates use their own horizon."""
PORTS = "silo"
"""The substrate with the regime `ports`, in which a node writes on every port."""
CAPS = (512, 4096)
"""Frame sizes in that regime, in bytes."""
SPATIAL = "swarmbench"
"""The substrate whose views can be disguised."""
BUNDLES = 60
"""Bundles of situations per job."""
GRAPH_VIEWS = 300
"""Views of graph problems per job."""
FRAMES = 40
"""Native views from which the frames of one job's situations are cut."""
KINDS = ("native", "synthetic", "disguised", "close", "ports", "far", "near")
"""Kinds of views, each with its count in the settings, in the order of their jobs. A new kind is
appended, so that the jobs of the others stay the same. Views of `native` and `ports` are played in
episodes, some of `disguised` repeat native ones, and all others are made up."""
NOISE = 12
"""Percent of the choices of `noisy-expert` that are replaced by a random legal decision."""

Pair = tuple[View, Decision]


class Job(NamedTuple):
    """One unit of work; `law` is empty if its views are made up."""

    case: Case
    law: str
    salt: int
    kind: str = "episode"
    """`episode`, or the kind of made-up views."""
    disguised: int = 0
    """Percent of the views of an episode that are repeated under a disguise."""


def plan(settings: HarvestSettings, split: str) -> list[Job]:
    """Return the jobs of a split in a fixed order: native ones by substrate, then other kinds."""
    tasks = training_tasks(settings.tasks)
    substrates = list(dict.fromkeys(task.substrate for task in tasks))
    counts = {kind: getattr(settings, kind) for kind in KINDS}
    if split != "train":
        counts = {kind: settings.held_out * bool(count) for kind, count in counts.items()}
    quota = counts["native"] // len(substrates)
    # Half of the disguised views repeat those of spatial episodes, if such are played.
    repeated = counts["disguised"] // 2 if quota and SPATIAL in substrates else 0
    percent = min(100, -(-100 * repeated // quota)) if repeated else 0
    made_up = {**counts, "disguised": counts["disguised"] - repeated}
    jobs: list[Job] = []
    for substrate in substrates:
        own = [task for task in tasks if task.substrate == substrate]
        share = percent if substrate == SPATIAL else 0
        jobs += (job._replace(disguised=share) for job in _episodes(settings, split, own, quota))
    for kind in KINDS[1:]:  # all but native
        if kind == "ports":
            jobs += _ports(settings, split, tasks, counts[kind])
        else:
            jobs += _made_up(settings, split, tasks, made_up[kind], kind)
    return jobs


def _episodes(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], quota: int,
    purpose: str = "harvest",
) -> Iterator[Job]:  # fmt: skip
    """Yield episode jobs until `quota` updates are planned, about as many for every size."""
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
    """Yield episode jobs of the regime `ports`, alternating small and large frames."""
    own = [task for task in tasks if task.substrate == PORTS]
    planned = _episodes(settings, split, own, quota, "harvest ports") if own else ()
    for number, job in enumerate(planned):
        # Tasks alternate as well, so a cap is kept for one pass over the tasks.
        options = {"regime": "ports", "cap": CAPS[number // len(own) % len(CAPS)]}
        yield job._replace(case=msgspec.structs.replace(job.case, options=options))


def _made_up(
    settings: HarvestSettings, split: str, tasks: Sequence[plugins.Task], count: int, kind: str
) -> Iterator[Job]:
    """Yield jobs that make up views; situations take native frames from a small episode."""
    purpose = "harvest bundles" if kind == "synthetic" else f"harvest {kind}"
    root = derive(settings.seed, purpose, split)
    size = GRAPH_VIEWS if kind in families.FAMILIES else BUNDLES * situations.BUNDLE // 100
    if kind == "close":
        size = BUNDLES * sum(situations.CLOSE.values())
    for number in range(-(-count // size)):
        draw = Draw(root, "job", number)
        task = draw.choice(tasks)
        seed = require(draw.choice(SEEDS[split]), Split.TRAIN)
        case = Case(task.substrate, task.task, min(settings.n), seed, settings.rounds or 9)
        yield Job(case, "", draw.bits(), kind)


def gather(job: Job, settings: HarvestSettings, order: Order) -> list[Pair]:
    """Run one job: return its views in the given order, each with the teacher's decision."""
    if job.kind in families.FAMILIES:
        return list(families.pairs(job.kind, job.salt, GRAPH_VIEWS, order))
    expert = plugins.get_law("expert")
    if job.kind == "episode":
        pairs = _played(job, expert, order)
        return [*pairs, *_labelled(_disguised(job, pairs), order, expert)]
    if job.kind == "disguised":
        views = disguised.bundles(job.salt, BUNDLES)
    else:
        views = _situations(job, settings, expert)
    return list(_labelled(views, order, expert))


def _labelled(views: Iterable[View], order: Order, expert: Law) -> Iterator[Pair]:
    """Label made-up views with the expert; skip views without an admissible answer."""
    for plain in views:
        check_view(plain)
        view = canonical(plain)[0] if order == "canonical" else plain
        (decode,) = expert.decide([Request(view)])
        if isinstance(decode.output, Decision) and not violations(view, decode.output):
            yield view, decode.output


def _disguised(job: Job, pairs: Sequence[Pair]) -> Iterator[View]:
    """Yield some views of a spatial episode under a disguise, eventful ones more often."""
    shown = 0
    for number, (view, _) in enumerate(pairs if job.disguised else ()):
        draw = Draw(job.salt, "disguise", number)
        eventful = bool(view.traces or view.private.evidence or view.private.claims)
        if draw.chance(job.disguised * 3 // 2 if eventful else job.disguised // 2):
            if shown % families.PER_TASK == 0:
                disguise = disguised.make_disguise(Draw(job.salt, "look", shown), view.contract)
            shown += 1
            yield disguised.apply(view, disguise, draw)


def _situations(job: Job, settings: HarvestSettings, expert: Law) -> Iterator[View]:
    """Make situations or close calls in made-up frames, or in native frames of an episode."""
    native = [view for view, _ in _played(job._replace(law="expert"), expert, "shuffled")]
    sample = native[:: max(1, len(native) // FRAMES)]
    shape: Shape = "spatial" if job.case.substrate == SPATIAL else "ports"

    def frames(task: Draw) -> situations.FrameOf:
        if sample and not task.chance(settings.made_up):
            return lambda draw: native_frame(draw.choice(sample), draw)
        contract = made_up_contract(task, shape, wild=task.chance(50))
        return lambda draw: made_up_frame(draw, shape, contract)

    make = situations.close_calls if job.kind == "close" else situations.bundles
    return make(job.salt, BUNDLES, frames)


def _played(job: Job, expert: Law, order: Order) -> list[Pair]:
    case, world = open_case(job.case)
    listener = Listener(expert, job.law, job.salt)
    Engine(world, listener, case, order=order, salt=job.salt % 2**31).play()
    return listener.pairs


class Listener:
    """A law that lets another law steer an episode while the expert labels every view."""

    def __init__(self, expert: Law, law: str = "expert", salt: int = 0) -> None:
        self.name = law
        self.pairs: list[Pair] = []
        self._expert = expert
        self._noise = (law == "noisy-expert") * NOISE
        other = "random-legal" if self._noise else law
        self._other = None if law == "expert" else plugins.get_law(other)
        self._salt = salt
        self._count = 0

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Label the views and return the decisions of the steering law."""
        labels = self._expert.decide(requests)
        for request, decode in zip(requests, labels, strict=True):
            decision = decode.output
            # A retry repeats the view, whose first label has been kept already.
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


TEXT_SEED = 3
"""Training seed of the episodes in `tokenizer_texts`."""
TEXT_ROUNDS = {"swarmbench": 60}
"""Shorter horizons where a task's own episodes would outnumber the others."""
CONTRACT_WEIGHT = 60
"""How often the text of a training contract is repeated; every prompt of its task has it."""
TEXT_BUNDLES = 15
"""Bundles with made-up vocabularies."""


def tokenizer_texts() -> Iterator[str]:
    """Yield prompts and records as a law sees them, to train the tokenizer of `nano`.

    They come from short training episodes of the expert and from situations with made-up
    vocabularies, so that the JSON skeleton takes few tokens while names stay spelled out.
    """
    seen: set[Contract] = set()
    for pairs in (_text_episodes(), _text_situations()):
        for view, decision in pairs:
            if view.contract not in seen:
                seen.add(view.contract)
                known = view.contract.task.startswith(TRAINING)
                yield from [prompt.prefix(view.contract)] * (CONTRACT_WEIGHT if known else 1)
            yield prompt.tail(view)
            yield encode_decision(decision).decode()


def _text_episodes() -> Iterator[Pair]:
    for number, task in enumerate(training_tasks(TRAINING)):
        for shock in (False, True):
            # Most episodes are in canonical order; some in the paper's order, with its names.
            order: Order = "shuffled" if shock and number % 3 == 2 else "canonical"
            rounds = TEXT_ROUNDS.get(task.substrate)
            case = Case(task.substrate, task.task, 8, TEXT_SEED + shock, rounds, shock)
            case, world = open_case(case)
            listener = Listener(plugins.get_law("expert"))
            Engine(world, listener, case, order=order).play()
            yield from listener.pairs


def _text_situations() -> Iterator[Pair]:
    expert = plugins.get_law("expert")
    for bundle in range(TEXT_BUNDLES):
        for name in situations.SITUATIONS:
            draw = Draw(TEXT_SEED, "specimen", bundle, name)
            frame = made_up_frame(draw, "spatial" if bundle % 2 else "ports")
            yield from _labelled([situations.make(name, frame, draw)], "canonical", expert)
