"""Canon order: `shuffled` as in the paper, and `canonical`, a true canonical form.

Rows are sorted by their numeric fields in schema order, largest first; handles and claims are then
named jointly by colour refinement and an exact search for the smallest naming. All views of one
orbit therefore have the same canonical text, and a law that reads only it is exactly equivariant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from waggle.core.errors import ContractError
from waggle.core.labelling import Labelling, label
from waggle.core.naming import Renaming, claims_of, handles_of
from waggle.core.schema import (
    MAX_TRACES,
    ClaimRow,
    Commitment,
    Decision,
    Evidence,
    Fact,
    Port,
    Private,
    Proposal,
    Trace,
    View,
    action_argument,
)
from waggle.core.seeds import mix

Order: TypeAlias = Literal["shuffled", "canonical"]
Row = TypeVar("Row")


def shuffle(view: View, entropy: int) -> View:
    """Permute traces, channels, claims, evidence and ready claims by 64 bits of entropy."""
    p = view.private
    private = Private(
        p.observation,
        _shuffled(p.evidence, mix(entropy, 0)),
        _shuffled(p.ready, mix(entropy, 1)),
        p.coverage,
        _shuffled(p.channels, mix(entropy, 2)),
        _shuffled(p.claims, mix(entropy, 3)),
    )
    traces = _shuffled(view.traces, mix(entropy, 4))
    return View(view.contract, private, view.proposal, traces, view.commitment, view.budget)


def permutation(size: int, seed: int) -> list[int]:
    """Return a permutation of range(size) derived from a seed."""
    return sorted(range(size), key=lambda i: mix(seed, i))


def _shuffled(rows: tuple[Row, ...], seed: int) -> tuple[Row, ...]:
    return tuple(rows[i] for i in permutation(len(rows), seed)) if len(rows) > 1 else rows


def canonical(view: View) -> tuple[View, Renaming]:
    """Return the canonical view of a view's orbit and the renaming that produces it.

    Raises:
        ContractError: if the view has more than MAX_TRACES traces; the limit bounds the search.
    """
    shown, handles, claims = canonical_names(view)
    return shown, Renaming.of(handles, claims)


def canonical_names(view: View) -> tuple[View, dict[str, str], dict[str, str]]:
    """Return the canonical view of a view's orbit and the new handles and claims by the old.

    Raises:
        ContractError: if the view has more than MAX_TRACES traces; the limit bounds the search.
    """
    if len(view.traces) > MAX_TRACES:
        raise ContractError(f"view has {len(view.traces)} traces; cut them to {MAX_TRACES}")
    marks = relabel(view)
    handles, claims = marks.names()
    return _arranged(view, marks, handles, claims), handles, claims


class Marks(NamedTuple):
    """Canonical ranks of the references of a view."""

    handles: Mapping[str, int]
    claims: Mapping[str, int]
    symmetric: bool
    """Whether the view has a symmetry, so that its ranks are not unique."""

    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the canonical names of handles and claims: h1, h2, ... and z1, z2, ... by rank."""
        handles = {h: _name("h", rank) for h, rank in self.handles.items()}
        return handles, {z: _name("z", rank) for z, rank in self.claims.items()}


@lru_cache(maxsize=1024)
def _name(letter: str, rank: int) -> str:
    return f"{letter}{rank + 1}"


def relabel(view: View, decision: Decision | None = None) -> Marks:
    """Rank the references of a view, or of a (view, decision) pair taken together."""
    handles, claims = list(handles_of(view)), list(claims_of(view))
    if decision is None:
        marks = _ranked(view, handles, claims)
        if marks is not None:
            return marks
    return _searched(view, decision, handles, claims)


