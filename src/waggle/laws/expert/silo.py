"""Expert rules for Silo: commit, challenge and answer over the pairwise exchange of `exchange`.

If frames are too small for the data, an answer supported by full coverage is sent ahead of it. A
nearly complete proposal is held before it is complete; data that arrives later refutes it, and the
challenge that reopens it carries the new data on.
Invariant: a deterministic function of the view, with ties broken by lot.
"""

from __future__ import annotations

from waggle.core.relations import challenged, refuted, relay_ttl
from waggle.core.schema import MAX_BIN, WAIT, Commitment, Decision, Trace, View
from waggle.laws import exchange, moves

_PROVISIONAL = 3
"""The coverage from which a partial proposal is held until more data refutes it.

This applies only if a frame carries all data: otherwise an answer may arrive ahead of the data that
verifies it, and a node that holds a partial answer could not adopt it.
"""


def decide(view: View) -> Decision:
    """Reopen refuted commitments, commit, send news to ports that lack it, answer in time."""
    if view.proposal.action == WAIT:
        return Decision(WAIT, None, (), None)
    vouched = None if view.private.ready else _vouched(view)
    deposits = _challenges(view) or _news(view, vouched)
    return _answering(view, deposits, _commitment(view, deposits, vouched))


def _challenges(view: View) -> tuple[Trace, ...]:
    """Challenge a refuted commitment, else a refuted candidate; the data travels with it."""
    against = moves.held_contradiction(view) or moves.candidate_contradiction(view)
    if against is None:
        return ()
    ports = exchange.listeners(view, least=1) or exchange.listeners(view, least=0)
    return tuple(moves.fresh(against, port.channel) for port in ports)


def _news(view: View, vouched: Trace | None) -> tuple[Trace, ...]:
    """Relay an answer with full support, else write own evidence, else relay the best trace."""
    ports = exchange.listeners(view, least=1)
    own = [e for e in view.private.evidence if e.claim == view.proposal.claim and not e.conflict]
    best = own[0] if own else moves.best_evidence(view, lambda e: e.novelty > 0)
    if best is not None and (vouched is None or not relay_ttl(vouched)):
        return tuple(moves.fresh(best, port.channel) for port in ports)
    trace = vouched or moves.best_trace(view, moves.relayable(view))
    if trace is None or not relay_ttl(trace):
        return ()
    return tuple(moves.relay(trace, port.channel) for port in ports)


def _vouched(view: View) -> Trace | None:
    """Return the trace of a common answer supported by its author's full coverage, if any."""
    if view.private.observation.get("answer") != "common":
        return None
    wrong = refuted(view)
    full = [t for t in view.traces if t.support == MAX_BIN and not t.conflict]
    return moves.best_trace(view, [t for t in full if t.claim not in wrong])


def _commitment(
    view: View, deposits: tuple[Trace, ...], vouched: Trace | None
) -> Commitment | None:
    """Commit if nothing is held or a challenge clears it; make a ready claim fully confident."""
    held, best = view.commitment, _best(view, vouched)
    if held is None or best is None or held.claim in challenged(deposits):
        return best
    firmer = best.claim == held.claim and best.confidence_bin > held.confidence_bin
    return best if firmer and best.confidence_bin == MAX_BIN else None


def _best(view: View, vouched: Trace | None) -> Commitment | None:
    """Return the ready proposal, else an answer with full support, else a nearly complete one."""
    claim, coverage = view.proposal.claim, view.private.coverage
    if claim is not None and claim in view.private.ready:
        return Commitment(claim, MAX_BIN)
    if coverage is None:
        return None
    if vouched is not None:
        return Commitment(vouched.claim, coverage)
    undecided = view.contract.deposits > 1 or coverage < _PROVISIONAL
    return None if claim is None or undecided else Commitment(claim, coverage)


def _answering(view: View, deposits: tuple[Trace, ...], commit: Commitment | None) -> Decision:
    """Answer when it is due, else gather.

    The held claim has priority over the own proposal, which is the weaker of the two while partial.
    """
    if not exchange.is_due(view) or view.proposal.response is None:
        return Decision("GATHER", None, deposits, commit)
    held = commit or view.commitment
    borrowed = held is not None and held.claim != view.proposal.claim
    return Decision(
        "ANSWER", view.proposal.response, deposits, commit, "FIELD" if borrowed else None
    )
