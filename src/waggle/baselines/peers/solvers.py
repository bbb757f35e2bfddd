"""Who solves for a node: the deterministic rule, or any law or chat endpoint in its place.

An organiser says who sends to whom. What a node makes of its view is its solver's: `ViewSolver`
reads the private proposal that the view has already; `LawSolver` asks a law, which may be a
language model in this process or behind an endpoint, and takes its task action and response. Its
deposits and commitments are left out: messages go where the organiser sends them. How far a node
has come, and what a round brought it, is read from its own view in the same way for all of them.
Invariant: nothing here sees more than one node's view.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.baselines.peers.organiser import NodeView, Solution
from waggle.core.admit import violations
from waggle.core.decode import parse
from waggle.core.protocols import Decode, Law, Request, Usage
from waggle.core.schema import MAX_BIN, ClaimRow, Decision, Port, View
from waggle.laws import places
from waggle.runtime.admission import ask

_OLDEST = 10
"""One more than the largest age that a view shows."""


def read(view: View) -> Solution:
    """Return how far a node has come, as its view shows it.

    On Silo this is coverage; on graphs the share of contacts whose answer is known; where claims
    have places, 1 for what is in sight and less for an older report; else the strongest support.
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
    """Return how much a node gained with the last round, from what its own views show.

    On Silo the share of the pieces held that came in; on graphs the share of contacts that answer
    otherwise than they did; where claims have places, 1 for a report that is worth walking to.
    Elsewhere, and beyond that, a rise of confidence counts.
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
    """The deterministic solver: it reads the private proposal that the view has already.

    With private workers hired the proposal is theirs, and their calls and tokens are counted as
    every worker's are; this solver adds its own call for every time a node solves.
    """

    def solve(self, requests: Sequence[Request]) -> list[Solution]:
        """Read every view, at one call each."""
        return [read(request.view)._replace(usage=Usage(calls=1)) for request in requests]


class LawSolver:
    """Takes action and response of every node from a law, in one batch for all who solve.

    An answer that is no legal action costs its call and leaves the node to the common rule; it is
    not asked for again.
    """

    def __init__(self, law: Law) -> None:
        self.law = law

    def solve(self, requests: Sequence[Request]) -> list[Solution]:
        """Ask the law for everyone at once."""
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
