"""Solvers of the nodes' tasks: the deterministic rule, or any law or chat endpoint in its place.

An organiser decides which node sends to which contact; a solver decides what a node makes of its
view. `ViewSolver` reads the private proposal that the view already has; `LawSolver` queries a law,
which may be a language model in this process or behind an endpoint, and takes its task action and
response. The law's deposits and commitments are dropped: messages go where the organiser sends
them. A node's progress and its gain in a round are read from its own view in the same way for all
solvers. Invariant: nothing here sees more than one node's view.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.baselines.peers.organiser import NodeView, Solution
from waggle.core.admit import violations
from waggle.core.decode import parse
from waggle.core.protocols import Decode, Law, Request, Usage
from waggle.core.schema import MAX_BIN, ClaimRow, Decision, Port, View
from waggle.laws import places
from waggle.runtime.repair import ask

_OLDEST = 10
"""One more than the largest age that a view shows."""


def read(view: View) -> Solution:
    """Return the progress of a node, as its view shows it.

    On Silo this is coverage; on graphs the share of contacts whose answer is known; if claims have
    places, 1 for a place in sight and less for an older report; else the strongest support.
    """
    ready, bins = bool(view.private.ready), view.private.coverage
    if bins is not None:
        return Solution(1.0 if ready else bins / MAX_BIN, ready)
    if view.contract.task.startswith("agentsnet/"):
        known = [_said(port) is not None for port in view.private.channels]
        return Solution(sum(known) / max(1, len(known)), ready)
    sites = [_nearness(row) for row in view.private.claims if "source" in row.facts]
    if sites:
        return Solution(max(sites), ready)
    own = max((e.support for e in view.private.evidence if not e.conflict), default=0)
    return Solution(own / MAX_BIN, ready)


def _said(port: Port) -> object:
    return port.facts.get("answer")


def _nearness(row: ClaimRow) -> float:
    age = row.facts.get("age", 0)
    if row.facts["source"] == "seen" or not isinstance(age, int):
        return 1.0
    return 1 - age / _OLDEST


def local_gain(before: NodeView | None, now: NodeView) -> float:
    """Return how much a node gained in the last round, from what its own views show.

    On Silo, the share of the pieces held that are new; on graphs, the share of contacts whose
    answer has changed; if claims have places, 1 for a report that is worth walking to. In all other
    cases, the rise in confidence.
    """
    gained = now.view.private.observation.get("gained")
    if isinstance(gained, int):
        return gained / MAX_BIN
    if now.view.contract.task.startswith("agentsnet/"):
        then = {} if before is None else before.ports
        new = [_said(p) != (_said(then[j]) if j in then else None) for j, p in now.ports.items()]
        return sum(new) / max(1, len(new))
    if now.inbox and places.goal(now.view) is not None:
        return 1.0
    return max(0.0, now.solution.confidence - (before.solution.confidence if before else 0.0))


class ViewSolver:
    """The deterministic solver: it reads the private proposal that the view already has.

    With private workers, the proposal is the worker's, whose calls and tokens are counted as usual;
    this solver adds one call every time a node solves.
    """

    def solve(self, requests: Sequence[Request]) -> list[Solution]:
        """Read every view and charge one call each."""
        return [read(request.view)._replace(usage=Usage(calls=1)) for request in requests]


class LawSolver:
    """A solver that takes the action and response of every node from a law, in one batch.

    An answer that is not a legal action still costs its call, but is not retried; the node then
    follows the common rule.
    """

    def __init__(self, law: Law) -> None:
        self.law = law

    def solve(self, requests: Sequence[Request]) -> list[Solution]:
        """Query the law for all requests at once."""
        decodes = ask(self.law, requests) if requests else []
        return [_solution(r.view, d) for r, d in zip(requests, decodes, strict=True)]


def _solution(view: View, decode: Decode) -> Solution:
    said = decode.output if isinstance(decode.output, Decision) else parse(decode.output).decision
    usage = decode.usage if decode.usage.calls else Usage(calls=1)
    found = read(view)._replace(usage=usage)
    if said is None or decode.usage.failures:
        return found
    plain = Decision(said.task_action, said.response, (), None)
    return found if violations(view, plain) else found._replace(decision=plain)
