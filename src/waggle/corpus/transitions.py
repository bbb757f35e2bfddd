"""Sequential transition collection: (view, admitted decision, next view of the same node).

"Sequential transition collection": complete training-seed episodes of the warm start through the
fixed runtime; terminal records without a next view are masked; two strata, ordinary and eventful
(verified conflict, challenge, commitment, reopening, expiry). Episodes belong to one split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from waggle import plugins
from waggle.core.canon import decode_view
from waggle.core.modes import Mode
from waggle.core.protocols import Case, Law
from waggle.core.record import EpisodeRecord, UpdateRecord
from waggle.core.schema import View
from waggle.core.seeds import Split, derive, require
from waggle.corpus.curriculum import Progress, quiet
from waggle.corpus.native import open_case, training_tasks, view_head, whole_view
from waggle.corpus.settings import TransitionSettings
from waggle.corpus.store import CorpusError, Store, Transition
from waggle.runtime.lockstep import play_together
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

SEEDS: Mapping[str, range] = {
    "train": range(6_000), "validation": range(6_000, 7_000), "probe": range(8_000, 9_000),
    "test": range(9_000, 10_000),
}  # fmt: skip
"""Episode seeds by split, all of them training seeds."""
WIDTH = 4096
"""Requests that one batch of episodes played together may hold."""
EVENTS = ("conflict", "challenge", "commitment", "reopening", "expiry")


def events(view: View, update: UpdateRecord) -> tuple[str, ...]:
    """Name what makes an update eventful; empty for an ordinary one."""
    decision = update.decision
    found = {
        "conflict": any(e.conflict > 0 for e in view.private.evidence),
        "challenge": update.mode == Mode.CHALLENGE,
        "commitment": decision.commit is not None,
        "reopening": update.reopened is not None,
        "expiry": any(t.ttl == 1 for t in view.traces),
    }
    return tuple(name for name in EVENTS if found[name])


def adjacent(record: EpisodeRecord) -> Iterator[Transition]:
    """Yield every transition of an episode whose node takes part in the next update too."""
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
    settings: TransitionSettings, law: Law, *, order: str = "shuffled", progress: Progress = quiet
) -> dict[str, list[Transition]]:
    """Play episodes until every split has its share of both strata.

    Families take turns; within a family so do its tasks.
    """
    tasks = training_tasks(settings.tasks)
    sizes = {name: getattr(settings, name) for name in SEEDS}
    return {
        split: _Split(settings, tasks, split, size).fill(law, order, progress)
        for split, size in sizes.items()
        if size
    }


class _Split:
    """One split being filled."""

    def __init__(
        self, settings: TransitionSettings, tasks: Sequence[plugins.Task], split: str, size: int
    ) -> None:
        self._settings, self._split, self._size = settings, split, size
        self._root = derive(settings.seed, "transitions", split)
        families = list(dict.fromkeys(task.substrate for task in tasks))
        self._by_family = {f: [t for t in tasks if t.substrate == f] for f in families}
        eventful = round(size * settings.eventful)
        self._room = {True: eventful, False: size - eventful}
        self._found: dict[bool, list[Transition]] = {True: [], False: []}

    def fill(self, law: Law, order: str, progress: Progress) -> list[Transition]:
        wave = self._settings.together
        for first in range(0, self._settings.episodes, wave):
            if self._full():
                break
            last = min(first + wave, self._settings.episodes)
            self._play(law, order, range(first, last))
            done = sum(min(len(self._found[k]), self._room[k]) for k in self._room)
            progress(f"transitions {self._split}", done, self._size)
        chosen = [t for stratum, room in self._room.items() for t in self._found[stratum][:room]]
        if not chosen:
            raise CorpusError(
                f"no transition for {self._split!r} in {self._settings.episodes} episodes; "
                "raise `rounds` or `episodes`"
            )
        return sorted(chosen, key=lambda t: derive(self._root, "order", t.key))

    def _full(self) -> bool:
        return all(len(self._found[k]) >= room for k, room in self._room.items())

    def _play(self, law: Law, order: str, episodes: Sequence[int]) -> None:
        """Play some episodes side by side; records come in their order, whichever ends first."""
        engines, memories = [], []
        for episode in episodes:
            case, world = open_case(self._case(episode))
            memories.append(Memory())
            engines.append(Engine(world, law, case, order=order, sinks=[memories[-1]]))  # type: ignore[arg-type]
        for _ in play_together(engines, law, width=WIDTH):
            pass
        for memory in memories:
            self._keep(memory.record())

    def _case(self, episode: int) -> Case:
        s, families = self._settings, list(self._by_family)
        family = families[episode % len(families)]
        tasks = self._by_family[family]
        task = tasks[(episode // len(families)) % len(tasks)]
        pool = SEEDS[self._split]
        seed = require(pool[derive(self._root, "seed", episode) % len(pool)], Split.TRAIN)
        n = s.n[derive(self._root, "n", episode) % len(s.n)]
        return Case(task.substrate, task.task, n, seed, s.rounds, shock=episode % 4 >= 2)

    def _keep(self, record: EpisodeRecord) -> None:
        """Keep a bounded draw of each stratum of an episode, so that many episodes count."""
        found = sorted(adjacent(record), key=lambda t: derive(self._root, "pick", t.key))
        for stratum in (True, False):
            some = [t for t in found if bool(t.events) == stratum]
            self._found[stratum] += some[: max(16, self._room[stratum] // self._settings.spread)]


def write(
    store: Store, settings: TransitionSettings, law: Law, *, order: str = "shuffled",
    progress: Progress = quiet,
) -> Mapping[str, int]:  # fmt: skip
    """Collect transitions and write them into a corpus; return the sizes of the splits."""
    rows = collect(settings, law, order=order, progress=progress)
    used = {**settings.model_dump(mode="json"), "law": law.name, "order": order}
    store.write("transitions", rows, used)
    return {split: len(some) for split, some in rows.items()}
