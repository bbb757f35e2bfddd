"""A record as the JSON document that the page plays, one per episode.

The document holds each agent's changes of claim and action, the messages and the curves, all as
numbers; each claim's name is listed once. It grows round by round, so that a running episode can be
followed. Records are decoded line by line, and only the fields that the document needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from waggle.core import prompt
from waggle.core.errors import RecordError
from waggle.core.protocols import Shock
from waggle.core.record import FieldMass, Footer, Header
from waggle.core.schema import BROADCAST
from waggle.runtime.names import Aliases
from waggle.runtime.records import entries_as
from waggle.view.decisions import MAX_RAW, small
from waggle.view.library import cut, task_of
from waggle.view.scene import Edge, scene

MAX_AGENTS = 20_000
MAX_CELLS = 4_000_000
"""Largest product of agents and rounds that a page holds."""
MAX_MESSAGES = 300_000
"""Messages that a page animates; an episode with more is shown without messages."""
MAX_WORDS = 5_000
"""Claims, and likewise actions, of one episode that get their own number."""
MAX_HANDLES = 20_000
"""Handles whose contact is sent to the page."""
OTHER = "(another)"


class _Deposit(msgspec.Struct, gc=False):
    channel: str


class _Decision(msgspec.Struct, gc=False):
    task_action: str
    deposits: tuple[_Deposit, ...]


class _Write(msgspec.Struct, gc=False):
    claim: str
    receivers: tuple[int, ...]
    fresh: bool
    challenge: bool
    cause: str | None = None


class _Update(msgspec.Struct, gc=False):
    """The fields of a local update that the page needs; views and texts are skipped."""

    node: int
    decision: _Decision
    writes: tuple[_Write, ...] = ()
    native: str | None = None
    claim: str | None = None
    reopened: str | None = None


class Round(msgspec.Struct, tag="round", tag_field="kind"):
    """The fields of a round that the page needs."""

    round: int
    updates: tuple[_Update, ...]
    score: Mapping[str, float]
    attempted: int
    delivered: int
    field: Mapping[str, FieldMass] = {}
    shock: Shock | None = None


_decoder: msgspec.json.Decoder[Header | Round | Footer] = msgspec.json.Decoder(
    Header | Round | Footer
)


class _Words:
    """The words of an episode, numbered in order of appearance, and each agent's current word."""

    def __init__(self, n: int) -> None:
        self.numbers: dict[str, int] = {OTHER: 0}
        self.now: list[str | None] = [None] * n

    def number(self, word: str | None) -> int:
        if word is None:
            return -1
        if len(self.numbers) >= MAX_WORDS:
            return self.numbers.get(word, 0)
        return self.numbers.setdefault(word, len(self.numbers))

    def since(self, count: int) -> list[str]:
        return list(self.numbers)[count:]


