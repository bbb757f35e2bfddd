"""The decision corpus: bundles of eight situations, and native views ("Training Details").

Bundle numbers are assigned to splits before anything is generated or labelled, families alternate,
and frames cut from native views come from episode seeds that only this split uses. Invariant: the
same settings give the same corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.canon import check_view, decode_view, encode_view
from waggle.core.errors import ConfigError
from waggle.core.schema import View
from waggle.core.seeds import derive
from waggle.corpus.problems import families
from waggle.corpus.settings import CorpusSettings
from waggle.corpus.store import SPLITS, Example
from waggle.corpus.views import disguised
from waggle.corpus.views.frames import Frame, made_up_frame, native_frame
from waggle.corpus.views.native import SeenView, gather, training_tasks
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import SITUATIONS, make
from waggle.process_pool import mapped

SEEDS: Mapping[str, range] = {
    "train": range(6_000), "validation": range(6_000, 7_000), "test": range(7_000, 8_000),
}  # fmt: skip
"""Episode seeds by split, all of them training seeds."""
EPISODES = 24
"""Episodes per family and split that views are taken from, at least two per task."""
FRAMES = 64
"""Native views per task and split that frames are cut from."""
RULE = "rule"
"""The teacher name of graph problems, which are labelled when they are made."""
UNIT = 50
"""Bundles per unit of work."""
_TRIES = 20

Progress = Callable[[str, int, int], None]
"""Callback with the name of the current step, the amount done and the total."""


def quiet(_what: str, _done: int, _total: int) -> None:
    """Show no progress."""


def assign(settings: CorpusSettings) -> dict[str, list[int]]:
    """Assign bundle numbers to splits, before anything is generated or labelled."""
    sizes = {
        "train": settings.bundles,
        "validation": settings.validation,
        "test": settings.test,
    }
    total = sum(sizes.values())
    drawn = iter(sorted(range(total), key=lambda b: derive(settings.seed, "bundle split", b)))
    return {split: sorted(islice(drawn, size)) for split, size in sizes.items()}


class Unit(NamedTuple):
    """A unit of work: (position, bundle) pairs, native views of one task, or made-up views."""

    split: str
    bundles: tuple[tuple[int, int], ...]
    task: plugins.Task | None
    views: int
    kind: str = ""
    """The kind of views of made-up tasks; they belong to no bundle."""


class Curriculum:
    """The generator of a corpus's examples; only graph problems come with labels."""

    def __init__(self, settings: CorpusSettings, progress: Progress = quiet) -> None:
        self.settings = settings
        self._progress = progress
        self._tasks = training_tasks(settings.tasks)
        if not self._tasks:
            raise ConfigError("the corpus has no training task; name one in `tasks`")
        self.families = list(dict.fromkeys(task.substrate for task in self._tasks))
        if unknown := set(settings.families) - set(self.families):
            raise ConfigError(f"`families` has {sorted(unknown)[0]!r}, of which `tasks` has none")
        self._native: dict[tuple[str, str], list[View]] = {}

    def examples(self, workers: int = 1) -> dict[str, list[Example]]:
        """Return the examples by split; they do not depend on the number of processes."""
        units = [unit for split in SPLITS for unit in self._units(split)]
        made: dict[str, list[Example]] = {split: [] for split in SPLITS}
        kept = self.settings.families
        again = partial(Curriculum, self.settings)
        with mapped(workers, again if workers > 1 else lambda: self) as run:
            results = run(Curriculum.make, units)
            for number, (unit, some) in enumerate(zip(units, results, strict=True)):
                made[unit.split] += [e for e in some if not kept or e.family in kept]
                self._progress("corpus", number + 1, len(units))
        return made

    def _units(self, split: str) -> Iterator[Unit]:
        """Yield the units of work of a split, which are independent of one another."""
        bundles = list(enumerate(assign(self.settings)[split]))
        for start in range(0, len(bundles), UNIT):
            yield Unit(split, tuple(bundles[start : start + UNIT]), None, 0)
        train = split == "train"
        total = self.settings.native if train else self.settings.native_held_out
        for place, family in enumerate(self.families):
            share = _share(total, len(self.families), place)
            tasks = self._tasks_of(family)
            for index, task in enumerate(tasks):
                if count := _share(share, len(tasks), index):
                    yield Unit(split, (), task, count)
        # Last, so that bundles and episodes are the same with and without them.
        for kind in ("disguised", "far", "near"):
            wanted = getattr(self.settings, kind)
            if count := wanted if train else wanted // 10:
                yield Unit(split, (), None, count, kind)
        if split == "test" and self.settings.development:
            yield Unit(split, (), None, self.settings.development, "development")

    def make(self, unit: Unit) -> list[Example]:
        """Make the examples of one unit."""
        if unit.task is not None:
            found = self._gather(unit.split, unit.task, unit.views)
            family = unit.task.substrate
            return [Example(s.key, family, "native", msgspec.Raw(s.data)) for s in found]
        if unit.kind:
            return self._made_up(unit)
        return [
            self._situation(unit.split, bundle, self.families[place % len(self.families)], name)
            for place, bundle in unit.bundles
            for name in SITUATIONS
        ]

    def _made_up(self, unit: Unit) -> list[Example]:
        """Make views of made-up tasks, spatial or on graphs."""
        salt = derive(self.settings.seed, "other views", unit.split, unit.kind)
        if unit.kind in families.FAMILIES:
            # The problem's rule is the teacher; no other law can interpret its made-up words.
            return [
                Example(f"{unit.kind}-{unit.split}-{number}", "made-up", unit.kind, _checked(view),
                        decision=decision, teacher=RULE)
                for number, (view, decision) in enumerate(
                    families.pairs(unit.kind, salt, unit.views))
            ]  # fmt: skip
        views = disguised.bundles(salt, unit.views)
        return [
            Example(f"{unit.kind}-{unit.split}-{number}", "made-up", unit.kind, _checked(view))
            for number, view in enumerate(islice(views, unit.views))
        ]

    def _situation(self, split: str, bundle: int, family: str, name: str) -> Example:
        """Make one view of a situation class; redraw a frame that does not allow the class."""
        for attempt in range(_TRIES):
            draw = Draw(self.settings.seed, "situation", bundle, name, attempt)
            frame = self._frame(split, family, draw)
            if frame is None:
                continue
            view = make(name, frame, draw)
            if SITUATIONS[name].holds(view):
                key = f"s{bundle}-{name}"
                return Example(key, family, "synthetic", _checked(view), name, bundle)
        raise ConfigError(f"no {name} view can be made for {family}; add another task to it")

    def _frame(self, split: str, family: str, draw: Draw) -> Frame | None:
        if draw.chance(self.settings.made_up):
            return made_up_frame(draw, "spatial" if family == "swarmbench" else "ports")
        task = draw.choice(self._tasks_of(family))
        if (split, task.name) not in self._native:
            found = self._gather(split, task, FRAMES)
            self._native[split, task.name] = [decode_view(sight.data) for sight in found]
        return native_frame(draw.choice(self._native[split, task.name]), draw)

    def _tasks_of(self, family: str) -> list[plugins.Task]:
        return [task for task in self._tasks if task.substrate == family]

    def _gather(self, split: str, task: plugins.Task, count: int) -> list[SeenView]:
        root = derive(self.settings.seed, "native", split, task.name)
        pool = SEEDS[split]
        episodes = max(2, EPISODES // len(self._tasks_of(task.substrate)), count // 64)
        seeds = [pool[derive(root, "seed", i) % len(pool)] for i in range(episodes)]
        return gather(
            task, count, root=root, seeds=seeds, laws=self.settings.laws, n=self.settings.n,
            rounds=self.settings.rounds,
        )  # fmt: skip


def _checked(view: View) -> msgspec.Raw:
    check_view(view)
    return msgspec.Raw(encode_view(view))


def _share(total: int, parts: int, index: int) -> int:
    """Return the size of part `index` when a total is split into nearly equal parts."""
    return total // parts + (index < total % parts)
