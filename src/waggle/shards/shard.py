"""One shard: the synchronous engine over some of the nodes of a swarm.

It opens the whole world and plays its share of the nodes. Views are formed and decided in chunks to
limit memory; this does not change the result, because a node's view depends only on its state
before the step. Messages to other shards are sent after the step of the world and sorted by sender
among the others, which is the order of a single process.
"""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from waggle.core.protocols import Act, Decode, Law, Request
from waggle.core.record import UpdateRecord
from waggle.runtime.state import Node, ShownView
from waggle.runtime.sync import Engine, LocalUpdate
from waggle.runtime.transport import Message, Transport
from waggle.runtime.worlds import native_actions
from waggle.shards import kept
from waggle.shards.division import Division, MintedAlias, ShardDecisions, ShardRound, pack, unpack

CHUNK = 4_096
"""Number of views that are formed and decided together."""
SLICE = 10_000
"""Number of nodes pickled together; limited because a pickler memoises every object."""


class Shard(Engine):
    """The part of an episode that one process plays."""

    def __init__(self, division: Division, index: int, law: Law) -> None:
        world: Any = division.open(division.case)
        world.restrict(division.nodes()[index])
        super().__init__(world, law, division.case, **division.settings)
        self._division = division
        self._index = index
        self.transport = Transport(self.swarm, self.schedule, self._post)
        self._mail: dict[int, list[Message]] = {}
        """Messages to this shard, by the round at whose end they arrive."""
        self._leaving: list[list[tuple[int, Message]]] = [[] for _ in range(division.shards)]
        self._done: list[LocalUpdate] = []
        self._written = 0
        """Size in bytes of this shard's part of the record."""

    def begin(
        self, round: int, committed: Mapping[int, str] | None
    ) -> Generator[Sequence[Request], Sequence[Decode], tuple[ShardDecisions, list[bytes]]]:
        """Play the first part of a round; return the report, and a batch for every shard.

        Args:
            round: the round.
            committed: all commitments of the swarm, if late counterevidence comes now, else None.
        """
        shock = None
        if committed is not None:
            shock = self.world.shock(round, committed)
            self.schedule.injected(round)
        attempted = self.transport.attempted
        nodes = [i for i in self.world.active() if not self.schedule.absent(i, round)]
        minted: list[MintedAlias] = []
        acts: dict[int, Act] = {}
        for start in range(0, len(nodes), CHUNK):
            chunk = nodes[start : start + CHUNK]
            known = len(self.swarm.aliases)
            shown = self._show(chunk, round)
            minted += self._minted(known, chunk, shown)
            admissions = yield from self._decide(chunk, shown, round)
            for node, view, admission in zip(chunk, shown, admissions, strict=True):
                done = self._commit(node, view, admission, round)
                acts[node] = self._act(done)
                if self._division.curves:
                    self.recorder.update(*done, None)
                else:
                    self._done.append(done)
            self.recorder.add_up()
        native = native_actions(self.world.step(acts), self.case.substrate)
        self._native = {} if self._division.curves else native
        crossing = sum(map(len, self._leaving))
        batches = [self._packed(letters) for letters in self._leaving]
        sent = self.transport.attempted - attempted
        return ShardDecisions(minted, sent, crossing, sum(map(len, batches)), shock), batches

    def _minted(
        self, known: int, nodes: Sequence[int], shown: Sequence[ShownView]
    ) -> list[MintedAlias]:
        """Return the aliases that these views introduced, each with the first node that saw it.

        Views in canonical order rename the claims, so that no alias leaves the runtime.
        """
        if self.order == "canonical":
            return []
        found = []
        for claim, alias in self.swarm.aliases.minted(known):
            text = alias.encode()
            node = next(i for i, s in zip(nodes, shown, strict=True) if text in s.data)
            found.append(MintedAlias(node, claim, alias))
        return sorted(found, key=lambda one: one.node)

    def _post(self, message: Message, arrival: int | None) -> None:
        """Queue a message for a node of this shard, or for sending to another shard."""
        if arrival is None:
            return
        owner = self._division.owner[message.write.receiver]
        if owner == self._index:
            self._mail.setdefault(arrival, []).append(message)
        else:
            self._leaving[owner].append((arrival, message))

    def _packed(self, letters: list[tuple[int, Message]]) -> bytes:
        """Return the outgoing messages for one shard as a batch, and clear them."""
        if not letters:
            return b""
        world: Any = self.world
        batch = pack(
            (arrival, message._replace(payload=world.depart(message.write, message.payload)))
            for arrival, message in letters
        )
        letters.clear()
        return batch

    def finish(self, round: int, batches: Sequence[bytes], shocking: bool) -> ShardRound:
        """Play the second part of a round; `shocking` while late counterevidence may come."""
        expired = self._age()
        for batch in filter(None, batches):
            for arrival, message in unpack(batch):
                self._mail.setdefault(arrival, []).append(message)
        arrived = sorted(self._mail.pop(round, []), key=lambda m: m.write.sender)
        delivered = self.transport.hand_over(arrived, round)
        self._count_refused()
        self._write()
        world: Any = self.world
        return ShardRound(
            delivered,
            expired,
            self.recorder.field_mass(),
            world.report(),
            self.swarm.committed() if shocking else None,
            self.recorder.counters,
        )

    def _write(self) -> None:
        """Append the updates of a round to the record of this shard, one line each."""
        if self._division.curves:
            return
        entries = [self.recorder.update(*d, self._native.get(d.node)) for d in self._done]
        self._done = []
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries) + b"\n"
        with open(record_of(self._division.folder, self._index), "ab") as file:
            file.write(gzip.compress(lines, 1, mtime=0))
            self._written = file.tell()

    def keep(self, path: Path) -> None:
        """Write the state of this shard to a file."""
        nodes, self.swarm.nodes = self.swarm.nodes, {}
        try:
            kept.write(path, self._division.key, self._pickled(nodes))
        finally:
            self.swarm.nodes = nodes

    def _pickled(self, nodes: Mapping[int, Node]) -> Iterator[bytes]:
        """Yield the pickled shard without its nodes, and then its nodes in slices."""
        yield pickle.dumps(self, 5)
        left = iter(nodes.items())
        while some := list(islice(left, SLICE)):
            yield pickle.dumps(some, 5)

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes except the law and the division, which `restored` sets."""
        return {k: v for k, v in self.__dict__.items() if k not in ("law", "_division")}


def restored(path: Path | None, division: Division, index: int, law: Law) -> Shard:
    """Return a shard in a kept or initial state; its record is truncated to that round."""
    if path is None:
        shard = Shard(division, index, law)
    else:
        parts = kept.read(path, division.key)
        shard = pickle.loads(next(parts))
        shard.law, shard._division = law, division
        for part in parts:
            shard.swarm.nodes.update(pickle.loads(part))
    if not division.curves:
        record = record_of(division.folder, index)
        record.touch()
        os.truncate(record, shard._written)
    return shard


def updates_of(folder: Path, index: int) -> Iterator[list[UpdateRecord]]:
    """Yield the updates of a shard, round by round."""
    decode = msgspec.json.Decoder(UpdateRecord).decode
    with gzip.open(record_of(folder, index), "rb") as lines:
        found: list[UpdateRecord] = []
        for line in lines:
            if line != b"\n":
                found.append(decode(line))
                continue
            yield found
            found = []


def record_of(folder: Path, index: int) -> Path:
    """Return the file of a shard's part of the record."""
    return folder / f"part-{index}.jsonl.gz"
