"""Expert rules for AgentsNet-RP: the ceiling for local laws there, never used as a teacher.

Each rule is a standard anonymous algorithm that reads one View. Its action is its current answer;
it deposits its own claim when contacts do not know that answer, with support 4 for a final answer
and 1 for one that may change. With priorities, order breaks symmetry; without them, a coin derived
from private lots does. Invariant: no rule reads a name or the position of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waggle.core.relations import relay_ttl
from waggle.core.schema import BROADCAST, MAX_BIN, MAX_TTL, WAIT, Decision, Fact, Port, Trace, View
from waggle.laws import moves
from waggle.laws.expert import generic

FIRM = MAX_BIN
"""Support of a statement whose answer is final."""
OPEN = 1
"""Support of a statement that may be revised."""

_MATCH = "MATCH"


def decide(view: View) -> Decision:
    """Apply the rule of the contract's task, or the generic rules if the task has none."""
    return _RULES.get(view.contract.task.partition("/")[2], generic.decide)(view)


def coloring(view: View) -> Decision:
    """Keep the drawn group; in a clash the node with the larger priority takes a free one."""
    standing = _standing(view)
    if standing is None:
        return _tell(view, view.proposal.action, OPEN)
    rivals = [port for port in view.private.channels if port.facts.get("answer") == standing]
    if not any(_yields(view, port) for port in rivals):
        return _tell(view, standing, OPEN)
    taken = {port.facts.get("answer") for port in view.private.channels}
    free = [a for a in view.contract.actions if a not in taken and a != WAIT] or [standing]
    return _tell(view, free[moves.luck(view) % len(free)], OPEN)


def consensus(view: View) -> Decision:
    """Take the smallest legal value, as every node does: this needs no message."""
    smallest = min((a for a in view.contract.actions if a != WAIT), default=WAIT)
    return Decision(smallest, None, (), None)


def leader_election(view: View) -> Decision:
    """Flood the smallest priority; its holder leads. Without priorities, use local coins."""
    if "order" not in view.private.observation:
        return _coin_leader(view)
    answer = "Yes" if view.private.observation["order"] == 0 else "No"
    return Decision(answer, None, _flood(view), None)


def matching(view: View) -> Decision:
    """Name a contact; a named node accepts or waits by coin; mutual naming is final."""
    named = next((p for p in view.private.channels if p.facts.get("named") == 1), None)
    if named is not None and named.facts.get("answer") == "you":
        return _point(view, named, FIRM)
    free = [port for port in view.private.channels if not _is_taken(port)]
    suitors = [port for port in free if port.facts.get("answer") == "you"]
    waiting = named is not None and named in free and named.facts.get("told") == 1
    if suitors and (not waiting or moves.luck(view) % 2 or view.budget == 0):
        return _point(view, _first(suitors), OPEN)
    if waiting:
        return _point(view, named, OPEN)
    return _point(view, _by_lot(free), OPEN)


def vertex_cover(view: View) -> Decision:
    """Cover unless in the independent set, which smaller priorities or larger draws join first."""
    ports = view.private.channels
    if any(port.facts.get("answer") == "No" and _is_firm(port) for port in ports):
        return _tell(view, "Yes", FIRM)
    if "order" not in view.private.observation:
        return _drawn_cover(view)
    heard = all("order" in port.facts for port in ports)
    if heard and all(_is_firm(port) for port in ports if _yields(view, port)):
        return _tell(view, "No", FIRM)
    return _tell(view, "Yes", OPEN)


def _coin_leader(view: View) -> Decision:
    """Stand for leader; on meeting another candidate, retreat by coin."""
    rivals = any(port.facts.get("answer") == "Yes" for port in view.private.channels)
    stands = _standing(view) != "No" and not (rivals and moves.luck(view) % 2)
    return _tell(view, "Yes" if stands else "No", OPEN)


