"""The table of the reference protocols on official round budgets (spec section 10).

Invariant: in one lock step all nodes send, then all nodes receive; R steps, then the answers.
A priority draw is named by (graph, draw), so every protocol meets the same priorities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from waggle.core.seeds import derive, mix
from waggle.substrates.agentsnet.graphs import AgentGraph
from waggle.substrates.agentsnet.protocols import (
    AlwaysFirst,
    ColourRetreat,
    FullGather,
    Handshake,
    IndependentSet,
    LoneLeader,
    MinimumFlood,
    PriorityGreedy,
    Program,
    RandomAnswer,
    Start,
)
from waggle.substrates.agentsnet.tasks import Evaluation, evaluate, round_budget

PROTOCOLS: tuple[tuple[str, type[Program], tuple[str, ...]], ...] = (
    ("everyone answers 0", AlwaysFirst, ("consensus",)),
    ("min-priority flood", MinimumFlood, ("consensus", "leader_election")),
    ("no comm: Yes iff u < 2^64/N", LoneLeader, ("leader_election",)),
    ("priority greedy", PriorityGreedy, ("coloring",)),
    ("random colour with retreat", ColourRetreat, ("coloring",)),
    ("no comm: random", RandomAnswer, ("coloring", "matching")),
    ("dominant edge handshake", Handshake, ("matching",)),
    ("complement of priority MIS", IndependentSet, ("vertex_cover",)),
    ("endpoints of maximal matching", Handshake, ("vertex_cover",)),
    ("all Yes", AlwaysFirst, ("vertex_cover",)),
    ("full gather and greedy", FullGather, ("coloring", "matching", "vertex_cover")),
)
"""Label, program and the tasks it is a reference for."""


@dataclass(frozen=True)
class Run:
    """One episode of a reference protocol."""

    evaluation: Evaluation
    answers: tuple[str, ...]
    messages_per_agent: float


@dataclass(frozen=True)
class Row:
    """One line of the table: a protocol on a task, over graphs and priority draws."""

    task: str
    protocol: str
    strict: dict[int, float]
    """Share of solved episodes, by number of nodes."""
    soft: float
    messages_per_agent: float


def draw_priorities(graph: AgentGraph, draw: int) -> list[int]:
    """Return unique uniform 64-bit priorities; collisions are resampled."""
    priorities: dict[int, None] = {}
    attempt = 0
    while len(priorities) < graph.n:
        priorities[derive(draw, "agentsnet-priority", graph.id, attempt)] = None
        attempt += 1
    return list(priorities)


def run_protocol(program: type[Program], task: str, graph: AgentGraph, draw: int) -> Run:
    """Play one episode of a reference protocol and score it officially."""
    bits = derive(draw, "agentsnet-reference-bits", graph.id)
    groups = graph.max_degree + 1
    nodes = [
        program(Start(task, graph.degrees[v], priority, groups, graph.n, mix(bits, v)))
        for v, priority in enumerate(draw_priorities(graph, draw))
    ]
    back = [{v: port for port, v in enumerate(row)} for row in graph.adjacency]
    messages = 0
    for step in range(round_budget(task, graph)):
        inboxes: list[dict[int, object]] = [{} for _ in nodes]
        for v, node in enumerate(nodes):
            for port, message in node.send(step).items():
                target = graph.adjacency[v][port]
                inboxes[target][back[target][v]] = message
                messages += 1
        for node, inbox in zip(nodes, inboxes, strict=True):
            node.receive(step, inbox)
    answers = tuple(_official(graph, v, node.answer()) for v, node in enumerate(nodes))
    return Run(evaluate(task, graph, answers), answers, messages / graph.n)


def reference_table(graphs: Sequence[AgentGraph], draws: int = 100) -> list[Row]:
    """Return the table of spec section 10 on the given graphs."""
    return [
        measure(label, program, task, graphs, draws)
        for label, program, tasks in PROTOCOLS
        for task in tasks
    ]


def measure(
    label: str, program: type[Program], task: str, graphs: Sequence[AgentGraph], draws: int
) -> Row:
    """Return one row: strict by size, soft and messages over all episodes."""
    runs = {g.id: [run_protocol(program, task, g, d) for d in range(draws)] for g in graphs}
    every = [run for group in runs.values() for run in group]
    strict = {
        n: fmean(run.evaluation.strict for g in graphs if g.n == n for run in runs[g.id])
        for n in sorted({graph.n for graph in graphs})
    }
    soft = fmean(run.evaluation.soft for run in every)
    return Row(task, label, strict, soft, fmean(run.messages_per_agent for run in every))


def format_table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    sizes = sorted({n for row in rows for n in row.strict})
    head = ["task", "law or protocol", *(f"strict {n}" for n in sizes), "soft", "msg/agent"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        strict = [f"{row.strict[n]:.2f}" if n in row.strict else "" for n in sizes]
        numbers = [f"{row.soft:.3f}", f"{row.messages_per_agent:.1f}"]
        lines.append([row.task, row.protocol, *strict, *numbers])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _official(graph: AgentGraph, node: int, answer: str | int) -> str:
    """Translate a port into the neighbour's name; other answers are official already."""
    return answer if isinstance(answer, str) else graph.names[graph.adjacency[node][answer]]
