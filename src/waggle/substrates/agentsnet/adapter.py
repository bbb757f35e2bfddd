"""The AgentsNet substrate: options and the opening of a case.

    waggle run agentsnet/coloring -n 16 --agentsnet.family ba --agentsnet.index 1

Invariant: (family, n, index, graphs) and the edition of the case's seed determine the instance; the
seed determines the episode on it: priorities, proposals and handles. All methods therefore get the
same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from waggle.core.bounds import MAX_ROWS
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.core.world import read_options
from waggle.substrates.agentsnet.graph_files import find_graph
from waggle.substrates.agentsnet.graphs import GraphError, edition
from waggle.substrates.agentsnet.tasks import TASKS, require_task
from waggle.substrates.agentsnet.world import AgentsNetWorld


class AgentsNetOptions(BaseModel):
    """Options of agentsnet."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    family: Literal["ws", "ba", "dt"] = "ws"
    """Graph family: ws (SmallWorld), ba (ScaleFree) or dt (Delaunay)."""

    index: Annotated[int, Field(ge=0, le=9_999)] = 0
    """Index of the graph in its family and size; the benchmark uses 0 to 2."""

    priority: bool = True
    """Give every node a private priority; off removes priorities and their order."""

    goal: Literal["coloring", "consensus", "leader_election", "matching", "vertex_cover"] | None = (
        None
    )
    """Control: show the goal of another task; views, actions and scores stay those of the task."""

    graphs: Path | None = None
    """Folder of graph JSON files, or the AgentsNet parquet file. Default: the published
    generator."""


class AgentsNet:
    """The five AgentsNet tasks behind the randomized-anonymous adapter."""

    name: ClassVar[str] = "agentsnet"
    tasks: ClassVar[tuple[str, ...]] = TASKS
    options: ClassVar[type[AgentsNetOptions]] = AgentsNetOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> AgentsNetWorld:
        """Build the world of a case."""
        require_task(case.task)
        if case.rounds is not None and case.rounds < 1:
            raise ConfigError(f"agentsnet needs at least one update, not {case.rounds}")
        options = read_options(AgentsNetOptions, case)
        drawn = edition(case.seed)
        graph = find_graph(options.family, case.n, options.index, options.graphs, drawn)
        if graph.n != case.n or graph.diameter is None:
            raise GraphError(
                f"graph {graph.id!r} is no connected graph of {case.n} nodes; choose another"
            )
        # A view lists every contact, and the contract of a coloring one group more, and WAIT.
        most = MAX_ROWS - 2 * (case.task == "coloring")
        if graph.max_degree > most:
            raise GraphError(
                f"graph {graph.id!r} has a node with {graph.max_degree} contacts, but agents of "
                f"{case.task} can have up to {most}; choose another"
            )
        return AgentsNetWorld(case, graph, options.priority, keys, options.goal)
