"""The coordinator: plays the rounds of all shards in lockstep, keeps states, restores lost shards.

    footer = Coordinator(division, world, law, InlineShards(division, law)).play([Memory()])

It holds a copy of the world in which no node decides. From the reports of the shards it derives the
scores, the time of late counterevidence and the end. States are kept every few rounds. When a shard
is lost, all shards return to the last kept round and continue; since every random draw is named,
the record is the same. A second loss before the next kept state ends the run with a one-line error,
and the same command resumes from that state.

Aliases of claims are drawn from a small pool; if two claims draw the same alias, the first one seen
gets it. Shards see claims in different orders, so the coordinator assigns the aliases again in the
order of a single process. If a shard chose differently, all shards go back and get the right names.
"""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from waggle.core.errors import ConfigError
from waggle.core.protocols import Decode, Law, Request, World
from waggle.core.record import Footer, RoundRecord, UpdateRecord
from waggle.runtime.names import Aliases
from waggle.runtime.recorder import Sink
from waggle.runtime.sync import Engine, Watcher
from waggle.shards import kept
from waggle.shards.division import Division, ShardDecisions, ShardRound, summed, united
from waggle.shards.shard import updates_of
from waggle.shared_folders import locked

KEEP_EVERY = 5
"""Rounds between two kept states."""
_KEPT = "kept"
_WRITER = "another run of the same episode"


class LostShard(Exception):
    """Raised when a shard or a law is lost; the message names it."""


class ShardGroup(Protocol):
    """The shards of one episode: objects in this process or actors of a cluster.

    Every method but `close` may raise `LostShard`.
    """

    def restore(self, states: Sequence[Path] | None, names: Mapping[str, str]) -> None:
        """Set every shard to a kept state, or its initial state; start missing shards."""
        ...

    def begin(self, round: int, committed: Mapping[int, str] | None) -> list[ShardDecisions]:
        """Play the first part of a round."""
        ...

    def finish(self, round: int, shocking: bool) -> list[ShardRound]:
        """Exchange the batches and play the second part of a round."""
        ...

    def keep(self, paths: Sequence[Path]) -> None:
        """Write the state of every shard."""
        ...

    def close(self) -> None:
        """Release the shards."""
        ...


class Traffic(NamedTuple):
    """Messages from node to node, and from shard to shard."""

    messages: int
    crossing: int
    """Messages between two shards."""
    bytes: int
    """Size of the batches that carried them."""