def _ranked(view: View, handles: Sequence[str], claims: Sequence[str]) -> Marks | None:
    """Rank the references of a view without a search, or return None if it needs one.

    Almost no view needs one. Handles are distinguished by their ports and the labels of their
    traces; handles equal in both are interchangeable, unless they have traces and the view has
    several claims. Claims are distinguished by their content, their labels and the handles of these
    labels, in the order in which `label` would refine them; equal claims are interchangeable.
    """
    ports = view.private.channels
    tied = False
    by_lot = {-port.lot: port.channel for port in ports}
    if len(by_lot) == len(ports) == len(handles):  # the lot is the first sort key of a port
        order = [by_lot[lot] for lot in sorted(by_lot)]
    else:
        labels = _sorted_by_name([(t.channel, _label(t)) for t in view.traces])
        content = _handle_keys(view, handles)
        keys = {h: (content[h], labels.get(h, ())) for h in handles}
        order = sorted(handles, key=keys.__getitem__)
        twins = [one for one, other in pairwise(order) if keys[one] == keys[other]]
        if len(claims) > 1 and any(map(labels.get, twins)):
            return None
        tied = bool(twins)
    ranks = {handle: rank for rank, handle in enumerate(order)}
    if len(claims) < 2:
        return Marks(ranks, dict.fromkeys(claims, 0), tied)
    content = _claim_keys(view, claims)
    if len(set(content.values())) < len(content):
        edges = _sorted_by_name([(t.claim, (_label(t), ranks[t.channel])) for t in view.traces])
        for claim in claims:
            on = edges.get(claim, ())
            content[claim] = (content[claim], tuple([label for label, _ in on]), on)
        tied = tied or len(set(content.values())) < len(content)
    order = sorted(claims, key=content.__getitem__)
    return Marks(ranks, {claim: rank for rank, claim in enumerate(order)}, tied)


def _label(trace: Trace) -> tuple[Any, ...]:
    """Return the sort key of a trace without its references."""
    return (-trace.novelty, -trace.support, -trace.conflict, -trace.ttl, trace.direction or "")


