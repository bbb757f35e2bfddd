"""Graphs from files: JSON in two schemas, and the AgentsNet parquet (spec sections 8 and 11).

Accepted JSON: `{id, names, edges, adjacency_order?, …}` and the release's node-link form
`{graph: {nodes, links}, …}`. Files are untrusted: every size and type is checked before use, and
any defect is a one-line `GraphError`. Recorded measures (diameter, …) are kept with the graph for
`waggle check graphs`; nothing here relies on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from waggle.extras import install
from waggle.substrates.agentsnet.graphs import (
    FAMILIES,
    MAX_NODES,
    PROVENANCES,
    RELEASED,
    AgentGraph,
    GraphError,
    benchmark_graph,
    from_edges,
)

_MAX_BYTES = 256 * 1024 * 1024
_MAX_EDGES = 100_000
_Name = Annotated[str, Meta(min_length=1, max_length=64)]
_MEASURES = ("n", "num_nodes", "num_edges", "diameter", "max_degree")


class _Plain(msgspec.Struct):
    names: Annotated[list[_Name], Meta(max_length=MAX_NODES)]
    edges: Annotated[list[tuple[int, int]], Meta(max_length=_MAX_EDGES)]
    id: _Name
    adjacency_order: Annotated[list[list[int]], Meta(max_length=MAX_NODES)] | None = None


class _Node(msgspec.Struct):
    id: int
    name: _Name | None = None


class _Link(msgspec.Struct):
    source: int
    target: int


class _NodeLink(msgspec.Struct):
    nodes: Annotated[list[_Node], Meta(max_length=MAX_NODES)]
    links: Annotated[list[_Link], Meta(max_length=_MAX_EDGES)]


@dataclass(frozen=True)
class GraphFile:
    """One graph and the measures recorded in its file."""

    graph: AgentGraph
    recorded: Mapping[str, object]
    """Recorded `n`, `num_edges`, `diameter` and `max_degree`, if the file has them."""


def read_json(path: Path) -> Any:
    """Return the JSON value of a bounded file.

    Raises:
        GraphError: for a missing, oversized or malformed file.
    """
    try:
        _check_size(path, path.stat().st_size)
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise GraphError(f"{path} is not JSON ({error}); export it again") from None


def _check_size(path: Path, size: int) -> None:
    if size > _MAX_BYTES:
        raise GraphError(f"{path} is larger than {_MAX_BYTES} bytes; split it")


def load_graph(path: Path) -> GraphFile:
    """Read one graph file; the file name replaces a missing id."""
    return parse_graph(read_json(path), path.stem)


def graph_paths(folder: Path) -> list[Path]:
    """Return the graph files of a folder, sorted; `MANIFEST.json` is an index, not a graph."""
    paths = sorted(p for p in folder.glob("*.json") if p.name != "MANIFEST.json")
    if not paths:
        raise GraphError(f"no graph JSON in {folder}; point at a folder of such files")
    return paths


def find_graph(
    family: str, n: int, index: int, source: Path | None = None, edition: int = RELEASED
) -> AgentGraph:
    """Return one benchmark graph from a folder or parquet file, or from the generator without one.

    Only generated graphs have editions; graphs from files are used unchanged.

    Raises:
        GraphError: if the source lacks the graph; the message names a remedy.
    """
    name = f"{family}_{n}_{index}"
    if source is None:
        return benchmark_graph(family, n, index, edition)
    if source.is_file():
        graphs = _load_parquet(source, source.stat().st_mtime_ns)
        if found := graphs.get(name):
            return found
        raise GraphError(f"{source} has no graph {name}; leave it out to generate")
    for stem in (name, f"graph_{name}"):
        if (path := source / f"{stem}.json").is_file():
            return load_graph(path).graph
    raise GraphError(f"{source} has no {name}.json; add it, or leave the folder out to generate it")


@lru_cache(maxsize=4)
def _load_parquet(path: Path, changed: int) -> dict[str, AgentGraph]:
    """Read the AgentsNet dataset file (columns graph_generator, num_nodes, index, graph).

    The result is cached per file version, because a plan opens the file for every episode.

    Raises:
        GraphError: naming the extra to install, or the first bad row.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise GraphError(
            f"reading parquet needs pyarrow; install it with `{install('dataset')}`"
        ) from None
    columns = ["graph_generator", "num_nodes", "index", "graph"]
    try:
        _check_size(path, path.stat().st_size)
        file = parquet.ParquetFile(path)
        about = file.metadata
        groups = (about.row_group(index) for index in range(about.num_row_groups))
        _check_size(path, sum(group.total_byte_size for group in groups))
        rows = file.read(columns=columns).to_pylist()
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise GraphError(f"{path} is not the AgentsNet parquet file ({reason})") from None
    # The reader silently omits columns that the file lacks.
    missing = [name for name in columns if rows and name not in rows[0]]
    if missing:
        raise GraphError(
            f"{path} is not the AgentsNet parquet file (it lacks the column {missing[0]})"
        )
    graphs = (_from_row(row, path) for row in rows)
    return {graph.id: graph for graph in graphs}


