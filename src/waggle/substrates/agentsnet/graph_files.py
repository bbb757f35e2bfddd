"""Graphs from files: JSON in two schemas, and the AgentsNet parquet (spec sections 8 and 11).

Accepted JSON: `{id, names, edges, adjacency_order?, …}` and the release's node-link form
`{graph: {nodes, links}, …}`. Files are untrusted: every size and type is checked before use, and
what is wrong is one `GraphError` line. Recorded measures (diameter, …) are kept beside the graph
for `waggle check graphs`; nothing here believes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from waggle.extras import install
from waggle.substrates.agentsnet.families import benchmark_graph
from waggle.substrates.agentsnet.graphs import (
    FAMILIES,
    MAX_NODES,
    PROVENANCES,
    AgentGraph,
    GraphError,
    from_edges,
)

MAX_BYTES = 64_000_000
"""Largest file that is read at all."""

_MAX_NAME = 64
_MAX_EDGES = 100_000


@dataclass(frozen=True)
class GraphFile:
    """One graph and the measures its file claims for it."""

    graph: AgentGraph
    recorded: Mapping[str, object]
    """Claimed `n`, `num_edges`, `diameter`, `max_degree`, where the file has them."""


def read_json(path: Path) -> Any:
    """Return the JSON value of a bounded file.

    Raises:
        GraphError: for a missing, oversized or malformed file.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise GraphError(f"{path} is larger than {MAX_BYTES // 10**6} MB; split it")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except (ValueError, RecursionError) as error:
        raise GraphError(f"{path} is not JSON ({error}); export it again") from None


def load_graph(path: Path) -> GraphFile:
    """Read one graph file; the file name stands in for a missing id."""
    return parse_graph(read_json(path), path.stem)


def load_folder(folder: Path) -> dict[str, AgentGraph]:
    """Read every graph JSON of a folder, by id; `MANIFEST.json` is an index, not a graph.

    Raises:
        GraphError: where the folder has none, or one of them is malformed.
    """
    graphs = [load_graph(path).graph for path in graph_paths(folder)]
    return {graph.id: graph for graph in graphs}


def graph_paths(folder: Path) -> list[Path]:
    """Return the graph files of a folder in name order."""
    paths = sorted(p for p in folder.glob("*.json") if p.name != "MANIFEST.json")
    if not paths:
        raise GraphError(f"no graph JSON in {folder}; point at a folder of such files")
    return paths


def find_graph(family: str, n: int, index: int, source: Path | None = None) -> AgentGraph:
    """Return one benchmark graph from a folder or parquet file, or from the generator without one.

    Raises:
        GraphError: where the source lacks it, naming what to do.
    """
    if source is None:
        return benchmark_graph(family, n, index)
    if source.is_file():
        graphs = _parquet_of(source, source.stat().st_mtime_ns)
        if found := graphs.get(f"{family}_{n}_{index}"):
            return found
        raise GraphError(f"{source} has no graph {family}_{n}_{index}; leave it out to generate")
    for stem in (f"{family}_{n}_{index}", f"graph_{family}_{n}_{index}"):
        if (path := source / f"{stem}.json").is_file():
            return load_graph(path).graph
    raise GraphError(
        f"{source} has no {family}_{n}_{index}.json; add it, or leave the folder out to generate it"
    )


@lru_cache(maxsize=4)
def _parquet_of(path: Path, changed: int) -> dict[str, AgentGraph]:
    """Read a dataset file once per version: a plan opens it for every episode."""
    return load_parquet(path)


