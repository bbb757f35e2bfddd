"""Propositions 1 and 2, checked on records.

`relabelling` plays a case twice, the second time with permuted bodies and fresh opaque names, and
compares. Records are compared as trajectories: in terms of *bodies* (keys[i] is that of node i),
with every opaque name replaced by its place in the view. Two records of one swarm under different
node numbers, handles and claim aliases must give the same trajectory bit for bit.
Invariant: only records are read, so the checks trust neither engine nor law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import msgspec

from waggle.core import canon
from waggle.core.naming import Renaming, claims_of
from waggle.core.order import Order
from waggle.core.protocols import Case, Law, Substrate
from waggle.core.record import (
    EpisodeRecord,
    Footer,
    Header,
    RoundRecord,
    UpdateRecord,
    comparable,
)
from waggle.core.schema import Decision, View
from waggle.runtime.defence import Defence
from waggle.runtime.replay import view_of
from waggle.testing.episodes import ENGINES, REGIMES, EngineName, Regime, permutation, play

Frame: TypeAlias = dict[str, Any]


def relabelling(
    substrate: Substrate,
    law: Law,
    case: Case,
    *,
    order: Order = "shuffled",
    engines: Sequence[EngineName] = ENGINES,
    regimes: Sequence[Regime] = REGIMES,
    defence: Defence | None = None,
) -> str | None:
    """Return the first place where relabelling the swarm changes more than labels, or None.

    Every pair of engine and regime has its own permutation and names: a law may by chance read the
    same from two draws of a name, so a single draw would let some such laws pass.
    """
    for salt, (engine, regime) in enumerate(product(engines, regimes), start=1):
        episode = partial(
            play, substrate, law, case, engine=engine, order=order, defence=defence,
            perturbation=regime.perturbation,
        )  # fmt: skip
        bodies = permutation(case.n, case.seed + salt)
        found = first_difference(episode(), episode(keys=bodies, salt=salt))
        if found is not None:
            return f"{engine} engine, {regime.name}: {found}"
    return None


def writes_of(update: UpdateRecord, bodies: Sequence[int]) -> frozenset[tuple[Any, ...]]:
    """Return the writes of an update, with their receivers replaced by bodies."""
    return frozenset(
        (
            w.claim, frozenset(bodies[node] for node in w.receivers),
            w.fresh, w.challenge, w.cause, w.refresh,
        )
        for w in update.writes
    )  # fmt: skip


def first_difference(record: EpisodeRecord, relabelled: EpisodeRecord) -> str | None:
    """Return where the second record stops being the relabelling of the first, or None."""
    pairs = zip(record.rounds, relabelled.rounds, strict=False)
    for number, (here, there) in enumerate(pairs):
        found = _differ(_frame(record.header, here), _frame(relabelled.header, there))
        if found:
            return f"round {number}, {found}"
    if len(record.rounds) != len(relabelled.rounds):
        return f"the episodes last {len(record.rounds)} and {len(relabelled.rounds)} rounds"
    found = _differ(_outcome(record.footer), _outcome(relabelled.footer))
    return f"footer, {found}" if found else None


def nameless(view: View, decision: Decision) -> tuple[bytes, Decision]:
    """Return a view's text and a decision on it with every name replaced by its place."""
    handles = {port.channel: f"h{k}" for k, port in enumerate(view.private.channels)}
    claims = {claim: f"z{k}" for k, claim in enumerate(claims_of(view))}
    naming = Renaming(handles, claims)
    return canon.encode_view(naming.view(view)), naming.decision(decision)


def _outcome(footer: Footer) -> Frame:
    """Return what an episode came to, however its decisions were batched."""
    counters = comparable(footer.counters)
    return {
        "rounds": footer.rounds,
        **{f"score {name}": value for name, value in footer.scores.items()},
        **{f"counter {name}": value for name, value in counters.items()},
    }


def _frame(header: Header, entry: RoundRecord) -> Frame:
    """Return one round in terms of bodies."""
    bodies, shock = header.keys, entry.shock
    return {
        "score": dict(entry.score),
        "messages": (entry.attempted, entry.delivered, entry.expired),
        "field": dict(entry.field),
        "suspended": frozenset(bodies[node] for node in entry.suspended),
        "shock": None
        if shock is None
        else (shock.old_claims, shock.new_claims, frozenset(bodies[i] for i in shock.nodes)),
        **{f"body {bodies[u.node]}": _update(header, u) for u in entry.updates},
    }


def _update(header: Header, update: UpdateRecord) -> Frame:
    """Return one local update in terms of bodies."""
    text, decision = nameless(view_of(header, update), update.decision)
    return {
        "view": text,
        "decision": msgspec.structs.replace(decision, deposits=()),
        "deposits": frozenset(decision.deposits),
        "admission": (update.stage, update.mode, update.codes, update.bottom),
        "writes": writes_of(update, header.keys),
        "native": update.native,
        "commitment": (update.claim, update.confidence, update.reopened),
    }


def _differ(here: Mapping[str, Any], there: Mapping[str, Any]) -> str | None:
    """Name the first entry in which two frames differ, going into nested frames."""
    for key in (*here, *(key for key in there if key not in here)):
        a, b = here.get(key), there.get(key)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict) and key.startswith("body"):
            return f"{key}, {_differ(a, b)}"
        if isinstance(a, bytes) and isinstance(b, bytes):
            return f"{key}: {_around(a, b)} against {_around(b, a)}"
        return f"{key}: {_clip(a)} against {_clip(b)}"
    return None


def _around(text: bytes, other: bytes) -> str:
    """Quote a text around the first byte in which it differs from another."""
    shorter = min(len(text), len(other))
    place = next((k for k in range(shorter) if text[k] != other[k]), shorter)
    return _clip(text[max(0, place - 30) : place + 30].decode(errors="replace"))


def _clip(value: object, limit: int = 160) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
