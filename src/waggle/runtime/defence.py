"""Defences against Byzantine nodes that leave everybody anonymous: provenance, doubt, reopening.

    waggle run silo/III-26 --perturb.byzantine 0.1 --perturb.attack stale --defend.provenance

Each is off by default, and nothing of it shows then. *Provenance*: the runtime seals every message
with a tag that says under a pseudonym where and when its statement was first made and how many hops
it has made; a seal that does not fit is refused, and a statement that its origin has replaced is
held no longer. *Reputation*: a view says of a handle how many of its statements own evidence
contradicted on arrival. *Reopening*: a node gives up one claim so often in a window, not more.
Invariant: tags are neither shown nor recorded, doubt ends with its handle, and every name is drawn
by a node's key, so relabelling the swarm relabels the defence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from waggle.core.errors import ConfigError
from waggle.core.protocols import HeldTrace, Write
from waggle.core.schema import MAX_BIN, MAX_TTL
from waggle.core.seeds import derive, mix

DOUBT = "doubt"
"""The fact of a channel that says how many of its statements own evidence contradicted."""
WINDOW = MAX_TTL
"""Rounds in which reopenings of one claim are counted: as long as a fresh trace lives."""


class Defence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which defences are on."""

    provenance: bool = False
    """Seal messages; refuse forged ones and statements that their origin has replaced."""
    reputation: bool = False
    """Show how often own evidence contradicted what came over a channel."""
    reopening: int = 0
    """Times that a node may reopen one claim within eight rounds; 0 sets no bound."""

    def __post_init__(self) -> None:
        if not 0 <= self.reopening <= 1_000:
            raise ConfigError("defence reopening must be from 0 to 1000 times")


class Tag(NamedTuple):
    """Where a statement comes from; sealed by the runtime, seen by nobody else."""

    origin: int
    """A pseudonym that lasts for the episode."""
    born: int
    """The round in which the statement was made."""
    hops: int
    seal: bytes


class Provenance:
    """Makes and checks the tags of one episode, and keeps those of the traces that nodes hold."""

    def __init__(self, seed: int, keys: Sequence[int], exclusive: bool) -> None:
        """Make the key of an episode.

        Args:
            seed: names the episode, so that a replay makes the same key.
            keys: the hidden keys of the nodes.
            exclusive: whether a node has one answer, which a newer one replaces.
        """
        key = derive(seed, "provenance")
        self._key = key.to_bytes(8, "big")
        self._names = [mix(key, own) for own in keys]
        self._exclusive = exclusive
        self._held: list[dict[tuple[int, str], Tag]] = [{} for _ in keys]
        self.refused: Counter[str] = Counter()
        """Messages refused so far, by cause."""

    def tag(self, write: Write, held: Iterable[HeldTrace], round: int) -> Tag | None:
        """Return the tag of a write: a new one, or that of the newest trace which it relays."""
        if write.fresh:
            return self._sealed(self._names[write.sender], round, 0, write.claim)
        known = self._held[write.sender]
        tags = [
            known[t.neighbour, t.claim]
            for t in held
            if t.claim == write.claim and t.ttl > write.ttl and (t.neighbour, t.claim) in known
        ]
        if not tags:
            return None
        newest = max(tags, key=lambda tag: (tag.born, -tag.hops, tag.origin))
        return self._sealed(newest.origin, newest.born, newest.hops + 1, write.claim)

    def _sealed(self, origin: int, born: int, hops: int, claim: str) -> Tag:
        text = repr((origin, born, hops, claim)).encode()
        return Tag(origin, born, hops, blake2b(text, key=self._key, digest_size=16).digest())

    def fault(self, write: Write, tag: Tag | None, held: Iterable[HeldTrace]) -> str | None:
        """Name what is wrong with a message that arrives, or return None; count what is."""
        found = None
        if tag is None or tag != self._sealed(tag.origin, tag.born, tag.hops, write.claim):
            found = "forged"
        elif write.ttl + tag.hops > MAX_TTL:
            found = "prolonged"
        elif any(t.born > tag.born for _, t in self._related(write, tag, held)):
            found = "outdated"
        if found:
            self.refused[found] += 1
        return found

    def replaced(self, write: Write, tag: Tag, held: Iterable[HeldTrace]) -> list[tuple[int, str]]:
        """Take the tag of a delivered write; return the held traces that its origin replaced."""
        old = [key for key, t in self._related(write, tag, held) if t.born < tag.born]
        self._held[write.receiver][write.sender, write.claim] = tag
        return old

    def _related(
        self, write: Write, tag: Tag, held: Iterable[HeldTrace]
    ) -> list[tuple[tuple[int, str], Tag]]:
        """Return what the receiver holds of the same origin, on the same matter."""
        known = self._held[write.receiver]
        now = {key: known[key] for t in held if (key := (t.neighbour, t.claim)) in known}
        self._held[write.receiver] = now
        same = self._exclusive
        return [
            (key, t)
            for key, t in now.items()
            if t.origin == tag.origin and (same or key[1] == write.claim)
        ]


class Reputation:
    """The claims by which one node's evidence contradicted each of its present handles."""

    __slots__ = ("_against",)

    def __init__(self) -> None:
        self._against: dict[str, set[str]] = {}

    def note(self, handle: str, claim: str) -> None:
        """Note that a claim was contradicted when it came over a handle."""
        self._against.setdefault(handle, set()).add(claim)

    def keep(self, handles: Iterable[str]) -> None:
        """Forget every handle but these: who comes back under another one is not known."""
        self._against = {h: self._against[h] for h in handles if h in self._against}

    def doubt(self, handle: str) -> int:
        """Return how many claims stand against a handle, in the bins of a view."""
        return min(len(self._against.get(handle, ())), MAX_BIN)


class Reopenings:
    """When one node reopened which claim."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        self._rounds: dict[str, list[int]] = {}

    def take(self, claim: str, round: int, most: int) -> bool:
        """Whether a claim may be reopened once more; if so, this counts as one time."""
        recent = [r for r in self._rounds.get(claim, ()) if round - r < WINDOW]
        if len(recent) >= most:
            return False
        self._rounds[claim] = [*recent, round]
        return True
