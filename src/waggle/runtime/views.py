"""Builds the anonymous local view (Eq. 1) from a substrate's output and the runtime's state.

All names are assigned here. Presentation order comes from draws derived from neighbour keys and
claim content, so in a relabelled swarm every node sees the relabelled view in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil

import msgspec

from waggle.core.bounds import check_contract
from waggle.core.canon import encode_shown
from waggle.core.errors import ContractError
from waggle.core.order import Order, canonical_names
from waggle.core.protocols import HeldTrace, Sensed, Suggestion
from waggle.core.schema import (
    MAX_TRACES,
    ClaimRow,
    Commitment,
    Evidence,
    Fact,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.core.seeds import mix
from waggle.runtime.commitment import gate
from waggle.runtime.defence import DOUBT
from waggle.runtime.draws import UPDATES, Contacts, UpdateDraws
from waggle.runtime.names import handle
from waggle.runtime.state import Node, ShownView, Swarm

_NOTHING: Mapping[str, Fact] = {}


def show(swarm: Swarm, node: int, round: int, order: Order) -> ShownView:
    """Build the view of one active node from the current, pre-update state."""
    return show_all(swarm, [node], round, order)[0]


def show_all(swarm: Swarm, nodes: Sequence[int], round: int, order: Order) -> list[ShownView]:
    """Build the views of several active nodes from the current, pre-update state."""
    check_contract(swarm.world.contract)
    contacts = [_contacts(swarm, node) for node in nodes]
    drawn = swarm.draws.make(contacts, round)
    return [
        _show(swarm, node, round, order, theirs, draws)
        for node, theirs, draws in zip(nodes, contacts, drawn, strict=True)
    ]


def _show(
    swarm: Swarm, node: int, round: int, order: Order, contacts: Contacts, drawn: UpdateDraws
) -> ShownView:
    world, state, alias = swarm.world, swarm.nodes[node], swarm.aliases.names
    local = swarm.local(node)
    sensed = world.sense(node, local)
    evidence: Sequence[Evidence] = sensed.evidence
    if not swarm.switches.conflict:
        evidence = [e for e in evidence if not e.conflict]
    refuted = frozenset([e.claim for e in evidence if e.conflict])
    held = _held(swarm, local.traces, contacts, drawn)
    if swarm.defence.reputation:
        sensed = _with_doubts(sensed, state, contacts.handles, held, refuted)
    ready: Sequence[str] = sensed.ready
    if world.readiness == "gate":
        ready = gate(held, refuted, swarm.switches)
    listed: Sequence[str] = list(sensed.claims)
    if len(evidence) > 1 or len(ready) > 1 or len(listed) > 1:
        place = _places(swarm, state.seed ^ round)
        evidence = sorted(evidence, key=lambda e: place(e.claim))
        ready, listed = sorted(ready, key=place), sorted(listed, key=place)
    facts = sensed.ports.get
    view = View(
        world.contract,
        Private(
            sensed.observation,
            tuple([
                Evidence(alias[e.claim], e.novelty, e.support, e.conflict, e.direction)
                for e in evidence
            ]),
            tuple([alias[claim] for claim in ready]),
            sensed.coverage,
            tuple([Port(handle, lot, facts(j, _NOTHING)) for j, handle, lot in drawn.ports]),
            tuple([ClaimRow(alias[claim], sensed.claims[claim]) for claim in listed]),
        ),
        _proposal(swarm, sensed.proposal, contacts.handles),
        _traces(swarm, held, contacts, drawn),
        None if state.claim is None else Commitment(alias[state.claim], state.confidence),
        budget_bin(world.rounds - 1 - round, world.rounds),
    )  # fmt: skip
    return _ordered(swarm, view, contacts.back, local.traces, refuted, drawn.entropy, order)


def draw_of(state: Node, round: int) -> int:
    """Return the node's random draw for an update, which identifies it in the record."""
    return mix(state.seed, UPDATES + round)


def budget_bin(remaining: int, total: int) -> int:
    """Return ceil(4 x remaining / total); 0 means that this is the last update."""
    return ceil(4 * remaining / total)


def _ordered(
    swarm: Swarm,
    view: View,
    back: dict[str, int],
    held: tuple[HeldTrace, ...],
    refuted: frozenset[str],
    entropy: int,
    order: Order,
) -> ShownView:
    claims = swarm.aliases.claims
    if order == "canonical":
        view, handles, names = canonical_names(view)
        back = {handles[h]: j for h, j in back.items()}
        claims = {name: claims[alias] for alias, name in names.items()}
    return ShownView(view, encode_shown(view), back, claims, held, refuted, entropy)


