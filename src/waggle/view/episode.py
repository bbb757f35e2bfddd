"""A record as the page plays it: one document for the whole episode, one for every decision.

The document holds who changed what it holds, who wrote to whom and the curves, in numbers; claims
are named once. Views, prompts and decodes come one decision at a time. A file is read as a stream;
only small records are held, two at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from waggle.api import show
from waggle.core import prompt
from waggle.core.admit import CODES
from waggle.core.errors import RecordError, WaggleError
from waggle.core.record import EpisodeRecord, Footer, Header, RoundRecord, UpdateRecord
from waggle.core.schema import BROADCAST
from waggle.runtime.names import Aliases
from waggle.runtime.records import entries, read
from waggle.runtime.replay import UNSEEN, view_of
from waggle.view.library import cut, task_of
from waggle.view.scene import scene

MAX_FILE = 64 << 20
"""Bytes of a record that is shown."""
MAX_HELD = 4 << 20
"""Bytes of a record that is held in memory as a whole."""
MAX_AGENTS = 20_000
MAX_CELLS = 4_000_000
"""Agents times rounds that a page holds."""
MAX_MESSAGES = 300_000
"""Messages that a page animates; an episode with more shows its agents alone."""
MAX_WORDS = 5_000
"""Claims, or actions, of one episode that are told apart."""
MAX_HANDLES = 20_000
"""Handles whose contact a page knows."""
MAX_RAW = 20_000
"""Characters that are shown of a decode, a slot or a prompt."""
OTHER = "(another)"


@lru_cache(maxsize=2)
def _held(path: Path, stamp: tuple[int, int]) -> EpisodeRecord:
    return read(path)


def _small(path: Path) -> EpisodeRecord | None:
    """Return the record of a small file, kept for the next question; None for a large file."""
    try:
        stat = path.stat()
    except OSError as error:
        raise RecordError(f"cannot read {path.name} ({error.strerror}); reload the page") from None
    if stat.st_size > MAX_FILE:
        raise RecordError(
            f"{path.name} has {stat.st_size >> 20} MB, the viewer shows records up to "
            f"{MAX_FILE >> 20} MB; `waggle show` reads larger ones"
        )
    return _held(path, (stat.st_mtime_ns, stat.st_size)) if stat.st_size <= MAX_HELD else None


class _Words:
    """Words of an episode, numbered as they come; with the word that every agent has now."""

    def __init__(self, n: int) -> None:
        self.numbers: dict[str, int] = {OTHER: 0}
        self._now: list[str | None] = [None] * n

    def number(self, word: str | None) -> int:
        if word is None:
            return -1
        if len(self.numbers) >= MAX_WORDS:
            return self.numbers.get(word, 0)
        return self.numbers.setdefault(word, len(self.numbers))

    def change(self, node: int, word: str | None) -> list[tuple[int, int]]:
        """Return agent and number if the agent's word is another than before."""
        if word == self._now[node]:
            return []
        self._now[node] = word
        return [(node, self.number(word))]


def document(path: Path) -> dict[str, Any]:
    """Return the whole episode as the page plays it.

    Raises:
        RecordError: for a file that is no record, was cut, or is too large to be shown.
    """
    record = _small(path)
    stream: Iterator[Header | RoundRecord | Footer] = entries(path)
    if record is not None:
        stream = iter((record.header, *record.rounds, record.footer))
    header = next(stream, None)
    if not isinstance(header, Header):
        raise RecordError(f"{path.name} does not start with a record header; name a record file")
    n = header.case.n
    if not 0 < n <= MAX_AGENTS:
        raise RecordError(f"{path.name} has {n} agents, the viewer shows 1 to {MAX_AGENTS}")
    claims, actions, met = _Words(n), _Words(n), set[tuple[int, int]]()
    rounds, messages = list[dict[str, Any]](), 0
    handles: dict[tuple[int, str], int] = {}
    footer: Footer | None = None
    for entry in stream:
        if footer is not None or isinstance(entry, Header):
            raise RecordError(f"{path.name}: its rounds are not in order; run the case again")
        if isinstance(entry, Footer):
            footer = entry
            continue
        if (len(rounds) + 1) * n > MAX_CELLS or entry.round != len(rounds):
            raise RecordError(f"{path.name} has too many rounds, or some are out of order")
        row = _round(entry, n, claims, actions)
        _meet(entry, n, handles)
        messages += len(row["writes"])
        if messages > MAX_MESSAGES:
            row["writes"] = []
        met.update((min(w[0], w[1]), max(w[0], w[1])) for w in row["writes"])
        rounds.append(row)
    if footer is None:
        raise RecordError(f"{path.name} has no footer: it was cut; run the case again")
    aliases = Aliases(header.case.seed, header.salt)
    return {
        **_facts(header, footer),
        "claims": [cut(claim) for claim in claims.numbers],
        "aliases": [aliases.alias(claim) for claim in claims.numbers],
        "actions": [cut(action) for action in actions.numbers],
        "handles": [(node, cut(handle), to) for (node, handle), to in handles.items() if to >= 0],
        "rounds": rounds,
        "quiet": messages > MAX_MESSAGES,
        "scene": scene(record, n, met),
    }


