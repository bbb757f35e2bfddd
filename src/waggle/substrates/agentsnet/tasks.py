"""The five AgentsNet tasks: contracts, round budgets, official scores (spec sections 2 to 4).

A legal task action *is* an official answer: the five vocabularies map one to one onto the strings
of the official evaluator, with a partner's handle in place of its name. Contract texts state the
goal, but neither the number of nodes nor a rule that solves it; the number of groups is stated
because AgentsNet states it. `soft_score` is the official evaluator, including the division by zero
that it raises for an empty cover or an edgeless graph; `evaluate` scores those cases 0 instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.core.errors import suggest
from waggle.core.schema import CHANNEL_ARGUMENT, WAIT, Contract
from waggle.substrates.agentsnet.graphs import AgentGraph, GraphError

Answers = Sequence[str | None]
"""One official answer per node; None where a node gave no readable answer."""

TASKS = ("coloring", "consensus", "leader_election", "matching", "vertex_cover")
"""Task keys in the order of the paper's table."""

GLOBAL_TASKS = frozenset({"consensus", "leader_election"})
"""Tasks whose budget is always 2D+1."""

MATCH = "MATCH"
"""Verb of a matching answer; its argument is the partner's handle."""
ALONE = "NONE"
"""The matching answer without a partner."""

_SMALL_BUDGETS = ((4, 4), (8, 5), (16, 6))
"""(Largest number of nodes, rounds) pairs for the local tasks."""
_GOALS = {
    "coloring": "Choose a group that none of your contacts chooses.",
    "consensus": "Give the same value as everyone else.",
    "leader_election": "Exactly one may answer Yes: the leader; all others answer No.",
    "matching": "Name the contact you pair with, who must name you; answer NONE only if no contact "
    "is left without a partner.",
    "vertex_cover": "Yes makes you a coordinator. Every link needs a coordinator at one of its "
    "ends, and no coordinator may be dispensable.",
}
_ROUNDS = (
    " Your action of each update is your answer so far; the last one counts. A deposit of your own "
    "claim tells a contact that answer; a deposit of another claim passes it on."
)
_PRIORITY = " Claims stand for private priorities; smaller priorities may break ties."


def require_task(task: str) -> str:
    """Return the task key.

    Raises:
        GraphError: naming the five tasks.
    """
    if task in TASKS:
        return task
    near = suggest(task, list(TASKS))
    raise GraphError(f"AgentsNet task {task!r} is unknown; use one of {', '.join(TASKS)}{near}")


def round_budget(task: str, graph: AgentGraph) -> int:
    """Return R: 2D+1, or 4 / 5 / 6 for a local task at up to 4 / 8 / 16 nodes.

    Raises:
        GraphError: if the budget is 2D+1 and the graph is not connected.
    """
    if require_task(task) not in GLOBAL_TASKS:
        for most, rounds in _SMALL_BUDGETS:
            if graph.n <= most:
                return rounds
    if graph.diameter is None:
        raise GraphError(f"graph {graph.id!r} is not connected; AgentsNet needs a connected one")
    return 2 * graph.diameter + 1


def group_names(count: int) -> tuple[str, ...]:
    """Return the colouring answers "Group 1" to "Group K"."""
    return tuple(f"Group {k}" for k in range(1, count + 1))


def answers(task: str, groups: int) -> tuple[str, ...]:
    """Return the task actions that are answers, in official order."""
    match task:
        case "coloring":
            return group_names(groups)
        case "consensus":
            return ("0", "1")
        case "matching":
            return (f"{MATCH}:{CHANNEL_ARGUMENT}", ALONE)
        case _:
            return ("Yes", "No")


def contract(task: str, groups: int, priority: bool, goal: str | None = None) -> Contract:
    """Return the contract that all nodes of an episode share.

    Args:
        task: one of `TASKS`.
        groups: number of colours.
        priority: whether nodes have priorities.
        goal: the task whose goal is shown instead, as a control.
    """
    return Contract(
        task=f"agentsnet/{task}",
        goal=_GOALS[goal or task] + _ROUNDS + (_PRIORITY if priority else ""),
        actions=(*answers(task, groups), WAIT),
        deposits=1,
        broadcast=True,
    )


def soft_score(task: str, graph: AgentGraph, answers: Answers, groups: int | None = None) -> float:
    """Return the official score.

    Args:
        task: one of `TASKS`.
        graph: the instance.
        answers: one per node.
        groups: number of colours; one more than the maximum degree by default.

    Raises:
        ZeroDivisionError: as the official evaluator does, for an empty cover or no edges.
    """
    match require_task(task):
        case "coloring":
            return _coloring(graph, answers, graph.max_degree + 1 if groups is None else groups)
        case "consensus":
            return float(set(answers) in ({"0"}, {"1"}))
        case "leader_election":
            valid = all(answer in ("Yes", "No") for answer in answers)
            return float(valid and list(answers).count("Yes") == 1)
        case "matching":
            bad = sum(_badly_matched(graph, answers, v) for v in range(graph.n))
            return (graph.n - bad) / graph.n
        case _:
            return _vertex_cover(graph, answers)


