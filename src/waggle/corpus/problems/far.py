"""Far problems: local problems on graphs whose goals and rules no transfer task shares.

There are ten: orientations, layers and pointers to a marked node, ranks, cores, tokens, threshold
automata and parities. The rules are standard anonymous ones; where simultaneous moves would undo
one another, the observation shows a node's turn. Invariant: every rule reads one view.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.corpus.problems.play import YOU, Choice, Episode, Graph, NodeFacts, Problem, by_lot
from waggle.corpus.views.rng import Draw


def _nothing(_draw: Draw, graph: Graph) -> list[dict[str, int]]:
    return [{} for _ in graph]


def _one_marked(draw: Draw, graph: Graph) -> list[dict[str, int]]:
    root = draw.below(len(graph))
    return [{"mark": int(node == root)} for node in range(len(graph))]


def _some_marked(draw: Draw, graph: Graph) -> list[dict[str, int]]:
    return [{"mark": int(draw.chance(40))} for _ in graph]


def _numbered(draw: Draw, graph: Graph) -> list[dict[str, int]]:
    return [{"number": number} for number in draw.some(range(60), len(graph))]


def _far_from_one(draw: Draw, graph: Graph) -> list[dict[str, int]]:
    return [{"far": layer} for layer in layers(graph, draw.below(len(graph)))]


def _loaded(draw: Draw, graph: Graph) -> list[dict[str, int]]:
    return [{"load": draw.between(0, 6)} for _ in graph]


def layers(graph: Graph, root: int) -> list[int]:
    """Return the distance of every node from `root`."""
    found = {root: 0}
    queue = [root]
    for node in queue:
        for contact in graph[node]:
            if contact not in found:
                found[contact] = found[node] + 1
                queue.append(contact)
    return [found[node] for node in range(len(graph))]


def _root(episode: Episode) -> int:
    return next(node for node, start in enumerate(episode.start) if start["mark"])


def _marks(episode: Episode) -> list[int]:
    return [start["mark"] for start in episode.start]


def sinkless_rule(seen: NodeFacts) -> Choice:
    """Claim an edge; in its turn, a node whose edge is claimed by both ends claims another."""
    named = seen.named()
    if named is None:
        return seen.proposal
    if not seen.own["turn"] or named.answer != YOU:
        return named.port
    others = [contact for contact in seen.contacts if contact is not named]
    return by_lot(others, lambda contact: contact.answer == YOU) or named.port


def sinkless_check(episode: Episode) -> bool:
    """Return whether every node has an outgoing edge."""
    claimed = [answer[0] if isinstance(answer, tuple) else None for answer in episode.standing]
    return all(out is not None and claimed[out] != node for node, out in enumerate(claimed))


def layer_rule(seen: NodeFacts) -> Choice:
    """Answer 0 at the marked node; others answer once, one more than the least layer heard."""
    if seen.standing is not None:
        return seen.standing
    heard = [contact.answer for contact in seen.contacts if contact.answer is not None]
    if seen.own["mark"]:
        return 0
    return (min(heard) + 1) % seen.k if heard else None


def layer_check(episode: Episode) -> bool:
    """Return whether every answer is the distance from the marked node, modulo k."""
    true = layers(episode.graph, _root(episode))
    return episode.standing == [layer % episode.task.k for layer in true]


def parent_rule(seen: NodeFacts) -> Choice:
    """Name a contact that is the root or has a parent, and keep it."""
    if seen.own["mark"]:
        return 0
    named = seen.named()
    if named is not None:
        return named.port
    ahead = [c for c in seen.contacts if c.answer is not None and c.answer != YOU]
    return by_lot(ahead, lambda contact: contact.answer != 0)


def parent_check(episode: Episode) -> bool:
    """Return whether the root answers 0 and all others name a contact one step nearer to it."""
    true = layers(episode.graph, _root(episode))
    return _nearer(episode, true)


def next_hop_rule(seen: NodeFacts) -> Choice:
    """Name the contact that stated the smallest distance."""
    if seen.own["far"] == 0:
        return 0
    heard = [contact for contact in seen.contacts if "far" in contact.numbers]
    named = seen.named()
    nearest = min((contact.numbers["far"] for contact in heard), default=None)
    if named is not None and named.numbers.get("far") == nearest:
        return named.port
    return by_lot(heard, lambda contact: contact.numbers["far"]) or seen.proposal


def next_hop_check(episode: Episode) -> bool:
    """Return whether every node but the goal names a contact that is one step nearer."""
    return _nearer(episode, [start["far"] for start in episode.start])


def _nearer(episode: Episode, far: list[int]) -> bool:
    return all(
        answer == 0 if far[node] == 0
        else isinstance(answer, tuple) and far[answer[0]] == far[node] - 1
        for node, answer in enumerate(episode.standing)
    )  # fmt: skip


def rank_rule(seen: NodeFacts) -> Choice:
    """Count the contacts that are known to have a smaller number."""
    smaller = sum(c.numbers.get("number", 99) < seen.own["number"] for c in seen.contacts)
    return min(smaller, seen.k - 1)


def rank_check(episode: Episode) -> bool:
    """Return whether every answer is the node's rank among its contacts."""
    own = [start["number"] for start in episode.start]
    most = episode.task.k - 1
    true = [min(most, sum(own[c] < own[v] for c in some)) for v, some in enumerate(episode.graph)]
    return episode.standing == true


