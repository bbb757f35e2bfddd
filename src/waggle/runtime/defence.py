"""Defences against Byzantine nodes that keep nodes anonymous: provenance, doubt, reopening.

    waggle run silo/III-26 --perturb.byzantine 0.1 --perturb.attack stale --defend.provenance

Each is off by default and then has no visible effect. *Provenance*: the runtime seals every message
with a tag: a pseudonym of the statement's origin, the round in which it was made, and its number of
hops. A message whose seal does not match is refused, and a trace is dropped when its origin has
replaced the statement. *Reputation*: a view shows for each handle how many of its statements the
node's evidence contradicted on arrival. *Reopening*: a node may reopen one claim only a limited
number of times in a window. Invariant: tags are neither shown nor recorded, doubt ends with its
handle, and pseudonyms derive from a node's key, so relabelling the swarm relabels the defence.
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
"""The channel fact that counts statements contradicted by the node's evidence."""
WINDOW = MAX_TTL
"""Rounds over which reopenings of one claim are counted: the lifetime of a fresh trace."""


class Defence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which defences are on."""

    provenance: bool = False
    """Seal messages; refuse forged messages and statements that their origin has replaced."""
    reputation: bool = False
    """Show how often a node's own evidence contradicted what a channel delivered."""
    reopening: int = 0
    """Maximum times a node may reopen one claim within eight rounds; 0 for no limit."""

    def __post_init__(self) -> None:
        if not 0 <= self.reopening <= 1_000:
            raise ConfigError("defence reopening must be from 0 to 1000 times")


class Tag(NamedTuple):
    """The origin of a statement; sealed by the runtime and visible only to it."""

    origin: int
    """A pseudonym that lasts for the episode."""
    born: int
    """The round in which the statement was made."""
    hops: int
    seal: bytes


class Provenance:
    """Creates and checks the tags of one episode, and stores those of held traces."""

    def __init__(self, seed: int, keys: Sequence[int], exclusive: bool) -> None:
        """Derive the key of an episode.

        Args:
            seed: the seed of the episode, so that a replay derives the same key.
            keys: the hidden keys of the nodes.
            exclusive: whether a node has a single answer, which a newer one replaces.
        """
        key = derive(seed, "provenance")
        self._key = key.to_bytes(8, "big")
        self._names = [mix(key, own) for own in keys]
        self._exclusive = exclusive
        self._held: list[dict[tuple[int, str], Tag]] = [{} for _ in keys]
        self.refused: Counter[str] = Counter()
        """Messages refused so far, by cause."""

    def tag(self, write: Write, held: Iterable[HeldTrace], round: int) -> Tag | None:
        """Return the tag of a write: a new one, or that of the newest trace that it relays."""
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
        """Return what is wrong with an arriving message and count it, or return None."""
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
        """Store the tag of a delivered write; return the held traces that its origin replaced."""
        old = [key for key, t in self._related(write, tag, held) if t.born < tag.born]
        self._held[write.receiver][write.sender, write.claim] = tag
        return old

    def _related(
        self, write: Write, tag: Tag, held: Iterable[HeldTrace]
    ) -> list[tuple[tuple[int, str], Tag]]:
        """Return held traces of the same origin and claim, or of any claim if `exclusive`."""
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
    """The claims of each current handle that one node's evidence contradicted."""

    __slots__ = ("_against",)

    def __init__(self) -> None:
        self._against: dict[str, set[str]] = {}

    def note(self, handle: str, claim: str) -> None:
        """Note that a claim was contradicted when it arrived over a handle."""
        self._against.setdefault(handle, set()).add(claim)

    def keep(self, handles: Iterable[str]) -> None:
        """Forget every handle but these; a neighbour with a new handle is not recognised."""
        self._against = {h: self._against[h] for h in handles if h in self._against}

    def doubt(self, handle: str) -> int:
        """Return the number of contradicted claims of a handle, at most the largest bin."""
        return min(len(self._against.get(handle, ())), MAX_BIN)


class Reopenings:
    """The rounds in which one node reopened each claim."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        self._rounds: dict[str, list[int]] = {}

    def take(self, claim: str, round: int, most: int) -> bool:
        """Return whether a claim may be reopened once more; if so, count this reopening."""
        recent = [r for r in self._rounds.get(claim, ()) if round - r < WINDOW]
        if len(recent) >= most:
            return False
        self._rounds[claim] = [*recent, round]
        return True
