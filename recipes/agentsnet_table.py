"""AgentsNet-RP controls, expert and reference protocols on the 18 graphs of sizes 8 and 16.

    python recipes/agentsnet_table.py [--graphs DIR] [--draws 10] [--laws expert,heuristic]

Ten priority draws per graph are the evaluation seeds 20000 to 20009. Without `--graphs` the
graphs are replayed; `released_verified` Delaunay graphs need their files. Rows are means over
graphs and draws. The reference protocols, with ten times as many draws, are the ceiling column
and no laws.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime.sync import play
from waggle.substrates.agentsnet.graph_files import find_graph
from waggle.substrates.agentsnet.graphs import AgentGraph, benchmark_graphs
from waggle.substrates.agentsnet.reference import Row, reference_table
from waggle.substrates.agentsnet.symmetry import diagnose
from waggle.substrates.agentsnet.tasks import TASKS
from waggle.substrates.agentsnet.world import AgentsNetWorld

FIRST_SEED = 20_000


def row(
    task: str, name: str, graphs: list[AgentGraph], draws: int, priority: bool, label: str = ""
) -> Row:
    """Play one law on one task over all graphs and priority draws."""
    law = plugins.get_law(name)
    played = []
    for graph in graphs:
        for seed in range(FIRST_SEED, FIRST_SEED + draws):
            case = Case("agentsnet", task, graph.n, seed)
            footer = play(AgentsNetWorld(case, graph, priority), law, case)
            messages = footer.counters["messages.delivered"] / graph.n
            played.append((graph.n, footer.scores, messages))
    sizes = sorted({n for n, *_ in played})
    strict = {n: fmean(s["strict"] for m, s, _ in played if m == n) for n in sizes}
    soft = fmean(scores["soft"] for _, scores, _ in played)
    return Row(task, label or name, strict, soft, fmean(messages for *_, messages in played))


def strata(graphs: list[AgentGraph], name: str, draws: int) -> Iterator[Row]:
    """Yield leader election with and without priority, by two notions of symmetry."""
    notions: dict[str, Callable[[AgentGraph], bool]] = {
        "no singleton orbit": lambda graph: diagnose(graph).obstructed,
        "no unique maximum degree": lambda graph: not diagnose(graph).unique_max_degree,
    }
    for notion, holds in notions.items():
        for wanted in (True, False):
            chosen = [graph for graph in graphs if holds(graph) == wanted]
            for priority in (True, False) if chosen else ():
                label = f"{name}, {notion}: {'yes' if wanted else 'no'} ({len(chosen)} graphs), "
                label += "priority" if priority else "no priority"
                yield row("leader_election", name, chosen, draws, priority, label)


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


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=Path, help="folder of graph JSONs, or the parquet file")
    parser.add_argument("--draws", type=int, default=10, help="priority draws per graph")
    parser.add_argument("--laws", default="private-only,random-legal,heuristic,expert")
    given = parser.parse_args()
    graphs = [find_graph(g.family, g.n, g.index, given.graphs) for g in benchmark_graphs()]
    say = sys.stdout.write
    sources = Counter(graph.provenance for graph in graphs)
    say(", ".join(f"{count} {name}" for name, count in sources.items()) + "\n")
    for priority in (True, False):
        laws = given.laws.split(",")
        table = [row(t, law, graphs, given.draws, priority) for t in TASKS for law in laws]
        say(f"\nLaws, {'with' if priority else 'without'} priority\n{format_table(table)}\n")
        sys.stdout.flush()
    say(f"\nBy symmetry\n{format_table(list(strata(graphs, 'expert', given.draws)))}\n")
    say(f"\nReference protocols\n{format_table(reference_table(graphs, 10 * given.draws))}\n")


if __name__ == "__main__":
    main()