def _facts(header: Header, footer: Footer) -> dict[str, Any]:
    names = list(footer.scores)[:12]
    return {
        "task": cut(task_of(header)), "law": cut(header.law), "n": header.case.n,
        "seed": str(header.case.seed), "engine": cut(header.engine), "order": cut(header.order),
        "goal": cut(header.contract.goal, MAX_RAW), "scores": names,
        "system": prompt.system(), "prefix": cut(prompt.prefix(header.contract), MAX_RAW),
    }  # fmt: skip


def _round(entry: RoundRecord, n: int, claims: _Words, actions: _Words) -> dict[str, Any]:
    """Return one round: changes of what is held, messages, reopenings, absences, curves."""
    held, acted, reopened = [], [], []
    writes: list[tuple[int, int, int, int]] = []
    silenced, present = Counter[str](), set()
    for update in entry.updates:
        node = update.node
        if not 0 <= node < n:
            raise RecordError(f"round {entry.round} names agent {node} of {n}; run the case again")
        present.add(node)
        held += claims.change(node, update.claim)
        acted += actions.change(node, update.native or update.decision.task_action)
        if update.reopened is not None:
            reopened.append(node)
        for write in update.writes:
            if write.cause is not None:
                silenced[cut(write.cause, 40)] += 1
                continue
            kind = 2 if write.challenge else 0 if write.fresh else 1
            number = claims.number(write.claim)
            writes.extend((node, to, number, kind) for to in write.receivers if 0 <= to < n)
    masses = list(entry.field.values())
    shock = entry.shock
    return {
        "held": held, "acted": acted, "writes": writes, "reopened": reopened,
        "away": [node for node in range(n) if node not in present] if present else "all",
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


def _meet(entry: RoundRecord, n: int, handles: dict[tuple[int, str], int]) -> None:
    """Note which contact a handle of an agent is, where a write says so; -1 where two differ."""
    for update in entry.updates if len(handles) < MAX_HANDLES else ():
        for deposit, write in zip(update.decision.deposits, update.writes, strict=False):
            if deposit.channel == BROADCAST or len(write.receivers) != 1:
                continue
            key, (to,) = (update.node, deposit.channel), write.receivers
            handles[key] = to if 0 <= to < n and handles.get(key, to) == to else -1


def updates(path: Path, round: int, agent: int | None = None) -> list[dict[str, Any]]:
    """Return the decisions of a round, or the one of an agent, as a person reads them.

    Raises:
        RecordError: for a round that is not there, or as `document`.
    """
    record = _small(path)
    if record is not None:
        header, rounds = record.header, iter(record.rounds[max(0, round) : round + 1])
    else:
        stream = entries(path)
        first = next(stream, None)
        if not isinstance(first, Header):
            raise RecordError(f"{path.name} does not start with a record header")
        header = first
        rounds = (e for e in stream if isinstance(e, RoundRecord) and e.round == round)
    entry = next(rounds, None)
    if entry is None:
        raise RecordError(f"there is no round {round} in this record")
    return [_update(header, u) for u in entry.updates if agent in (None, u.node)]


def _update(header: Header, update: UpdateRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "agent": update.node, "mode": cut(update.mode), "stage": show.STAGES[update.stage],
        "raw": [cut(show.said(raw), MAX_RAW) for raw in update.raw],
        "codes": [(cut(code), CODES.get(code, "")) for code in update.codes],
        "decision": _pairs(show.decision(update.decision)),
        "did": _pairs(show.did(update)),
        "saw": None,
    }  # fmt: skip
    if update.view == UNSEEN:
        return found
    try:
        view = view_of(header, update)
        slots = _pairs(show.slots(view))
    except (ValueError, RecursionError, msgspec.MsgspecError, WaggleError):
        return found | {"saw": [("view", "cannot be read")]}
    last = len(slots) - 2  # behind the traces stand commitment and budget
    first = last - len(view.traces)
    found["saw"] = slots[:first] + slots[last:]
    found["traces"] = [
        (text, cut(trace.claim), cut(trace.channel))
        for (_, text), trace in zip(slots[first:last], view.traces, strict=True)
    ]
    found["tail"] = cut(prompt.tail(view), MAX_RAW)
    return found


def _pairs(pairs: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(cut(name), cut(text, MAX_RAW)) for name, text in pairs]
