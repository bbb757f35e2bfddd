"""The decision corpus: bundles of eight, splits before labels, native views ("Training Details").

Bundle numbers are dealt to splits before anything is generated, families take turns, and frames
cut from native views come from episode seeds that belong to the split alone. Invariant: the same
settings give the same corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.canon import check_view, decode_view, encode_view
from waggle.core.errors import ConfigError
from waggle.core.schema import View
from waggle.core.seeds import derive
from waggle.corpus.settings import CorpusSettings
from waggle.corpus.store import SPLITS, Example
from waggle.corpus.views import made
from waggle.corpus.views.frames import Frame, Shape, made_up_frame, native_frame
from waggle.corpus.views.native import Sight, gather, training_tasks
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import SITUATIONS, make
from waggle.crew import crew

SEEDS: Mapping[str, range] = {
    "train": range(6_000), "validation": range(6_000, 7_000), "test": range(7_000, 8_000),
}  # fmt: skip
"""Episode seeds by split, all of them training seeds."""
EPISODES = 24
"""Episodes per family and split that views are taken from, at least two per task."""
FRAMES = 64
"""Native views per task and split that give frames."""
UNIT = 50
"""Bundles that are made together."""
_TRIES = 20

Progress = Callable[[str, int, int], None]
"""Called with what is being made, how much is done, and how much there is to do."""


def quiet(_what: str, _done: int, _total: int) -> None:
    """Show no progress."""


def assign(settings: CorpusSettings) -> dict[str, list[int]]:
    """Deal bundle numbers to splits, before anything is generated or labelled."""
    sizes = {
        "train": settings.bundles * settings.scale,
        "validation": settings.validation,
        "test": settings.test,
    }
    total = sum(sizes.values())
    dealt = sorted(range(total), key=lambda b: derive(settings.seed, "bundle split", b))
    splits, start = {}, 0
    for split, size in sizes.items():
        splits[split] = sorted(dealt[start : start + size])
        start += size
    return splits


class Unit(NamedTuple):
    """A piece of work: some (place, bundle) numbers, native views of one task, or other views."""

    split: str
    bundles: tuple[tuple[int, int], ...]
    task: plugins.Task | None
    views: int
    kind: str = ""
    """`disguised` or `linked`: views of made-up tasks that belong to no bundle."""


class Curriculum:
    """Generates every example of a corpus, unlabelled."""

    def __init__(self, settings: CorpusSettings, progress: Progress = quiet) -> None:
        self.settings = settings
        self._progress = progress
        self._tasks = training_tasks(settings.tasks)
        if not self._tasks:
            raise ConfigError("the corpus has no training task; name one in `tasks`")
        self.families = list(dict.fromkeys(task.substrate for task in self._tasks))
        self._frames: dict[tuple[str, str], list[View]] = {}

    def examples(self, workers: int = 1) -> dict[str, list[Example]]:
        """Return all splits; the same ones however many processes make them."""
        units = [unit for split in SPLITS for unit in self._units(split)]
        done: dict[str, list[Example]] = {split: [] for split in SPLITS}
        for number, (unit, some) in enumerate(zip(units, self._done(units, workers), strict=True)):
            done[unit.split] += some
            self._progress("corpus", number + 1, len(units))
        return done

    def _done(self, units: Sequence[Unit], workers: int) -> Iterator[list[Example]]:
        if workers <= 1:
            yield from map(self.make, units)
            return
        with crew(workers) as pool:
            yield from pool.map(_make, [self.settings] * len(units), units)

    def _units(self, split: str) -> Iterator[Unit]:
        """Cut a split into pieces that do not depend on one another."""
        bundles = list(enumerate(assign(self.settings)[split]))
        for start in range(0, len(bundles), UNIT):
            yield Unit(split, tuple(bundles[start : start + UNIT]), None, 0)
        wanted = self.settings.native * self.settings.scale
        total = wanted if split == "train" else self.settings.native_held_out
        for place, family in enumerate(self.families):
            share = _share(total, len(self.families), place)
            tasks = [task for task in self._tasks if task.substrate == family]
            for index, task in enumerate(tasks):
                if count := _share(share, len(tasks), index):
                    yield Unit(split, (), task, count)
        for kind in ("disguised", "linked"):
            wanted = getattr(self.settings, kind)
            # Last, so that what is held out of bundles and episodes stays where it was.
            count = wanted * self.settings.scale if split == "train" else wanted // 10
            if count:
                yield Unit(split, (), None, count, kind)

    def make(self, unit: Unit) -> list[Example]:
        """Make one piece: native views of a task, or some bundles."""
        if unit.task is not None:
            found = self._gather(unit.split, unit.task, unit.views)
            return [_native_example(unit.task.substrate, sight) for sight in found]
        if unit.kind:
            return self._other(unit)
        return [
            self._one(unit.split, bundle, self.families[place % len(self.families)], situation)
            for place, bundle in unit.bundles
            for situation in SITUATIONS
        ]

    def _other(self, unit: Unit) -> list[Example]:
        """Make views of made-up tasks on the plane or on graphs."""
        salt = derive(self.settings.seed, "other views", unit.split, unit.kind)
        if unit.kind == "linked":
            views = made.on_graphs("linked", salt, unit.views)
        else:
            views = made.disguised(salt, unit.views)
        found = []
        for number, view in enumerate(islice(views, unit.views)):
            check_view(view)
            key = f"{unit.kind}-{unit.split}-{number}"
            found.append(Example(key, "made-up", unit.kind, msgspec.Raw(encode_view(view))))
        return found

    def _one(self, split: str, bundle: int, family: str, situation: str) -> Example:
        """Make one view; a frame in which the class cannot be had is drawn again."""
        for attempt in range(_TRIES):
            draw = Draw(self.settings.seed, "situation", bundle, situation, attempt)
            frame = self._frame(split, family, draw)
            if frame is None:
                continue
            view = make(situation, frame, draw)
            if SITUATIONS[situation].holds(view):
                check_view(view)
                return Example(
                    f"s{bundle}-{situation}", family, "synthetic",
                    msgspec.Raw(encode_view(view)), situation, bundle,
                )  # fmt: skip
        raise ConfigError(f"no {situation} view can be made for {family}; add another task to it")

    def _frame(self, split: str, family: str, draw: Draw) -> Frame | None:
        if draw.chance(self.settings.made_up):
            return made_up_frame(draw, self._shape(family))
        tasks = [task for task in self._tasks if task.substrate == family]
        return native_frame(draw.choice(self._native_views(split, draw.choice(tasks))), draw)

    def _shape(self, family: str) -> Shape:
        return "spatial" if family == "swarmbench" else "ports"

    def _native_views(self, split: str, task: plugins.Task) -> list[View]:
        key = (split, task.name)
        if key not in self._frames:
            self._frames[key] = [decode_view(s.data) for s in self._gather(split, task, FRAMES)]
        return self._frames[key]

    def _gather(self, split: str, task: plugins.Task, count: int) -> list[Sight]:
        root = derive(self.settings.seed, "native", split, task.name)
        pool = SEEDS[split]
        siblings = sum(other.substrate == task.substrate for other in self._tasks)
        episodes = max(2, EPISODES // siblings, count // 64)
        seeds = [pool[derive(root, "seed", i) % len(pool)] for i in range(episodes)]
        return gather(
            task, count, root=root, seeds=seeds, laws=self.settings.laws, n=self.settings.n,
            rounds=self.settings.rounds,
        )  # fmt: skip


@lru_cache(maxsize=2)
def _curriculum(settings: CorpusSettings) -> Curriculum:
    """Keep a worker's curriculum: its native frames serve many pieces."""
    return Curriculum(settings)


def _make(settings: CorpusSettings, unit: Unit) -> list[Example]:
    return _curriculum(settings).make(unit)


def _native_example(family: str, sight: Sight) -> Example:
    return Example(sight.key, family, "native", msgspec.Raw(sight.data))


def _share(total: int, parts: int, index: int) -> int:
    """Return the size of one of some nearly equal parts of a total."""
    return total // parts + (index < total % parts)