class _Progress:
    """The coordinator's part of a kept state."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.round = 0
        self.shocked = not engine.case.shock
        self.entries: list[RoundRecord] = []
        """The rounds so far, without their updates, which the shards write."""
        self.committed: dict[int, str] = {}
        self.counters: Counter[str] = Counter()
        self.traffic = Traffic(0, 0, 0)


class Coordinator:
    """Plays one episode that is divided into shards."""

    def __init__(
        self,
        division: Division,
        world: World,
        law: Law,
        group: ShardGroup,
        *,
        keep_every: int = KEEP_EVERY,
        watch: Watcher | None = None,
    ) -> None:
        """Take a division, the world that it was made from, and the shards that play it.

        Args:
            division: the assignment of nodes to shards.
            world: the world; only the coordinator may use it afterwards.
            law: the law whose name the record gets.
            group: the shards.
            keep_every: rounds between two kept states; 0 keeps none.
            watch: called after every round, with an entry that has no updates.
        """
        self._division = division
        self._nodes = division.nodes()
        self.group = group
        self._every = keep_every
        self.watch = watch
        whole: Any = world
        whole.restrict(())
        engine = Engine(world, _Named(law.name), division.case, **division.settings)
        self._names = Aliases(division.case.seed, 0)
        self._start = self._saved(_Progress(engine))
        self._now: _Progress
        self.losses: list[str] = []
        """Messages of the losses so far, in order."""

    @property
    def traffic(self) -> Traffic:
        """The traffic between nodes and shards so far."""
        return self._now.traffic

    def __str__(self) -> str:
        """Describe the number of shards and the traffic between them."""
        sent, crossing, size = self.traffic
        share = crossing / sent if sent else 0.0
        lost = f", {len(self.losses)} lost and started again" if self.losses else ""
        return f"{self._division.shards} ({share:.0%} of messages cross, {size:,} bytes{lost})"

    def play(self, sinks: Sequence[Sink] = ()) -> Footer:
        """Play to the end, from the last kept round if there is one, and write the record.

        Raises:
            ConfigError: after two losses in a row (the same command resumes), or while another
                process plays in the same folder.
        """
        with locked(self._division.folder, _WRITER):
            try:
                self._play()
            finally:
                self.group.close()
            return self._joined(sinks)

    def _joined(self, sinks: Sequence[Sink]) -> Footer:
        """Write the record by merging the parts that the shards have written."""
        engine = self._now.engine
        engine.recorder.counters.update(self._now.counters)
        header = replace(engine.header(), curves=self._division.curves)
        footer = engine.recorder.footer(self._now.round)
        for sink in sinks:
            sink.header(header)
        for entry in self._whole():
            for sink in sinks:
                sink.round(entry)
        for sink in sinks:
            sink.footer(footer)
        return footer

    def clear(self) -> None:
        """Remove the files of the shards, once the record is safe."""
        # Not while another run of the same command uses the folder, or begins to.
        with suppress(ConfigError), locked(self._division.folder, _WRITER):
            shutil.rmtree(self._division.folder, ignore_errors=True)

    def _play(self) -> None:
        """Play to the end, again from the kept state after a loss; two in a row are an error."""
        lost_after: int | None = None
        while True:
            try:
                self._play_from_kept()
                return
            except LostShard as loss:
                kept_round = self._load().round
                self.losses.append(str(loss))
                if kept_round == lost_after:
                    raise ConfigError(
                        f"{loss}, the second loss in a row; {self._division.folder} holds the "
                        f"state before round {kept_round}: run the same command again to go on"
                    ) from None
                lost_after = kept_round

    def _play_from_kept(self) -> None:
        """Play from the kept state to the end, or until a shard is lost."""
        self._restore()
        while not self._ended():
            shock_due, sent = self._begin_round()
            if not self._aliases_agree(sent):
                self._restore()  # it gives every shard the aliases of a single process
                continue
            self._finish_round(shock_due, sent)
            self._now.round += 1
            if self._every and self._now.round % self._every == 0:
                self._keep()

    def _ended(self) -> bool:
        world = self._now.engine.world
        return self._now.round >= world.rounds or world.done()

    def _begin_round(self) -> tuple[bool, list[ShardDecisions]]:
        """Return whether late counterevidence is due, and what the shards decided."""
        state, world = self._now, self._now.engine.world
        shock_due = not state.shocked and world.shock(state.round, state.committed) is not None
        return shock_due, self.group.begin(state.round, state.committed if shock_due else None)

    def _finish_round(self, shock_due: bool, sent: Sequence[ShardDecisions]) -> None:
        state, engine, round = self._now, self._now.engine, self._now.round
        shock = None
        if shock_due:
            state.shocked = True
            engine.schedule.injected(round)
            shock = united([part.shock for part in sent])
        engine.world.step({})
        closed = self.group.finish(round, not state.shocked)
        world: Any = engine.world
        world.absorb([(n, part.report) for n, part in zip(self._nodes, closed, strict=True)])
        state.committed = {n: z for part in closed for n, z in (part.committed or {}).items()}
        state.counters = Counter()
        for part in closed:
            state.counters.update(part.counters)
        traffic = Traffic(
            sum(part.attempted for part in sent),
            sum(part.crossing for part in sent),
            sum(part.bytes for part in sent),
        )
        state.traffic = Traffic(*map(sum, zip(state.traffic, traffic, strict=True)))
        entry = engine.recorder.round(
            round,
            [],
            traffic.messages,
            sum(part.delivered for part in closed),
            sum(part.expired for part in closed),
            shock,
            engine.schedule.suspended(round),
            summed(part.field for part in closed),
        )
        state.entries.append(entry)
        if self.watch is not None:
            self.watch(entry, engine.world)

    def _aliases_agree(self, sent: Sequence[ShardDecisions]) -> bool:
        """Return whether the shards chose the aliases of a single process.

        All aliases of the round are assigned here, in the order of a single process, also after one
        that differs: the next `_restore` gives them to the shards.
        """
        minted = list(merge(*(part.minted for part in sent), key=lambda one: one.node))
        assigned = [self._names.alias(one.claim) for one in minted]
        return assigned == [one.alias for one in minted]

    def _whole(self) -> Iterator[RoundRecord]:
        """Yield the rounds with the updates that the shards have written."""
        if self._division.curves:
            yield from self._now.entries
            return
        parts = [updates_of(self._division.folder, k) for k in range(self._division.shards)]
        for entry, *updates in zip(self._now.entries, *parts, strict=True):
            yield replace(entry, updates=tuple(merge(*updates, key=_node)))

    # Kept states: one file per shard, then one of the coordinator, which makes them valid.

    def _keep(self) -> None:
        folder = self._division.folder
        paths = self._states(self._now.round)
        self.group.keep(paths)
        kept.write(folder / _KEPT, self._division.key, [self._saved(self._now)])
        for path in folder.glob("state-*"):
            if path not in paths:
                path.unlink(missing_ok=True)

    def _saved(self, state: _Progress) -> bytes:
        return pickle.dumps((self._division.shards, dict(self._names.minted()), state), 5)

    def _load(self) -> _Progress:
        """Return the kept state, or the initial state."""
        path = self._division.folder / _KEPT
        saved = b"".join(kept.read(path, self._division.key)) if path.exists() else self._start
        shards, names, state = pickle.loads(saved)
        if shards != self._division.shards:
            raise ConfigError(
                f"{self._division.folder} holds the state of {shards} shards; go on with "
                f"--shards {shards}, or remove it"
            )
        self._names.adopt(names)
        progress: _Progress = state
        return progress

    def _restore(self) -> None:
        """Set coordinator and shards to the kept state, with all aliases known by now."""
        self._now = self._load()
        states = self._states(self._now.round) if self._now.round else None
        self.group.restore(states, dict(self._names.minted()))

    def _states(self, round: int) -> list[Path]:
        folder = self._division.folder
        return [folder / f"state-{round}-{index}" for index in range(self._division.shards)]


class _Named:
    """A placeholder with the name of the law that the shards call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Raise AssertionError: no node decides in the coordinator."""
        raise AssertionError(f"{self.name} is asked by the shards")


def _node(update: UpdateRecord) -> int:
    return update.node