def _contacts(swarm: Swarm, node: int) -> Contacts:
    """Return the channels of a node.

    They are reused while neighbours and handles are those of the last view; handles that were
    drawn for that view may take another order from the next view on.
    """
    world, state = swarm.world, swarm.nodes[node]
    current = tuple(world.neighbours(node))
    last = state.contacts
    if last.neighbours != current or last.handles is not state.handles:
        handles = _handles(swarm, state, current)
        back = {handle: j for j, handle in handles.items()}
        state.contacts = Contacts(state.seed, current, handles, back)
    return state.contacts


def _handles(swarm: Swarm, state: Node, current: tuple[int, ...]) -> dict[int, str]:
    """Return neighbour -> handle for the current contacts; draw handles for new ones."""
    world, known = swarm.world, state.handles
    if len(known) == len(current) and all(map(known.__contains__, current)):
        return known
    if world.handle_life == "contact":
        kept = {j: known[j] for j in current if j in known}
        state.field.forget(frozenset(current))
    else:
        kept = dict(known)
    for j in current:
        if j not in kept:
            count = 0
            if world.handle_life == "contact":  # otherwise no neighbour is met twice
                count = state.incarnations[j] = state.incarnations.get(j, -1) + 1
            kept[j] = handle(state.handle_seed, world.keys[j], count, kept.values())
    state.handles = kept
    return kept if tuple(kept) == current else {j: kept[j] for j in current}


def _with_doubts(
    sensed: Sensed,
    state: Node,
    handles: dict[int, str],
    held: Sequence[HeldTrace],
    refuted: frozenset[str],
) -> Sensed:
    """Add to the facts of a channel the number of its statements contradicted on arrival."""
    doubts = state.doubts
    doubts.keep(state.handles.values())
    for trace in held:
        if trace.claim in refuted and not trace.conflict and state.field.is_new(trace):
            doubts.note(handles[trace.neighbour], trace.claim)
    ports = dict(sensed.ports)
    for neighbour, name in handles.items():
        doubt = doubts.doubt(name)
        if doubt:
            ports[neighbour] = {**ports.get(neighbour, {}), DOUBT: doubt}
    return msgspec.structs.replace(sensed, ports=ports)


def _places(swarm: Swarm, seed: int) -> Callable[[str], int]:
    """Return the sort key by which a node presents its claims in one round."""
    draws = swarm.aliases.draws
    return lambda claim: mix(seed, draws[claim])


def _held(
    swarm: Swarm, traces: tuple[HeldTrace, ...], contacts: Contacts, drawn: UpdateDraws
) -> Sequence[HeldTrace]:
    """Keep at most twelve traces of current contacts, in canonical order, then by private draw."""
    held = [t for t in traces if t.neighbour in contacts.handles]
    if len(held) <= MAX_TRACES:
        return held
    claims, draws = swarm.aliases.draws, dict(zip(contacts.handles, drawn.draws, strict=True))
    held.sort(
        key=lambda t: (
            -t.novelty, -t.support, -t.conflict, -t.ttl, mix(draws[t.neighbour], claims[t.claim]),
        ),
    )  # fmt: skip
    return held[:MAX_TRACES]


def _traces(
    swarm: Swarm, held: Sequence[HeldTrace], contacts: Contacts, drawn: UpdateDraws
) -> tuple[Trace, ...]:
    alias, handles = swarm.aliases.names, contacts.handles
    if len(held) > 1:
        claims, draws = swarm.aliases.draws, dict(zip(handles, drawn.draws, strict=True))
        held = sorted(held, key=lambda t: mix(draws[t.neighbour] ^ 1, claims[t.claim]))
    return tuple([
        Trace(
            handles[t.neighbour], alias[t.claim], t.novelty, t.support, t.conflict, t.ttl,
            t.direction,
        )
        for t in held
    ])  # fmt: skip


def _proposal(swarm: Swarm, proposal: Suggestion, handles: dict[int, str]) -> Proposal:
    action = proposal.action
    if proposal.target is not None:
        if proposal.target not in handles:
            raise ContractError(
                f"the proposal {action!r} targets no contact; propose only current neighbours"
            )
        action = f"{action}:{handles[proposal.target]}"
    claim = None if proposal.claim is None else swarm.aliases.names[proposal.claim]
    return Proposal(action, proposal.response, claim)
