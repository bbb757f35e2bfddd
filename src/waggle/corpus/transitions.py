"""Sequential transition collection: (view, admitted decision, next view of the same node).

"Sequential transition collection": the warm start plays complete training-seed episodes in the
fixed runtime; terminal records without a next view are masked; there are two strata, ordinary and
eventful (verified conflict, challenge, commitment, reopening, expiry). An episode belongs to one
split, and one that is drawn twice counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

import msgspec

from waggle import plugins
from waggle.core.canon import decode_view
from waggle.core.modes import Mode
from waggle.core.protocols import Case, Law
from waggle.core.record import EpisodeRecord, UpdateRecord
from waggle.core.relations import refuted, relay_ttl
from waggle.core.schema import View
from waggle.core.seeds import Split, derive, require
from waggle.corpus.curriculum import Progress, quiet
from waggle.corpus.settings import TransitionSettings
from waggle.corpus.store import CorpusError, Store, Transition
from waggle.corpus.views.native import open_case, training_tasks, view_head, whole_view
from waggle.process_pool import Run, mapped
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, play_together

SEEDS: Mapping[str, range] = {
    "train": range(6_000), "validation": range(6_000, 7_000), "probe": range(8_000, 9_000),
    "test": range(9_000, 10_000),
}  # fmt: skip
"""Episode seeds by split, all of them training seeds."""
WIDTH = 4096
"""Maximum requests per batch of episodes that are played together."""
EVENTS = ("conflict", "challenge", "commitment", "reopening", "expiry")

_Strata: TypeAlias = dict[bool, list[Transition]]
"""Eventful transitions under True, ordinary ones under False."""


def events(view: View, update: UpdateRecord) -> tuple[str, ...]:
    """Return what makes an update eventful; empty for an ordinary one."""
    found = {
        "conflict": bool(refuted(view)),
        "challenge": update.mode == Mode.CHALLENGE,
        "commitment": update.decision.commit is not None,
        "reopening": update.reopened is not None,
        "expiry": not all(map(relay_ttl, view.traces)),
    }
    return tuple(name for name in EVENTS if found[name])


def adjacent(record: EpisodeRecord) -> Iterator[Transition]:
    """Yield every transition of an episode whose node is also updated in the next round."""
    head, case = view_head(record), record.header.case
    name = f"{plugins.Task(case.substrate, case.task).name}:{case.n}:{case.seed}"
    for now, then in zip(record.rounds, record.rounds[1:], strict=False):
        after = {update.node: update for update in then.updates}
        for update in now.updates:
            if update.node in after and update.bottom is None:
                data = whole_view(head, update.view)
                yield Transition(
                    f"{name}:{now.round}:{update.node}",
                    case.substrate,
                    msgspec.Raw(data),
                    update.decision,
                    msgspec.Raw(whole_view(head, after[update.node].view)),
                    events(decode_view(data), update),
                )


def collect(
    settings: TransitionSettings, law: Law, *, order: str = "shuffled", progress: Progress = quiet,
    workers: int = 1, again: Callable[[], Law] | None = None,
) -> dict[str, list[Transition]]:  # fmt: skip
    """Play episodes until every split has enough transitions of both strata.

    Families alternate, and so do the tasks of a family. Episodes are used in order, so the result
    does not depend on the number of processes.

    Args:
        settings: sizes of the splits and strata, and the episodes to play.
        law: the law that plays.
        order: how views list their records.
        progress: called with the progress.
        workers: number of processes that play.
        again: creates the law in a worker process; by default it is created by its name.
    """
    sizes = {name: getattr(settings, name) for name in SEEDS}
    splits = [_Split(settings, name, size, order) for name, size in sizes.items() if size]
    make = again or partial(plugins.get_law, law.name)
    with mapped(workers, make if workers > 1 else lambda: law) as run:
        # Worker processes play the first steps of all splits while the results of one are read.
        started = [split.start(run) for split in splits]
        return {
            split.name: split.fill(first, run, progress)
            for split, first in zip(splits, started, strict=True)
        }


def _steps(settings: TransitionSettings) -> list[list[range]]:
    """Return the episodes of a split in batches that are played together, grouped into steps.

    The batches of a step are submitted at once, those of the next step only if the split is not
    full by then. A step has about `spread` episodes, the fewest that a large split is drawn from:
    of larger steps, more might be played in vain.
    """
    episodes, width = range(settings.episodes), settings.together
    batches = [episodes[i : i + width] for i in range(0, len(episodes), width)]
    step = -(-settings.spread // width)
    return [batches[i : i + step] for i in range(0, len(batches), step)]


class _Split:
    """The collection of one split from its episodes."""

    def __init__(self, settings: TransitionSettings, name: str, size: int, order: str) -> None:
        self._settings, self.name, self._size, self._order = settings, name, size, order
        self._root = derive(settings.seed, "transitions", name)
        tasks = training_tasks(settings.tasks)
        families = list(dict.fromkeys(task.substrate for task in tasks))
        self._by_family = {f: [t for t in tasks if t.substrate == f] for f in families}
        eventful = round(size * settings.eventful)
        self._room = {True: eventful, False: size - eventful}
        self._steps = _steps(settings)

    def start(self, run: Run) -> Iterator[list[_Strata]]:
        """Submit the first step; return its results by batch, each a list by episode."""
        return run(self.play, self._steps[0])

    def fill(
        self, first: Iterator[list[_Strata]], run: Run, progress: Progress
    ) -> list[Transition]:
        """Read the results of the first step, then of later ones until both strata are full."""
        rows: _Strata = {True: [], False: []}
        known: set[str] = set()
        later = chain.from_iterable(run(self.play, step) for step in self._steps[1:])
        for batch in chain(first, later):
            for episode in batch:
                for stratum, kept in episode.items():
                    new = [t for t in kept if t.key not in known]
                    rows[stratum] += new
                    known.update(t.key for t in new)
            sizes = {stratum: min(len(rows[stratum]), room) for stratum, room in self._room.items()}
            progress(f"transitions {self.name}", sum(sizes.values()), self._size)
            if sizes == self._room:
                break
        chosen = [t for stratum, room in self._room.items() for t in rows[stratum][:room]]
        if not chosen:
            raise CorpusError(
                f"no transition for {self.name!r} in {self._settings.episodes} episodes; "
                "raise `rounds` or `episodes`"
            )
        return sorted(chosen, key=lambda t: derive(self._root, "order", t.key))

    def play(self, law: Law, episodes: Sequence[int]) -> list[_Strata]:
        """Play episodes together; return the results in the order of the episodes."""
        engines, memories = [], []
        for episode in episodes:
            case, world = open_case(self._case(episode))
            memories.append(Memory())
            engine = Engine(world, law, case, order=self._order, sinks=[memories[-1]])  # type: ignore[arg-type]
            engines.append(engine)
        for _ in play_together(engines, law, width=WIDTH):
            pass
        return [self._keep(memory.record()) for memory in memories]

    def _case(self, episode: int) -> Case:
        s, families = self._settings, list(self._by_family)
        family = families[episode % len(families)]
        tasks = self._by_family[family]
        task = tasks[(episode // len(families)) % len(tasks)]
        pool = SEEDS[self.name]
        seed = require(pool[derive(self._root, "seed", episode) % len(pool)], Split.TRAIN)
        n = s.n[derive(self._root, "n", episode) % len(s.n)]
        late = derive(self._root, "late", episode) % 2 == 1
        return Case(task.substrate, task.task, n, seed, s.rounds, shock=late)

    def _keep(self, record: EpisodeRecord) -> _Strata:
        """Return a bounded sample of each stratum, so that many episodes contribute."""
        shuffled = sorted(adjacent(record), key=lambda t: derive(self._root, "pick", t.key))
        kept: _Strata = {}
        for stratum, room in self._room.items():
            candidates = [t for t in shuffled if bool(t.events) == stratum]
            kept[stratum] = candidates[: max(16, room // self._settings.spread)]
        return kept


def write(
    store: Store, settings: TransitionSettings, law: Law, *, order: str = "shuffled",
    progress: Progress = quiet, workers: int = 1, again: Callable[[], Law] | None = None,
    player: str = "",
) -> Mapping[str, int]:  # fmt: skip
    """Collect transitions and write them into a corpus; return the sizes of the splits.

    Arguments are those of `collect`; `player` is the law's name in the corpus, by default its own.
    """
    rows = collect(settings, law, order=order, progress=progress, workers=workers, again=again)
    used = {**settings.model_dump(mode="json"), "law": player or law.name, "order": order}
    store.write("transitions", rows, used)
    return {split: len(transitions) for split, transitions in rows.items()}