def _sorted_by_name(labels: Sequence[tuple[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Group the labels by name and sort each group."""
    found: dict[str, list[Any]] = {}
    for name, each in labels:
        found.setdefault(name, []).append(each)
    return {name: tuple(sorted(every)) for name, every in found.items()}


def _searched(
    view: View, decision: Decision | None, handles: Sequence[str], claims: Sequence[str]
) -> Marks:
    """Rank the references of any view or pair, by refinement and search."""
    handle_keys, claim_keys = _handle_keys(view, handles), _claim_keys(view, claims)
    edges = [(t.channel, t.claim, _label(t)) for t in view.traces]
    extra: list[tuple[str, str, Any]] = []
    if decision is not None:
        extra = _pair_marks(decision, handle_keys, claim_keys)
    on_handle = _sorted_by_name([(channel, name) for channel, _, name in edges])
    on_claim = _sorted_by_name([(claim, name) for _, claim, name in edges])
    keys: list[Any] = [(0, handle_keys[h], on_handle.get(h, ())) for h in handles]
    keys += [(1, claim_keys[z], on_claim.get(z, ())) for z in claims]
    place = {("h", h): i for i, h in enumerate(handles)}
    place |= {("z", z): i + len(handles) for i, z in enumerate(claims)}
    found = label(keys, [(place["h", h], place["z", z], e) for h, z, e in (*edges, *extra)])
    return _marks(found, handles, claims)


def _marks(found: Labelling, handles: Sequence[str], claims: Sequence[str]) -> Marks:
    split = len(handles)
    return Marks(
        dict(zip(handles, found.rank[:split], strict=True)),
        {z: rank - split for z, rank in zip(claims, found.rank[split:], strict=True)},
        found.symmetric,
    )


def _facts_key(facts: Mapping[str, Fact]) -> tuple[tuple[str, int, Any], ...]:
    """Return the sort key of facts: by name, then larger numbers first, then text."""
    return _sorted_facts(tuple(facts.items())) if facts else ()


@lru_cache(maxsize=8192)
def _sorted_facts(facts: tuple[tuple[str, Fact], ...]) -> tuple[tuple[str, int, Any], ...]:
    return tuple(sorted([(k, 1, v) if isinstance(v, str) else (k, 0, -v) for k, v in facts]))


def _port_key(port: Port) -> tuple[Any, ...]:
    return (-port.lot, _facts_key(port.facts))


def _handle_keys(view: View, handles: Sequence[str]) -> dict[str, Any]:
    _, target = action_argument(view.proposal.action)
    keys: dict[str, Any] = dict.fromkeys(handles, ((1,), 1))
    for port in view.private.channels:
        keys[port.channel] = (_port_key(port), int(port.channel != target))
    return keys


def _evidence_key(row: Evidence) -> tuple[int, int, int, str]:
    return (-row.novelty, -row.support, -row.conflict, row.direction or "")


def _claim_keys(view: View, claims: Sequence[str]) -> dict[str, Any]:
    p = view.private
    facts = {row.claim: _facts_key(row.facts) for row in p.claims}
    evidence: dict[str, tuple[tuple[int, int, int, str], ...]] = {}
    for row in sorted(p.evidence, key=_evidence_key):
        evidence[row.claim] = (*evidence.get(row.claim, ()), _evidence_key(row))
    held = None if view.commitment is None else view.commitment.claim
    proposed = view.proposal.claim
    _, target = action_argument(view.proposal.action)
    return {
        z: (
            z != held,
            z != proposed,
            z != target,
            z not in p.ready,
            evidence.get(z, ()),
            z not in facts,
            facts.get(z, ()),
        )
        for z in claims
    }


def _arranged(
    view: View, marks: Marks, handles: Mapping[str, str], claims: Mapping[str, str]
) -> View:
    """Return the renamed view, its tables sorted by numeric fields, then canonical rank."""
    p, w, held = view.private, view.proposal, view.commitment
    port_rank, claim_rank = marks.handles, marks.claims
    evidence: Sequence[Evidence] = p.evidence
    if len(evidence) > 1:
        evidence = sorted(evidence, key=lambda e: (_evidence_key(e), claim_rank[e.claim]))
    rows: Sequence[ClaimRow] = p.claims
    if len(rows) > 1:
        rows = sorted(rows, key=lambda r: (_facts_key(r.facts), claim_rank[r.claim]))
    traces: Sequence[Trace] = view.traces
    if len(traces) > 1:
        traces = sorted(
            traces, key=lambda t: (_label(t), port_rank[t.channel], claim_rank[t.claim])
        )
    ready = sorted(p.ready, key=claim_rank.__getitem__) if len(p.ready) > 1 else p.ready
    ports = sorted(p.channels, key=lambda port: port_rank[port.channel])
    action = w.action if ":" not in w.action else Renaming(handles, claims).action(w.action)
    return View(
        view.contract,
        Private(
            p.observation,
            tuple([
                Evidence(claims[e.claim], e.novelty, e.support, e.conflict, e.direction)
                for e in evidence
            ]),
            tuple([claims[z] for z in ready]),
            p.coverage,
            tuple([Port(handles[port.channel], port.lot, port.facts) for port in ports]),
            tuple([ClaimRow(claims[row.claim], row.facts) for row in rows]),
        ),
        Proposal(action, w.response, None if w.claim is None else claims[w.claim]),
        tuple([
            Trace(
                handles[t.channel], claims[t.claim], t.novelty, t.support, t.conflict, t.ttl,
                t.direction,
            )
            for t in traces
        ]),
        None if held is None else Commitment(claims[held.claim], held.confidence_bin),
        view.budget,
    )  # fmt: skip


def _pair_marks(
    decision: Decision, handles: dict[str, Any], claims: dict[str, Any]
) -> list[tuple[str, str, Any]]:
    """Add a decision to the keys of its references; return deposits between known ones as edges.

    Marks start with a text and trace labels with a number, so marks are kept in a second tuple.
    """
    edges: list[tuple[str, str, Any]] = []
    marks: dict[tuple[int, str], list[Any]] = {}
    _, target = action_argument(decision.task_action)
    if target is not None and (target in handles or target in claims):
        marks.setdefault((int(target in claims), target), []).append(("action",))
    if decision.commit is not None and decision.commit.claim in claims:
        marks.setdefault((1, decision.commit.claim), []).append(("commit",))
    for d in decision.deposits:
        name = (*_label(d), "deposit")
        if d.channel in handles and d.claim in claims:
            edges.append((d.channel, d.claim, name))
        elif d.channel in handles:
            marks.setdefault((0, d.channel), []).append(("deposit", d.claim, str(name)))
        elif d.claim in claims:
            marks.setdefault((1, d.claim), []).append(("deposit", d.channel, str(name)))
    for key in handles:
        handles[key] = (handles[key], tuple(sorted(marks.get((0, key), ()))))
    for key in claims:
        claims[key] = (claims[key], tuple(sorted(marks.get((1, key), ()))))
    return edges
