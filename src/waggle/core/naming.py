"""Renaming of opaque references in all fields of the schema that hold them (Section 4.2).

References occur in the channel and claim tables, evidence, ready claims, proposal, traces,
commitment, deposits and the argument of a task action; all other content is left alone. A renaming
is a permutation of names, so no other name can collide with a renamed reference of the view.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from waggle.core.schema import (
    ClaimRow,
    Commitment,
    Decision,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
    action_argument,
)


def handles_of(view: View) -> dict[str, None]:
    """Return the handles of a view in order of appearance."""
    handles = [port.channel for port in view.private.channels]
    handles += [trace.channel for trace in view.traces]
    return dict.fromkeys(handles)


def claims_of(view: View) -> dict[str, None]:
    """Return every claim a view refers to, in order of appearance."""
    private = view.private
    claims = [row.claim for row in private.evidence]
    claims += private.ready
    claims += [row.claim for row in private.claims]
    if view.proposal.claim is not None:
        claims.append(view.proposal.claim)
    claims += [trace.claim for trace in view.traces]
    if view.commitment is not None:
        claims.append(view.commitment.claim)
    return dict.fromkeys(claims)


def _completed(names: Mapping[str, str]) -> dict[str, str]:
    """Extend an injection of names to a permutation of all names in it."""
    back = {new: old for old, new in names.items()}
    if len(back) != len(names):
        raise ValueError("a renaming gives one new name to two references")
    whole = dict(names)
    for new in back:
        if new not in whole:
            end = new
            while end in back:
                end = back[end]
            whole[new] = end
    return whole


class Renaming(msgspec.Struct, frozen=True):
    """A permutation of handle names and one of claim names; other names stay as they are."""

    handles: Mapping[str, str]
    claims: Mapping[str, str]

    @classmethod
    def of(cls, handles: Mapping[str, str], claims: Mapping[str, str]) -> Renaming:
        """Extend two one-to-one maps of a view's references to a renaming."""
        return cls(_completed(handles), _completed(claims))

    def inverse(self) -> Renaming:
        """Return the renaming that undoes this one."""
        return Renaming(
            {new: old for old, new in self.handles.items()},
            {new: old for old, new in self.claims.items()},
        )

    def action(self, action: str) -> str:
        """Rename the argument of a task action if it is a handle or a claim."""
        verb, argument = action_argument(action)
        if argument is None:
            return action
        names = self.handles if argument in self.handles else self.claims
        return f"{verb}:{names.get(argument, argument)}"

    def trace(self, trace: Trace) -> Trace:
        """Rename a trace or deposit."""
        return Trace(
            self.handles.get(trace.channel, trace.channel),
            self.claims.get(trace.claim, trace.claim),
            trace.novelty,
            trace.support,
            trace.conflict,
            trace.ttl,
            trace.direction,
        )

    def commitment(self, commitment: Commitment | None) -> Commitment | None:
        """Rename a commitment."""
        if commitment is None:
            return None
        claim = commitment.claim
        return Commitment(self.claims.get(claim, claim), commitment.confidence_bin)

    def view(self, view: View) -> View:
        """Rename every reference of a view; rows keep their order."""
        p, w = view.private, view.proposal
        handle, claim = self.handles.get, self.claims.get
        private = Private(
            p.observation,
            tuple([
                Evidence(claim(e.claim, e.claim), e.novelty, e.support, e.conflict, e.direction)
                for e in p.evidence
            ]),
            tuple([claim(z, z) for z in p.ready]),
            p.coverage,
            tuple([Port(handle(c.channel, c.channel), c.lot, c.facts) for c in p.channels]),
            tuple([ClaimRow(claim(row.claim, row.claim), row.facts) for row in p.claims]),
        )  # fmt: skip
        target = None if w.claim is None else claim(w.claim, w.claim)
        return View(
            view.contract,
            private,
            Proposal(self.action(w.action), w.response, target),
            tuple([self.trace(trace) for trace in view.traces]),
            self.commitment(view.commitment),
            view.budget,
        )

    def decision(self, decision: Decision) -> Decision:
        """Rename every reference of a decision."""
        return Decision(
            self.action(decision.task_action),
            decision.response,
            tuple(self.trace(deposit) for deposit in decision.deposits),
            self.commitment(decision.commit),
            decision.execution_intent,
        )