class Document:
    """An episode as the page plays it, built round by round."""

    def __init__(self, name: str, header: Header) -> None:
        """Start with the header of a record; `name` appears in error messages.

        Raises:
            RecordError: if the swarm is empty or too large to be shown.
        """
        self.n = header.case.n
        if not 0 < self.n <= MAX_AGENTS:
            raise RecordError(f"{name} has {self.n} agents, the viewer shows 1 to {MAX_AGENTS}")
        self.name, self.header = name, header
        self.rounds: list[dict[str, Any]] = []
        self.met: set[Edge] = set()
        self._claims, self._actions = _Words(self.n), _Words(self.n)
        self._handles: dict[tuple[int, str], int] = {}
        self._aliases = Aliases(header.case.seed, header.salt)
        self._messages = 0
        self._known = [(0, 0, 0)]
        """Numbers of claims, actions and handles known before each round."""

    def add(self, entry: Round) -> None:
        """Add the next round.

        Raises:
            RecordError: if the round is out of order, one too many, or names agents out of range.
        """
        if (len(self.rounds) + 1) * self.n > MAX_CELLS or entry.round != len(self.rounds):
            raise RecordError(f"{self.name} has too many rounds, or some are out of order")
        row = self._round(entry)
        self._meet(entry)
        self._messages += len(row["writes"])
        if self._messages > MAX_MESSAGES:
            row["writes"] = []
        self.met.update((w[0], w[1]) if w[0] < w[1] else (w[1], w[0]) for w in row["writes"])
        self.rounds.append(row)
        known = (self._claims.numbers, self._actions.numbers, self._handles)
        self._known.append((len(known[0]), len(known[1]), len(known[2])))

    def since(self, start: int) -> dict[str, Any]:
        """Return the rounds from `start` on, with the words and contacts that are new in them."""
        claims, actions, handles = self._known[min(start, len(self.rounds))]
        names = self._claims.since(claims)
        # If two claims draw the same alias, the first one gets it: name all claims in order.
        aliases = [self._aliases.alias(claim) for claim in self._claims.numbers]
        return {
            "claims": [cut(claim) for claim in names],
            "aliases": aliases[claims:],
            "actions": [cut(action) for action in self._actions.since(actions)],
            "handles": [
                (node, cut(handle), to)
                for (node, handle), to in list(self._handles.items())[handles:]
                if to >= 0
            ],
            "rounds": self.rounds[start:],
            "quiet": self._messages > MAX_MESSAGES,
        }

    def facts(self, scores: list[str]) -> dict[str, Any]:
        """Return the facts of the header, with the names of the scores."""
        header = self.header
        return {
            "task": cut(task_of(header)), "law": cut(header.law), "n": self.n,
            "seed": str(header.case.seed), "engine": cut(header.engine), "order": cut(header.order),
            "goal": cut(header.contract.goal, MAX_RAW), "scores": scores[:12],
            "system": prompt.system(), "prefix": cut(prompt.prefix(header.contract), MAX_RAW),
        }  # fmt: skip

    def _round(self, entry: Round) -> dict[str, Any]:
        """Return one round: changed claims and actions, messages, reopenings, absences, curves."""
        n, number = self.n, self._claims.number
        held, acted, reopened = [], [], []
        claims, actions = self._claims.now, self._actions.now
        writes: list[tuple[int, int, int, int]] = []
        silenced, present = Counter[str](), set[int]()
        for update in entry.updates:
            node = update.node
            if not 0 <= node < n:
                raise RecordError(
                    f"round {entry.round} names agent {node} of {n}; run the case again"
                )
            present.add(node)
            claim, action = update.claim, update.native or update.decision.task_action
            if claim != claims[node]:
                claims[node] = claim
                held.append((node, number(claim)))
            if action != actions[node]:
                actions[node] = action
                acted.append((node, self._actions.number(action)))
            if update.reopened is not None:
                reopened.append(node)
            for write in update.writes:
                if write.cause is not None:
                    silenced[cut(write.cause, 40)] += 1
                    continue
                kind = 2 if write.challenge else 0 if write.fresh else 1
                word = number(write.claim)
                writes += [(node, to, word, kind) for to in write.receivers if 0 <= to < n]
        masses = list(entry.field.values())
        shock = entry.shock
        away = [node for node in range(n) if node not in present] if len(present) < n else []
        return {
            "held": held, "acted": acted, "writes": writes, "reopened": reopened,
            "away": away if present else "all",
            "silenced": dict(silenced.most_common(12)),
            "score": {cut(k): v for k, v in list(entry.score.items())[:12]},
            "sent": entry.attempted, "arrived": entry.delivered,
            "mass": [sum(m.novelty for m in masses), sum(m.support for m in masses),
                     sum(m.conflict for m in masses)],
            **({} if shock is None else {"shock": {
                "note": cut(shock.note or "counterevidence", 300),
                "nodes": [node for node in shock.nodes if 0 <= node < n],
            }}),
        }  # fmt: skip

    def _meet(self, entry: Round) -> None:
        """Map agents' handles to contacts, from writes with one receiver; -1 if two disagree."""
        handles, n = self._handles, self.n
        for update in entry.updates if len(handles) < MAX_HANDLES else ():
            for deposit, write in zip(update.decision.deposits, update.writes, strict=False):
                if deposit.channel == BROADCAST or len(write.receivers) != 1:
                    continue
                key, (to,) = (update.node, deposit.channel), write.receivers
                handles[key] = to if 0 <= to < n and handles.get(key, to) == to else -1


def document(path: Path) -> dict[str, Any]:
    """Return the whole episode as the page plays it.

    Raises:
        RecordError: if the file is not a record, is truncated, or is too large to be shown.
    """
    is_small = small(path)
    made: Document | None = None
    footer: Footer | None = None
    for entry in entries_as(path, _decoder):
        if made is None:
            if not isinstance(entry, Header):
                break
            made = Document(path.name, entry)
        elif footer is not None or isinstance(entry, Header):
            raise RecordError(f"{path.name}: its rounds are not in order; run the case again")
        elif isinstance(entry, Footer):
            footer = entry
        else:
            made.add(entry)
    if made is None:
        raise RecordError(f"{path.name} does not start with a record header; name a record file")
    if footer is None:
        raise RecordError(f"{path.name} has no footer: it was cut; run the case again")
    return {
        **made.facts(list(footer.scores)),
        **made.since(0),
        "scene": scene(made.header, made.n, made.met, path if is_small else None),
        "live": False,
    }