def load_parquet(path: Path) -> dict[str, AgentGraph]:
    """Read the AgentsNet dataset file (columns graph_generator, num_nodes, index, graph).

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
        rows = parquet.read_table(path, columns=columns).to_pylist()
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise GraphError(f"{path} is not the AgentsNet parquet file ({reason})") from None
    graphs = (_from_row(row, path) for row in rows)
    return {graph.id: graph for graph in graphs}


def parse_graph(value: object, fallback_id: str, provenance: str = "file") -> GraphFile:
    """Return the checked graph of a decoded JSON value.

    Raises:
        GraphError: naming the field that is missing or wrong.
    """
    if not isinstance(value, dict):
        raise GraphError(f"graph {fallback_id!r} is not a JSON object")
    linked = value.get("graph", value)
    if isinstance(linked, dict) and "nodes" in linked:
        plain = {**value, **_from_node_link(linked, fallback_id)}
    else:
        plain = value
    return _from_plain(plain, fallback_id, provenance)


def _from_plain(value: Mapping[str, object], fallback_id: str, provenance: str) -> GraphFile:
    """Check and freeze the plain schema."""
    id = _text(value.get("id", fallback_id), fallback_id, "id")
    names = [_text(name, id, "names") for name in _rows(value, "names", id, MAX_NODES)]
    edges = [_pair(edge, id) for edge in _rows(value, "edges", id, _MAX_EDGES)]
    adjacency = None
    if value.get("adjacency_order") is not None:
        adjacency = [_integers(r, id) for r in _rows(value, "adjacency_order", id, MAX_NODES)]
    family, index = _place(value, id)
    said = value.get("provenance", provenance)
    graph = from_edges(
        id,
        names,
        edges,
        adjacency=adjacency,
        family=family,
        index=index,
        provenance=said if isinstance(said, str) and said in PROVENANCES else "file",
    )
    keys = ("n", "num_nodes", "num_edges", "diameter", "max_degree")
    return GraphFile(graph, {key: value[key] for key in keys if key in value})


def _from_node_link(value: Mapping[str, object], id: str) -> dict[str, object]:
    """Turn a node-link object into names and edges."""
    nodes = _rows(value, "nodes", id, MAX_NODES)
    names: dict[int, object] = {}
    for node in nodes:
        if not isinstance(node, dict) or type(node.get("id")) is not int:
            raise GraphError(f"graph {id!r}: a node without integer id; use 0 to n-1")
        names[node["id"]] = node.get("name", str(node["id"]))
    if sorted(names) != list(range(len(nodes))):
        raise GraphError(f"graph {id!r}: node ids must be 0 to n-1, each once")
    key = "links" if "links" in value else "edges"
    edges = []
    for link in _rows(value, key, id, _MAX_EDGES):
        if not isinstance(link, dict):
            raise GraphError(f"graph {id!r}: a link is not an object with source and target")
        edges.append([link.get("source"), link.get("target")])
    return {"names": [names[i] for i in range(len(nodes))], "edges": edges}


def _from_row(row: Mapping[str, object], path: Path) -> AgentGraph:
    """Return the graph of one dataset row, under its family, size and index."""
    family, n, index = row["graph_generator"], row["num_nodes"], row["index"]
    id = f"{family}_{n}_{index}"
    value = row["graph"]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise GraphError(f"{path}: row {id} holds no JSON ({error})") from None
    if not isinstance(value, dict):
        raise GraphError(f"{path}: row {id} holds no graph object")
    row_id = {"id": id, "family": family, "slot": index}
    return parse_graph({**value, **row_id}, id, "dataset").graph


def _place(value: Mapping[str, object], id: str) -> tuple[str, int]:
    """Return family and index, from their fields or from an id such as `graph_ws_8_0`."""
    parts = id.removeprefix("graph_").split("_")
    family = value.get("family", parts[0])
    index = value.get("slot", parts[-1] if len(parts) == 3 else 0)
    number = int(str(index)) if re.fullmatch(r"\d{1,9}", str(index)) else 0
    return (family if isinstance(family, str) and family in FAMILIES else ""), number


def _rows(value: Mapping[str, object], key: str, id: str, most: int) -> list[Any]:
    """Return a list field of bounded length."""
    rows = value.get(key)
    if not isinstance(rows, list) or len(rows) > most:
        raise GraphError(f"graph {id!r}: {key!r} must be a list of at most {most}")
    return rows


def _text(value: object, id: str, key: str) -> str:
    """Return a short, non-empty string."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME:
        raise GraphError(f"graph {id!r}: {key!r} needs strings of 1 to {_MAX_NAME} characters")
    return value


def _integers(value: object, id: str) -> list[int]:
    """Return a list of plain integers."""
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise GraphError(f"graph {id!r}: edges and adjacency_order hold lists of node ids")
    return value


def _pair(value: object, id: str) -> tuple[int, int]:
    """Return one edge."""
    ends = _integers(value, id)
    if len(ends) != 2:
        raise GraphError(f"graph {id!r}: an edge has two ends, not {len(ends)}")
    return ends[0], ends[1]