def core_rule(seen: NodeFacts) -> Choice:
    """Leave once fewer than k contacts stay; a node that left does not come back."""
    staying = len(seen.contacts) - seen.counted(1)
    return 1 if seen.standing == 1 or staying < seen.k else 0


def core_check(episode: Episode) -> bool:
    """Return whether the nodes that stay are the k-core."""
    left: set[int] = set()
    while True:
        more = {
            node for node, contacts in enumerate(episode.graph)
            if len(set(contacts) - left) < episode.task.k
        } - left  # fmt: skip
        if not more:
            return episode.standing == [int(node in left) for node in range(len(episode.graph))]
        left |= more


def token_rule(seen: NodeFacts) -> Choice:
    """In its turn, give a token to the contact with the fewest, if it has at least two fewer."""
    heard = [contact for contact in seen.contacts if "load" in contact.numbers]
    if not seen.own["turn"] or not heard:
        return 0
    least = min(contact.numbers["load"] for contact in heard)
    if seen.own["load"] - least < 2:
        return 0
    return by_lot(heard, lambda contact: contact.numbers["load"]) or 0


def token_move(episode: Episode) -> None:
    """Move one token from every node that has one to the contact that it names."""
    for node, answer in enumerate(episode.standing):
        if isinstance(answer, tuple) and episode.numbers[node]["load"]:
            episode.numbers[node]["load"] -= 1
            episode.numbers[answer[0]]["load"] += 1


def token_check(episode: Episode) -> bool:
    """Return whether no token is lost and no two contacts differ by more than one."""
    load = [numbers["load"] for numbers in episode.numbers]
    kept = sum(load) == sum(start["load"] for start in episode.start)
    return kept and all(
        abs(load[v] - load[c]) <= 1 for v, some in enumerate(episode.graph) for c in some
    )


def threshold_rule(seen: NodeFacts) -> Choice:
    """Switch on if marked or if k contacts are on; never switch off."""
    return 0 if seen.standing == 0 or seen.own["mark"] or seen.counted(0) >= seen.k else 1


def threshold_check(episode: Episode) -> bool:
    """Return whether exactly the nodes are on that the automaton switches on."""
    on = {node for node, mark in enumerate(_marks(episode)) if mark}
    while more := {
        node for node, contacts in enumerate(episode.graph)
        if node not in on and len(on.intersection(contacts)) >= episode.task.k
    }:  # fmt: skip
        on |= more
    return episode.standing == [int(node not in on) for node in range(len(episode.graph))]


def parity_rule(seen: NodeFacts) -> Choice:
    """State the mark, then in two steps the parity of the contacts' statements, and keep it."""
    step = seen.own["step"]
    if step == 0:
        return seen.own["mark"]
    return seen.standing if step > 2 else seen.counted(1) % 2


def parity_check(episode: Episode) -> bool:
    """Return whether every answer is the parity of marks over all walks of two steps."""
    parity = _marks(episode)
    for _ in range(2):
        parity = [sum(parity[c] for c in contacts) % 2 for contacts in episode.graph]
    return episode.standing == parity


def along_rule(seen: NodeFacts) -> Choice:
    """Name the contact with the next larger number; answer 0 if no contact has a larger one."""
    heard = [contact for contact in seen.contacts if "number" in contact.numbers]
    after = [contact for contact in heard if contact.numbers["number"] > seen.own["number"]]
    if not heard:
        return seen.proposal
    return by_lot(after, lambda contact: contact.numbers["number"]) if after else 0


def along_check(episode: Episode) -> bool:
    """Return whether every node points to the contact that comes next in the order."""
    own = [start["number"] for start in episode.start]

    def true(node: int) -> int | tuple[int]:
        after = [c for c in episode.graph[node] if own[c] > own[node]]
        return (min(after, key=own.__getitem__),) if after else 0

    return episode.standing == [true(node) for node in range(len(episode.graph))]


PROBLEMS: Mapping[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("sinkless orientation", (0, 0), True, ("turn",), (), _nothing, sinkless_rule,
                sinkless_check, degree=3, turns=8),
        Problem("layer modulo k", (3, 5), False, ("mark",), (), _one_marked, layer_rule,
                layer_check),
        Problem("parent pointers", (1, 1), True, ("mark",), (), _one_marked, parent_rule,
                parent_check),
        Problem("next hop", (1, 1), True, (), ("far",), _far_from_one, next_hop_rule,
                next_hop_check),
        Problem("rank among contacts", (4, 6), False, (), ("number",), _numbered, rank_rule,
                rank_check),
        Problem("k-core", (2, 2), False, (), (), _nothing, core_rule, core_check, k=(2, 3)),
        Problem("token balancing", (1, 1), True, ("turn",), ("load",), _loaded, token_rule,
                token_check, turns=8, move=token_move),
        Problem("threshold automaton", (2, 2), False, ("mark",), (), _some_marked, threshold_rule,
                threshold_check, k=(2, 3)),
        Problem("two-hop parity", (2, 2), False, ("mark", "step"), (), _some_marked, parity_rule,
                parity_check),
        Problem("orientation along an order", (1, 1), True, (), ("number",), _numbered, along_rule,
                along_check),
    )
}  # fmt: skip
"""The Far problems by name."""
