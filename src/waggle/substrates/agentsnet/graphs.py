"""AgentsNet graphs: the graph value, and the published generator (spec sections 1 and 8).

Sizes 20 to 100 come from the current generator with master seed 42, three samples per size and
family. Sizes 4, 8 and 16 were released by an older one: the same small worlds, scale-free graphs
drawn from the same stream as the names, Delaunay points unseeded. The replay therefore reproduces
every released ws and ba graph and all names. Of the Delaunay graphs of those sizes, the first is
written down here and the others are substitutes from the current generator, as `provenance`
records. Every other size comes from the current generator run for that size alone. Rules were
chosen on these graphs, so evaluation seeds use other ones: each block of ten thousand seeds from
40,000 up is a separate edition, drawn by the current generator from another master seed. Invariant:
(family, n, index, edition) always identifies the same graph.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from waggle.core.errors import ConfigError
from waggle.core.seeds import Split, derive

if TYPE_CHECKING:
    from networkx import Graph

FAMILIES: dict[str, str] = {"ws": "SmallWorld", "ba": "ScaleFree", "dt": "Delaunay"}
"""Family tag of the release and its name in the paper."""
MAX_NODES = 1000
"""Largest graph a file may hold; the benchmark ends at 100."""
PROVENANCES = (
    "released_verified",  # equals a released instance, edges and names
    "released_reconstructed",  # replayed from the released instances' random stream
    "official_generator",  # the published generator, as released for this size
    "official_generator_substitute",  # the published generator; no seed replays the released graph
    "evaluation_edition",  # the published generator with another master seed, for evaluation
    "file",  # read from a file that does not record it
    "dataset",  # a row of the downloaded AgentsNet parquet file
)
"""Where a graph comes from; printed with every result."""
MASTER_SEED = 42
"""Seed of the release; the run scripts' 1729 seeds the runner only."""
RELEASED = 0
"""The edition of the released graphs, for development and training."""
_EDITION_SEEDS = 10_000
"""Number of episode seeds that share an edition of evaluation graphs."""
SMALL_SIZES = (4, 8, 16)
"""Benchmark sizes, released by the older generator."""
LARGE_SIZES = tuple(range(20, 101, 10))
"""Sizes of the scaling study."""
SAMPLES = 3
"""Graphs per size and family."""
_RELEASED_ORDER = {"ws": (1, 0, 2), "ba": (0, 1, 2), "dt": (0, 1, 2)}
"""The draws of the older generator by index 0, 1, 2 (known for 0, assumed for 1 and 2)."""
_RELEASED_DELAUNAY = {
    4: "321 03 03 012",
    8: "423 4576 035476 0254 012357 1234 127 1246",
    16: "e17b9 0762e 1ed f49bc 3fca6 a68 1457a8 016bc8 567ac 03fdeb 4568c 0379c 3478ab 29fe 0129d "
    "349d",
}
"""The released Delaunay graph of index 0 by size: a word for each node, with one hexadecimal digit
for each of its neighbours in their released order."""
_MALE = """
James Michael Robert John David William Richard Joseph Thomas Christopher Charles Daniel Matthew
Anthony Mark Donald Steven Andrew Paul Joshua Kenneth Kevin Brian Timothy Ronald George Jason Edward
Jeffrey Ryan Jacob Nicholas Gary Eric Jonathan Stephen Larry Justin Scott Brandon Benjamin Samuel
Gregory Alexander Patrick Frank Raymond Jack Dennis Jerry Tyler Aaron Jose Adam Nathan Henry Zachary
Douglas Peter Kyle Noah Ethan Jeremy Christian Walter Keith Austin Roger Terry Sean Gerald Carl
Dylan Harold Jordan Jesse Bryan Lawrence Arthur Gabriel Bruce Logan Billy Joe Alan Juan Elijah
Willie Albert Wayne Randy Mason Vincent Liam Roy Bobby Caleb Bradley Russell Lucas
"""
_FEMALE = """
Mary Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Karen Sarah Lisa Nancy Sandra Betty
Ashley Emily Kimberly Margaret Donna Michelle Carol Amanda Melissa Deborah Stephanie Rebecca Sharon
Laura Cynthia Dorothy Amy Kathleen Angela Shirley Emma Brenda Pamela Nicole Anna Samantha Katherine
Christine Debra Rachel Carolyn Janet Maria Olivia Heather Helen Catherine Diane Julie Victoria Joyce
Lauren Kelly Christina Ruth Joan Virginia Judith Evelyn Hannah Andrea Megan Cheryl Jacqueline
Madison Teresa Abigail Sophia Martha Sara Gloria Janice Kathryn Ann Isabella Judy Charlotte Julia
Grace Amber Alice Jean Denise Frances Danielle Marilyn Natalie Beverly Diana Brittany Theresa Kayla
Alexis Doris Lori Tiffany
"""
POOL: tuple[str, ...] = (*_MALE.split(), *_FEMALE.split())
"""The 200 first names that label nodes: the 100 most frequent male, then female given names of the
US Social Security list, by rank. Names are drawn by position; replaying the generator reproduces
the names of all 36 public graphs, which cover 174 of the positions. No view contains a name."""