def _drawn_cover(view: View) -> Decision:
    """Stay out if the own draw of the last update beats the draw of every undecided contact.

    Draws 0 to 3 are sent as support, below the 4 of a decision, and are renewed in every update.
    """
    ports = view.private.channels
    drawn = {port.facts.get("vouched") for port in ports}
    rivals = {_number(port.facts.get("sure")) for port in ports if not _is_firm(port)}
    beaten = len(drawn) == 1 and all(_number(own) > max(rivals, default=-1) for own in drawn)
    if drawn == {FIRM} or (None not in drawn and beaten):
        return _tell(view, "No", FIRM)
    draw = moves.luck(view) % FIRM
    return Decision("Yes", None, _unless(view.budget == 0, view, draw), None)


def _flood(view: View) -> tuple[Trace, ...]:
    """Relay the smallest priority while some contact may not know it."""
    if view.budget == 0 or not view.contract.deposits:
        return ()
    smallest = next((row for row in view.private.claims if row.facts.get("order") == 0), None)
    if smallest is None or not smallest.facts.get("untold"):
        return ()
    if smallest.facts.get("own"):
        return _unless(False, view, FIRM)
    alive = [t for t in view.traces if t.claim == smallest.claim and relay_ttl(t)]
    longest = max(alive, key=lambda t: (t.ttl, t.novelty, t.support), default=None)
    return () if longest is None else (moves.relay(longest, BROADCAST),)


def _tell(view: View, answer: str, sure: int) -> Decision:
    """Act on an answer, and deposit the own claim if some contact does not know the answer."""
    known = view.private.observation.get("answer") == answer and all(
        port.facts.get("vouched") == sure for port in view.private.channels
    )
    return Decision(answer, None, _unless(known or view.budget == 0, view, sure), None)


def _point(view: View, port: Port | None, sure: int) -> Decision:
    """Name a partner or none, and deposit the own claim if that choice is new."""
    if port is None:
        known = not any(p.facts.get("named") == 1 for p in view.private.channels)
        return Decision("NONE", None, _unless(known or view.budget == 0, view, sure), None)
    known = port.facts.get("named") == 1 and port.facts.get("vouched") == sure
    action = f"{_MATCH}:{port.channel}"
    return Decision(action, None, _unless(known or view.budget == 0, view, sure), None)


def _unless(known: bool, view: View, sure: int) -> tuple[Trace, ...]:
    silent = known or not view.contract.deposits or not view.private.evidence
    return () if silent else (_own(view, sure),)


def _own(view: View, sure: int) -> Trace:
    """Write the own claim to every contact."""
    own = view.private.evidence[0]
    return Trace(BROADCAST, own.claim, own.novelty, sure, 0, MAX_TTL)


def _standing(view: View) -> str | None:
    """Return the answer acted on so far, or None before the first update."""
    answer = view.private.observation.get("answer")
    return answer if answer in view.contract.actions else None


def _yields(view: View, port: Port) -> bool:
    """Return whether this node yields to a contact: to a smaller priority, or else by coin."""
    own, other = view.private.observation.get("order"), port.facts.get("order")
    if isinstance(own, int) and isinstance(other, int):
        return other < own
    return moves.luck(view) % 2 == 1


def _is_firm(port: Port) -> bool:
    return port.facts.get("sure") == FIRM


def _is_taken(port: Port) -> bool:
    """Return whether a contact is firmly matched with another node."""
    return _is_firm(port) and port.facts.get("answer") == "another"


def _first(ports: Sequence[Port]) -> Port | None:
    """Return the port with the smallest priority; ties and missing priorities by lot."""
    return moves.distinguished(ports, lambda p: (-_number(p.facts.get("order")), p.lot))


def _by_lot(ports: Sequence[Port]) -> Port | None:
    """Return a port by lot."""
    return moves.distinguished(ports, moves.port_key)


def _number(fact: Fact | None) -> int:
    return fact if isinstance(fact, int) else 0


_RULES: dict[str, Callable[[View], Decision]] = {
    "coloring": coloring,
    "consensus": consensus,
    "leader_election": leader_election,
    "matching": matching,
    "vertex_cover": vertex_cover,
}
