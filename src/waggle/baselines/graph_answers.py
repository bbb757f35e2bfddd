"""Rules by which the communicating controls answer graph tasks, from their contacts' last answers.

There is one fixed local rule per AgentsNet task, and the smaller priority breaks ties as the
contract allows: leave a shared group, take the first value, lead if no known priority is smaller,
pair with a contact that names this node, cover what a smaller contact leaves uncovered. The tie
rules are those of the expert, so that a control loses by its organisation alone. Invariant: a
function of one view, with ties broken by order and lot.
"""

from __future__ import annotations

from waggle.core.schema import MAX_BIN, WAIT, Port, View
from waggle.laws import moves

_UNKNOWN = 10**6
"""The order of a contact whose priority is not known."""


def answer(view: View) -> str:
    """Return the task action for a view of an AgentsNet task."""
    task = view.contract.task.partition("/")[2]
    rule = {
        "coloring": _group,
        "consensus": _value,
        "leader_election": _leader,
        "matching": _partner,
        "vertex_cover": _cover,
    }.get(task)
    return view.proposal.action if rule is None else rule(view)


def _standing(view: View) -> str:
    """Return the node's answer so far, or an empty string before there is one."""
    shown = view.private.observation.get("answer")
    return shown if isinstance(shown, str) and shown in view.contract.actions else ""


def _own_order(view: View) -> int:
    order = view.private.observation.get("order")
    return order if isinstance(order, int) else 0


def _order(port: Port) -> int:
    order = port.facts.get("order")
    return order if isinstance(order, int) else _UNKNOWN


def _said(port: Port) -> str:
    return str(port.facts.get("answer", "none yet"))


def _group(view: View) -> str:
    """Keep the group unless a contact with precedence has it; then take a free one by lot."""
    current = _standing(view) or view.proposal.action
    mine = _own_order(view)
    rivals = [p for p in view.private.channels if _said(p) == current and _order(p) != mine]
    insists = [p for p in rivals if _order(p) < mine or _order(p) == _UNKNOWN]
    if not insists:
        return current
    taken = {_said(port) for port in view.private.channels}
    free = [a for a in view.contract.actions if a != WAIT and a not in taken]
    return free[sum(port.lot for port in view.private.channels) % len(free)] if free else current


def _value(view: View) -> str:
    """Take the smallest legal value, as every node can without a message."""
    return min(action for action in view.contract.actions if action != WAIT)


def _leader(view: View) -> str:
    """Lead if no smaller priority is known."""
    return "Yes" if _own_order(view) == 0 and view.private.claims else "No"


def settled(view: View) -> bool:
    """Return whether the contact this node names has named it back."""
    return any(p.facts.get("named") == 1 and _said(p) == "you" for p in view.private.channels)


def _partner(view: View) -> str:
    """Keep a settled pair, accept a contact that names this node, else name a free one by lot.

    A node that has just named one contact and is named by another waits or accepts by coin.
    """
    free = [p for p in view.private.channels if not _taken(p)]
    asked = next((p for p in free if p.facts.get("named") == 1), None)
    if asked is not None and _said(asked) == "you":
        return f"MATCH:{asked.channel}"
    suitors = [port for port in free if _said(port) == "you"]
    waiting = asked is not None and asked.facts.get("told") == 1
    if suitors and (not waiting or moves.luck(view) % 2 or view.budget == 0):
        chosen = moves.distinguished(suitors, lambda p: (-_order(p), moves.port_key(p)))
    else:
        chosen = asked if waiting else moves.distinguished(free, moves.port_key)
    return "NONE" if chosen is None else f"MATCH:{chosen.channel}"


def _taken(port: Port) -> bool:
    """Return whether a contact is settled with another node."""
    return _said(port) == "another" and port.facts.get("sure") == MAX_BIN


def _cover(view: View) -> str:
    """Stay out of the cover unless a smaller contact stays out too."""
    mine = _own_order(view)
    out = [p for p in view.private.channels if _said(p) in ("No", "none yet") and _order(p) < mine]
    return "Yes" if out else "No"