class GraphError(ConfigError):
    """Raised for a graph, or a file of graphs, that cannot be used as given."""


@dataclass(frozen=True)
class AgentGraph:
    """One undirected simple graph with a unique first name per node.

    Adjacency lists hold exactly the edges, in the order a matching agent is offered its neighbours.
    A graph need not be connected, because some evaluator vectors use graphs that are not.
    """

    id: str
    names: tuple[str, ...]
    adjacency: tuple[tuple[int, ...], ...]
    """Neighbours of each node, in the order in which its matching answers list them."""
    family: str = ""
    index: int = 0
    provenance: str = field(default="file", compare=False)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Every edge once, smaller node first, sorted."""
        return tuple((u, v) for u in range(self.n) for v in sorted(self.adjacency[u]) if u < v)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Degree of each node."""
        return tuple(len(neighbours) for neighbours in self.adjacency)

    @property
    def max_degree(self) -> int:
        """Largest degree (0 without edges)."""
        return max(self.degrees, default=0)

    @cached_property
    def diameter(self) -> int | None:
        """Longest shortest path, or None if the graph is not connected."""
        reaches = [_eccentricity(self.adjacency, v) for v in range(self.n)]
        return None if None in reaches else max(r for r in reaches if r is not None)


def from_edges(
    id: str,
    names: Sequence[str],
    edges: Iterable[tuple[int, int]],
    *,
    adjacency: Sequence[Sequence[int]] | None = None,
    family: str = "",
    index: int = 0,
    provenance: str = "file",
) -> AgentGraph:
    """Build a checked graph; adjacency order is edge order unless given.

    Raises:
        GraphError: for a loop, a repeated edge, an unknown node, a name that is repeated, not
            printable or an answer, or an adjacency that does not match the edges.
    """
    n = len(names)
    if not 1 <= n <= MAX_NODES:
        raise GraphError(f"graph {id!r} has {n} nodes; use 1 to {MAX_NODES}")
    if len(set(names)) != n:
        raise GraphError(f"graph {id!r} repeats a name; give every node its own")
    if "None" in names:  # the matching answer without a partner
        raise GraphError(f"graph {id!r} calls a node None, which is an answer; rename it")
    if not all(text.isprintable() for text in (id, *names)):  # they are shown on terminals, too
        raise GraphError(f"graph {id!r} has control characters in its id or a name; remove them")
    order: list[list[int]] = [[] for _ in range(n)]
    for u, v in edges:
        if not (0 <= u < n and 0 <= v < n):
            raise GraphError(f"graph {id!r}: edge [{u}, {v}] names no node; ids are 0 to {n - 1}")
        if u == v or v in order[u]:
            raise GraphError(f"graph {id!r}: edge [{u}, {v}] is a loop or repeated; remove it")
        order[u].append(v)
        order[v].append(u)
    listed = order if adjacency is None else adjacency
    if [sorted(row) for row in listed] != [sorted(row) for row in order]:
        raise GraphError(f"graph {id!r}: adjacency_order does not match edges; drop or fix it")
    rows = tuple(tuple(row) for row in listed)
    return AgentGraph(id, tuple(names), rows, family, index, provenance)


def _eccentricity(adjacency: Sequence[Sequence[int]], source: int) -> int | None:
    """Return the distance to the farthest node, or None if some node is out of reach."""
    distance = {source: 0}
    queue = deque([source])
    while queue:
        u = queue.popleft()
        for v in adjacency[u]:
            if v not in distance:
                distance[v] = distance[u] + 1
                queue.append(v)
    return max(distance.values()) if len(distance) == len(adjacency) else None


def edition(seed: int) -> int:
    """Return the edition of graphs that episodes with a seed use."""
    return RELEASED if seed < Split.EVALUATION.start else seed // _EDITION_SEEDS


