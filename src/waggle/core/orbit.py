"""The orbit of a view: incident permutations and bijections of opaque references (Section 4.2).

An element g acts on views and on decisions, g⁻¹ after g is the identity, and only names and row
order change. `consistent` is the paper's check before a transformed pair may be used; the
stabiliser determines when two different decisions on one view are equivalent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_decision
from waggle.core.decode import parse
from waggle.core.errors import ContractError
from waggle.core.modes import mode
from waggle.core.naming import Renaming, claims_of, handles_of
from waggle.core.order import permutation, relabel
from waggle.core.relations import is_fresh, is_incident, is_listed, is_relay, is_verified
from waggle.core.schema import Decision, Private, View, action_argument
from waggle.core.seeds import mix
from waggle.core.summary import rho

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_HANDLES = tuple(f"h{a}{b}" for a in _DIGITS for b in _DIGITS)
_CLAIMS = tuple(f"z{a}{b}{c}" for a in _DIGITS for b in _DIGITS for c in _DIGITS)
_Row = TypeVar("_Row")


class Orbit(msgspec.Struct, frozen=True):
    """One element g of the group: a renaming, and a permutation of every table of the view.

    Row i of a transformed table is row `permutation[i]` of the source.
    """

    renaming: Renaming
    evidence: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    claims: tuple[int, ...] = ()
    traces: tuple[int, ...] = ()

    def view(self, view: View) -> View:
        """Transform a view."""
        named = self.renaming.view(view)
        p = named.private
        private = Private(
            p.observation,
            _permuted(p.evidence, self.evidence),
            _permuted(p.ready, self.ready),
            p.coverage,
            _permuted(p.channels, self.channels),
            _permuted(p.claims, self.claims),
        )
        traces = _permuted(named.traces, self.traces)
        return View(named.contract, private, named.proposal, traces, named.commitment, named.budget)

    def decision(self, decision: Decision) -> Decision:
        """Transform a decision that was made on the view."""
        return self.renaming.decision(decision)

    def inverse(self) -> Orbit:
        """Return the element that undoes this one."""
        return Orbit(
            self.renaming.inverse(),
            _inverted(self.evidence),
            _inverted(self.ready),
            _inverted(self.channels),
            _inverted(self.claims),
            _inverted(self.traces),
        )


def _permuted(rows: tuple[_Row, ...], places: Sequence[int]) -> tuple[_Row, ...]:
    if len(rows) != len(places):
        raise ValueError("this orbit element was made for a view with other tables")
    return tuple(rows[i] for i in places)


def _inverted(places: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(places)), key=places.__getitem__))


def _fresh_names(old: Iterable[str], pool: Sequence[str], seed: int) -> dict[str, str]:
    """Draw a distinct name from the pool for each old name."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    draw = seed
    for name in old:
        draw = mix(draw, 0)
        while pool[draw % len(pool)] in taken:
            draw = mix(draw, 0)
        names[name] = pool[draw % len(pool)]
        taken.add(names[name])
    return names


def _changed(old: Iterable[str], pool: Sequence[str], seed: int) -> dict[str, str]:
    names = _fresh_names(old, pool, seed)
    while names and all(new == name for name, new in names.items()):
        seed = mix(seed, 1)
        names = _fresh_names(old, pool, seed)
    return names


def sample(view: View, entropy: int) -> Orbit:
    """Draw a group element for a view: fresh names from the pools and a permutation of every table.

    Never the identity if the view has a reference to rename.
    """
    p = view.private
    tables: tuple[Sequence[object], ...] = (p.evidence, p.ready, p.channels, p.claims, view.traces)
    places = [tuple(permutation(len(t), mix(entropy, i))) for i, t in enumerate(tables)]
    renaming = Renaming.of(
        _changed(handles_of(view), _HANDLES, mix(entropy, 5)),
        _changed(claims_of(view), _CLAIMS, mix(entropy, 6)),
    )
    return Orbit(renaming, *places)


def _relations(view: View, decision: Decision) -> tuple[object, ...]:
    """Return every local relation between a decision and its view, free of names."""
    _, target = action_argument(decision.task_action)
    commit, held = decision.commit, view.commitment
    return (
        decision.task_action == view.proposal.action,
        target is not None and (is_incident(view, target) or is_listed(view, target)),
        tuple(
            (
                is_fresh(view, d),
                is_relay(view, d),
                is_verified(view, d.claim),
                is_incident(view, d.channel),
                d.claim == view.proposal.claim,
                held is not None and d.claim == held.claim,
                sum(t.channel == d.channel and t.claim == d.claim for t in view.traces),
            )
            for d in decision.deposits
        ),
        commit is not None and commit.claim in view.private.ready,
        commit is not None and held is not None and commit.claim == held.claim,
    )


def consistent(view: View, decision: Decision, orbit: Orbit) -> bool:
    """Return whether the transformed pair is as valid as its source: schema, relations, summary."""
    seen, done = orbit.view(view), orbit.decision(decision)
    try:
        check_view(seen)
    except ContractError:
        return False
    return (
        parse(encode_decision(done)).decision == done
        and violations(seen, done) == violations(view, decision)
        and _relations(seen, done) == _relations(view, decision)
        and mode(seen, done) == mode(view, decision)
        and rho(seen, done) == rho(view, decision)
    )


def stabiliser_trivial(view: View) -> bool:
    """Return whether no renaming but the identity maps the view, as a set of rows, to itself."""
    return not relabel(view).symmetric


def equal_modulo_stabiliser(view: View, one: Decision, other: Decision) -> bool:
    """Return whether a symmetry of the view turns one decision into the other.

    The order of deposits within a decision has no meaning and is not compared.
    """
    return one == other or _paired(view, one) == _paired(view, other)


def _paired(view: View, decision: Decision) -> tuple[object, ...]:
    """Return the pair (view, decision) under its joint canonical naming."""
    naming = Renaming.of(*relabel(view, decision).names())
    seen, done = naming.view(view), naming.decision(decision)
    p = seen.private
    return (
        sorted(map(repr, (*p.evidence, *p.ready, *p.channels, *p.claims, *seen.traces))),
        seen.proposal,
        seen.commitment,
        (done.task_action, done.response, done.commit, done.execution_intent),
        sorted(map(repr, done.deposits)),
    )
