"""Near problems: local problems of the kind that transfer tasks have, for the second arm only.

Minimal dominating set, weak 2-colouring and local max-cut. Nodes move in turns. Invariant:
every rule reads one view, and no rule is that of a transfer task.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.corpus.problems.play import Choice, Episode, Graph, NodeFacts, Problem
from waggle.corpus.views.rng import Draw


def _nothing(_draw: Draw, graph: Graph) -> list[dict[str, int]]:
    return [{} for _ in graph]


def covered(seen: NodeFacts) -> Mapping[str, int]:
    """Return how many of the node and its contacts are in the set."""
    return {"count": seen.counted(0) + (seen.standing == 0)}


def dominating_rule(seen: NodeFacts) -> Choice:
    """Start in the set; leave in a turn if the node and all its contacts stay covered."""
    if seen.standing != 0:
        return 0 if seen.standing is None else seen.standing
    spare = all(contact.numbers.get("count", 0) >= 2 for contact in seen.contacts)
    return 1 if seen.own["turn"] and seen.counted(0) and spare else 0


def dominating_check(episode: Episode) -> bool:
    """Return whether the set dominates and no member of it can be left out."""
    members = {node for node, answer in enumerate(episode.standing) if answer == 0}

    def dominates(some: set[int]) -> bool:
        return all(v in some or some.intersection(c) for v, c in enumerate(episode.graph))

    return dominates(members) and not any(dominates(members - {node}) for node in members)


def weak_rule(seen: NodeFacts) -> Choice:
    """Change sides in a turn where all contacts are on the same side."""
    if not isinstance(seen.standing, int):
        return seen.proposal
    alone = seen.counted(seen.standing) < len(seen.contacts)
    return seen.standing if alone or not seen.own["turn"] else 1 - seen.standing


def weak_check(episode: Episode) -> bool:
    """Return whether every node has a contact on the other side."""
    side = episode.standing
    return all(any(side[c] != side[v] for c in some) for v, some in enumerate(episode.graph))


def cut_rule(seen: NodeFacts) -> Choice:
    """Change sides in a turn where more than half of the contacts are on the same side."""
    if not isinstance(seen.standing, int):
        return seen.proposal
    crowded = 2 * seen.counted(seen.standing) > len(seen.contacts)
    return 1 - seen.standing if crowded and seen.own["turn"] else seen.standing


def cut_check(episode: Episode) -> bool:
    """Return whether no node would cut more edges on the other side."""
    side = episode.standing
    return all(
        2 * sum(side[c] == side[v] for c in some) <= len(some)
        for v, some in enumerate(episode.graph)
    )


PROBLEMS: Mapping[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("minimal dominating set", (2, 2), False, ("turn",), ("count",), _nothing,
                dominating_rule, dominating_check, turns=2, measure=covered),
        Problem("weak 2-colouring", (2, 2), False, ("turn",), (), _nothing, weak_rule, weak_check,
                turns=2),
        Problem("local max-cut", (2, 2), False, ("turn",), (), _nothing, cut_rule, cut_check,
                turns=8),
    )
}  # fmt: skip
"""The Near problems by name."""