def benchmark_graph(family: str, n: int, index: int, edition: int = RELEASED) -> AgentGraph:
    """Return graph `index` (0 to 2) of a family at any size from 4 to 100.

    Raises:
        GraphError: naming the legal families, sizes and indices.
    """
    if family not in FAMILIES:
        raise GraphError(f"graph family {family!r} is unknown; use one of {', '.join(FAMILIES)}")
    if not 4 <= n <= 100 or not 0 <= index < SAMPLES:
        raise GraphError(f"no graph {family}_{n}_{index}; use n 4 to 100 and index 0 to 2")
    sizes = next((known for known in (SMALL_SIZES, LARGE_SIZES) if n in known), (n,))
    return _draw_edition(sizes, edition)[family, n, index]


def benchmark_graphs(sizes: tuple[int, ...] = (8, 16)) -> list[AgentGraph]:
    """Return the graphs of the given sizes, family by family: 18 for the default."""
    return [benchmark_graph(f, n, i) for f in FAMILIES for n in sizes for i in range(SAMPLES)]


def generate(family: str, n: int, seed: int) -> AgentGraph:
    """Return one graph of the published generator, with index 0 and the first n pool names."""
    graph = _draw(family, n, seed)
    return _freeze(graph, family, 0, list(POOL[:n]), "official_generator")


@cache
def _draw_edition(sizes: tuple[int, ...], edition: int) -> dict[tuple[str, int, int], AgentGraph]:
    """Draw all graphs of an edition: one list of graph seeds and one name stream for all sizes.

    The stream is consumed by family, then size, then sample. For the older release, index 0 was
    compared with published runs.
    """
    older = sizes == SMALL_SIZES and edition == RELEASED
    stream = random.Random(_master_seed(edition))
    seeds = [stream.randint(1, 10000) for _ in range(SAMPLES)]
    drawn = {}
    for family in FAMILIES:
        for n in sizes:
            for sample in range(SAMPLES):
                graph = _draw(family, n, stream if older and family == "ba" else seeds[sample])
                names = stream.sample(POOL, n)
                index = _RELEASED_ORDER[family].index(sample) if older else sample
                source = _provenance(family, index, older, edition)
                frozen = _freeze(graph, family, index, names, source, edition)
                recorded = older and family == "dt" and index == 0
                drawn[family, n, index] = _as_released(frozen) if recorded else frozen
    return drawn


def _as_released(drawn: AgentGraph) -> AgentGraph:
    """Return a drawn Delaunay graph with the released edges in place of its own."""
    rows = [[int(digit, 16) for digit in word] for word in _RELEASED_DELAUNAY[drawn.n].split()]
    return replace(drawn, adjacency=tuple(tuple(row) for row in rows))


def _master_seed(edition: int) -> int:
    return MASTER_SEED if edition == RELEASED else derive(edition, "agentsnet evaluation graphs")


def _provenance(family: str, index: int, older: bool, edition: int) -> str:
    if edition != RELEASED:
        return "evaluation_edition"
    if not older:
        return "official_generator"
    if index == 0:
        return "released_verified"
    return "official_generator_substitute" if family == "dt" else "released_reconstructed"


def _draw(family: str, n: int, seed: int | random.Random) -> Graph[int]:
    """Draw one graph of a family (small world k=4 p=0.4; scale-free m=2; Delaunay)."""
    import networkx as nx

    if isinstance(seed, int) and family == "dt":
        return _delaunay(n, seed)
    graph: Graph[int] = (
        nx.connected_watts_strogatz_graph(n, 4, 0.4, seed=seed)
        if family == "ws"
        else nx.barabasi_albert_graph(n, 2, seed=seed)
    )
    return graph


def _delaunay(n: int, seed: int) -> Graph[int]:
    """Triangulate n uniform points of the unit square; one edge per triangle side."""
    import networkx as nx
    from numpy.random import RandomState
    from scipy.spatial import Delaunay

    graph: Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    # The release used numpy's legacy generator, so its graphs need it too.
    points = RandomState(seed).rand(n, 2)
    for triangle in Delaunay(points).simplices:
        a, b, c = (int(corner) for corner in triangle)
        graph.add_edges_from([(a, b), (b, c), (c, a)])
    return graph


def _freeze(
    graph: Graph[int],
    family: str,
    index: int,
    names: list[str],
    provenance: str,
    edition: int = RELEASED,
) -> AgentGraph:
    """Freeze a drawn graph; re-inserting its edges in order gives the release's neighbour order."""
    n = graph.number_of_nodes()
    name = f"{family}_{n}_{index}" + (f"_edition{edition}" if edition else "")
    edges = list(graph.edges())
    return from_edges(name, names, edges, family=family, index=index, provenance=provenance)
