"""Views: from what a substrate shows and the runtime holds to the anonymous local view (Eq. 1).

All names are made here. Presentation order comes from draws named by neighbour keys and claim
content, so a relabelled swarm shows every node the relabelled view in the same order.
"""

from __future__ import annotations

from math import ceil

import msgspec

from waggle.core.canon import check_view, encode_once
from waggle.core.errors import ContractError
from waggle.core.naming import claims_of
from waggle.core.order import Order, canonical_names
from waggle.core.protocols import Held, Sensed, Suggestion
from waggle.core.schema import (
    MAX_TRACES,
    ClaimRow,
    Commitment,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.core.seeds import mix
from waggle.runtime.commitment import gate
from waggle.runtime.defence import DOUBT
from waggle.runtime.names import handle
from waggle.runtime.state import Node, Shown, Swarm


def show(swarm: Swarm, node: int, round: int, order: Order) -> Shown:
    """Build the view of one active node from the present, pre-update state."""
    world, state = swarm.world, swarm.nodes[node]
    handles = _handles(swarm, node)
    local = swarm.local(node)
    sensed = world.sense(node, local)
    evidence = _evidence(swarm, sensed)
    refuted = frozenset(e.claim for e in evidence if e.conflict)
    draws = {j: mix(state.seed ^ round, world.keys[j]) for j in handles}
    held = _cut(local.traces, draws, swarm)
    if swarm.defence.reputation:
        sensed = _with_doubts(sensed, state, handles, held, refuted)
    view = View(
        world.contract,
        _private(swarm, sensed, evidence, refuted, held, handles, draws, state.seed ^ round),
        _proposal(swarm, sensed.proposal, handles),
        _traces(swarm, held, handles, draws),
        _commitment(swarm, state),
        budget_bin(world.rounds - 1 - round, world.rounds),
    )
    back = {name: j for j, name in handles.items()}
    return _ordered(swarm, view, back, local.traces, refuted, draw_of(state, round), order)


def draw_of(state: Node, round: int) -> int:
    """Return the node's own draw for an update, which names the update in the record."""
    return mix(state.seed, (1 << 32) + round)


def budget_bin(remaining: int, total: int) -> int:
    """Return ceil(4 x remaining / total); 0 says that this is the last update."""
    return ceil(4 * remaining / total)


def _ordered(
    swarm: Swarm,
    view: View,
    back: dict[str, int],
    held: tuple[Held, ...],
    refuted: frozenset[str],
    entropy: int,
    order: Order,
) -> Shown:
    claim = swarm.aliases.claim
    if order == "canonical":
        view, handles, names = canonical_names(view)
        back = {handles[h]: j for h, j in back.items()}
        claims = {name: claim(alias) for alias, name in names.items()}
    else:
        claims = {alias: claim(alias) for alias in claims_of(view)}
    data = encode_once(view)
    check_view(view, data)
    return Shown(view, data, back, claims, held, refuted, entropy)


def _handles(swarm: Swarm, node: int) -> dict[int, str]:
    """Return neighbour -> handle for the current contacts, drawing what is new."""
    world, state = swarm.world, swarm.nodes[node]
    current = world.neighbours(node)
    known = state.handles
    if len(known) == len(current) and all(map(known.__contains__, current)):
        return known
    if world.handle_life == "contact":
        kept = {j: known[j] for j in current if j in known}
        state.field.forget(frozenset(current))
    else:
        kept = dict(known)
    for j in current:
        if j not in kept:
            count = state.incarnations[j] = state.incarnations.get(j, -1) + 1
            kept[j] = handle(state.handle_seed, world.keys[j], count, kept.values())
    state.handles = kept
    return {j: kept[j] for j in current}


def _with_doubts(
    sensed: Sensed,
    state: Node,
    handles: dict[int, str],
    held: tuple[Held, ...],
    refuted: frozenset[str],
) -> Sensed:
    """Add to the facts of a channel how many of its statements were contradicted on arrival."""
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


def _evidence(swarm: Swarm, sensed: Sensed) -> tuple[Evidence, ...]:
    if swarm.switches.conflict:
        return sensed.evidence
    return tuple(e for e in sensed.evidence if not e.conflict)


def _cut(traces: tuple[Held, ...], draws: dict[int, int], swarm: Swarm) -> tuple[Held, ...]:
    """Keep at most twelve traces of current contacts: canonical order, then by private draw."""
    held = tuple(t for t in traces if t.neighbour in draws)
    if len(held) <= MAX_TRACES:
        return held
    draw = swarm.aliases.draw
    ranked = sorted(
        held,
        key=lambda t: (
            -t.novelty, -t.support, -t.conflict, -t.ttl, mix(draws[t.neighbour], draw(t.claim)),
        ),
    )  # fmt: skip
    return tuple(ranked[:MAX_TRACES])


def _traces(
    swarm: Swarm, held: tuple[Held, ...], handles: dict[int, str], draws: dict[int, int]
) -> tuple[Trace, ...]:
    alias, draw = swarm.aliases.alias, swarm.aliases.draw
    if len(held) > 1:
        held = tuple(sorted(held, key=lambda t: mix(draws[t.neighbour] ^ 1, draw(t.claim))))
    return tuple(
        Trace(
            handles[t.neighbour], alias(t.claim), t.novelty, t.support, t.conflict, t.ttl,
            t.direction,
        )
        for t in held
    )  # fmt: skip


def _private(
    swarm: Swarm,
    sensed: Sensed,
    evidence: tuple[Evidence, ...],
    refuted: frozenset[str],
    held: tuple[Held, ...],
    handles: dict[int, str],
    draws: dict[int, int],
    seed: int,
) -> Private:
    alias, draw = swarm.aliases.alias, swarm.aliases.draw

    def place(claim: str) -> int:
        return mix(seed, draw(claim))

    if len(evidence) > 1:
        evidence = tuple(sorted(evidence, key=lambda e: place(e.claim)))

    if swarm.world.readiness == "gate":
        ready = gate(held, refuted, swarm.switches)
    else:
        ready = sensed.ready
    nothing: dict[str, int | str] = {}
    return Private(
        sensed.observation,
        tuple(
            Evidence(alias(e.claim), e.novelty, e.support, e.conflict, e.direction)
            for e in evidence
        ),
        tuple(alias(c) for c in sorted(ready, key=place)),
        sensed.coverage,
        tuple(
            Port(handles[j], draws[j] >> 60, sensed.ports.get(j, nothing))
            for j in sorted(handles, key=lambda j: mix(draws[j], 2))
        ),
        tuple(ClaimRow(alias(c), sensed.claims[c]) for c in sorted(sensed.claims, key=place)),
    )


def _proposal(swarm: Swarm, proposal: Suggestion, handles: dict[int, str]) -> Proposal:
    action = proposal.action
    if proposal.target is not None:
        if proposal.target not in handles:
            raise ContractError(
                f"the proposal {action!r} targets no contact; propose only current neighbours"
            )
        action = f"{action}:{handles[proposal.target]}"
    claim = None if proposal.claim is None else swarm.aliases.alias(proposal.claim)
    return Proposal(action, proposal.response, claim)


def _commitment(swarm: Swarm, state: Node) -> Commitment | None:
    if state.claim is None:
        return None
    return Commitment(swarm.aliases.alias(state.claim), state.confidence)