def evaluate(task: str, graph: AgentGraph, answers: Answers) -> float:
    """Return the soft score, or 0 if the official evaluator cannot compute one.

    An episode is solved (strict) iff the soft score is exactly 1.
    """
    if len(answers) != graph.n:
        raise GraphError(f"{len(answers)} answers for {graph.n} nodes; give one per node")
    try:
        return soft_score(task, graph, answers)
    except ZeroDivisionError:
        return 0.0


def node_share(
    task: str, graph: AgentGraph, answers: Answers, node: int, ranks: Sequence[int] | None = None
) -> float | None:
    """Return a node's part of the soft score, or None if no such parts average to the score.

    If several nodes spoil a score together, all share the blame. If priorities are given, they
    decide which one of them bears it. The parts average to the score in each task:

    * Matching: the score is the share of nodes that are well matched; a part is 1 or 0.
    * Coloring: the score is the share of proper links, and `_coloring_part` splits it by links.
    * VertexCover and LeaderElection: the score is no mean over nodes. A part is 1 or 0 for a node
      without or with blame, whose mean over the nodes is b, plus the constant (score - b).
    * Consensus: the nodes succeed or fail together, so there are no parts.

    Args:
        task: one of `TASKS`.
        graph: the instance.
        answers: one per node.
        node: the node whose part is returned.
        ranks: priorities of all nodes, if they break ties.
    """
    match task:
        case "coloring":
            return _coloring_part(graph, answers, node, ranks)
        case "matching":
            return float(not _badly_matched(graph, answers, node))
        case "vertex_cover":
            blameless = _blameless_in_cover(graph, answers, ranks)
        case "leader_election":
            blameless = _blameless_in_election(answers)
        case _:
            return None
    return blameless[node] + evaluate(task, graph, answers) - sum(blameless) / graph.n


def _coloring_part(
    graph: AgentGraph, answers: Answers, node: int, ranks: Sequence[int] | None
) -> float:
    """Return a node's part of the share of proper links.

    Every link is worth n / 2E to each of its two ends, so the parts of n nodes average to 1 if all
    E links are proper. An improper link costs n / E: one half at each end without ranks, all of it
    at the end of larger priority with ranks.
    """
    if evaluate("coloring", graph, answers) == 0.0:
        return 0.0
    same = [v for v in graph.adjacency[node] if answers[v] == answers[node]]
    spoilt = len(same) if ranks is None else 2 * sum(ranks[v] < ranks[node] for v in same)
    return (len(graph.adjacency[node]) - spoilt) * graph.n / (2 * len(graph.edges))


def _blameless_in_cover(
    graph: AgentGraph, answers: Answers, ranks: Sequence[int] | None
) -> list[bool]:
    """Return, for each node, whether it is free of blame for open links and dispensable members.

    Of the two ends of an open link, the one of smaller priority may stay outside the cover; of two
    dispensable neighbours in the cover, the one of smaller priority has to leave.
    """
    sound = [_covers_well(graph, answers, v) for v in range(graph.n)]
    if ranks is None:
        return sound
    blameless = []
    for v in range(graph.n):
        smaller = [u for u in graph.adjacency[v] if ranks[u] < ranks[v]]
        if answers[v] == "Yes":
            blameless.append(sound[v] or any(answers[u] == "Yes" and not sound[u] for u in smaller))
        else:
            blameless.append(all(answers[u] == "Yes" for u in smaller))
    return blameless


def _blameless_in_election(answers: Answers) -> list[bool]:
    """Return, for each node, whether it is free of blame for too many leaders, or for none."""
    leaders = list(answers).count("Yes")
    if leaders == 0:
        return [False] * len(answers)
    blameless = ("No", "Yes") if leaders == 1 else ("No",)
    return [answer in blameless for answer in answers]


def _coloring(graph: AgentGraph, answers: Answers, groups: int) -> float:
    """Return the share of edges with different ends, or 0 if any answer is not a group."""
    legal = frozenset(group_names(groups))
    proper = sum(answers[u] != answers[v] for u, v in graph.edges) / len(graph.edges)
    return proper if all(answer in legal for answer in answers) else 0.0


def _badly_matched(graph: AgentGraph, answers: Answers, node: int) -> bool:
    """Return whether a node breaks maximality (both ends None) or is not named by its partner."""
    answer = answers[node]
    if answer == "None":
        return any(answers[v] == "None" for v in graph.adjacency[node])
    partner = next((v for v in graph.adjacency[node] if graph.names[v] == answer), None)
    return partner is None or answers[partner] != graph.names[node]


def _covers_well(graph: AgentGraph, answers: Answers, node: int) -> bool:
    """Return whether a member alone covers some link, or an outsider has no uncovered link."""
    alone = [v for v in graph.adjacency[node] if answers[v] != "Yes"]
    return bool(alone) if answers[node] == "Yes" else not alone


def _vertex_cover(graph: AgentGraph, answers: Answers) -> float:
    """Return coverage times the share of needed members (all, while coverage is incomplete)."""
    cover = {v for v, answer in enumerate(answers) if answer == "Yes"}
    covered = sum(u in cover or v in cover for u, v in graph.edges)
    coverage = covered / len(graph.edges)
    needed = len(cover)
    if coverage == 1:
        needed = sum(any(u not in cover for u in graph.adjacency[v]) for v in cover)
    # Multiply first, so that the value equals the official one to the last bit.
    return coverage * needed / len(cover)