def _from_row(row: Mapping[str, Any], path: Path) -> AgentGraph:
    """Return the graph of one dataset row, under its family, size and index."""
    family, index, value = row["graph_generator"], row["index"], row["graph"]
    id = f"{family}_{row['num_nodes']}_{index}"
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise GraphError(f"{path}: row {id} holds no JSON ({error})") from None
    if not isinstance(value, dict):
        raise GraphError(f"{path}: row {id} holds no graph object")
    return parse_graph({**value, "id": id, "family": family, "slot": index}, id, "dataset").graph


def parse_graph(value: object, fallback_id: str, provenance: str = "file") -> GraphFile:
    """Return the checked graph of a decoded JSON value.

    Raises:
        GraphError: naming the field that is missing or wrong.
    """
    if not isinstance(value, dict):
        raise GraphError(f"graph {fallback_id!r} is not a JSON object")
    given = {"id": fallback_id, **value}
    try:
        linked = value.get("graph", value)
        if isinstance(linked, dict) and "nodes" in linked:
            given |= _from_node_link(linked, fallback_id)
        plain = msgspec.convert(given, _Plain)
    except msgspec.ValidationError as error:
        raise GraphError(f"graph {fallback_id!r}: {error}; follow one of the schemas") from None
    family, index = _place(value, plain.id)
    said = value.get("provenance", provenance)
    graph = from_edges(
        plain.id,
        plain.names,
        plain.edges,
        adjacency=plain.adjacency_order,
        family=family,
        index=index,
        provenance=said if isinstance(said, str) and said in PROVENANCES else "file",
    )
    return GraphFile(graph, {key: value[key] for key in _MEASURES if key in value})


def _from_node_link(value: Mapping[str, Any], id: str) -> dict[str, Any]:
    """Convert a node-link object to names and edges; newer writers call the links edges."""
    links = value.get("links", value.get("edges"))
    graph = msgspec.convert({"nodes": value["nodes"], "links": links}, _NodeLink)
    names = {node.id: node.name or str(node.id) for node in graph.nodes}
    if sorted(names) != list(range(len(graph.nodes))):
        raise GraphError(f"graph {id!r}: node ids must be 0 to n-1, each once")
    edges = [(link.source, link.target) for link in graph.links]
    return {"names": [names[i] for i in range(len(names))], "edges": edges}


def _place(value: Mapping[str, object], id: str) -> tuple[str, int]:
    """Return family and index, from their fields or from an id such as `graph_ws_8_0`."""
    parts = id.removeprefix("graph_").split("_")
    family = value.get("family", parts[0])
    index = value.get("slot", parts[-1] if len(parts) == 3 else 0)
    number = int(str(index)) if re.fullmatch(r"\d{1,9}", str(index)) else 0
    return (family if isinstance(family, str) and family in FAMILIES else ""), number
