"""Graphs: the generator reproduces the release, files are checked, measures are right."""

import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import networkx as nx
import pytest

from tests.substrates.golden import ALL, recorded_graphs
from waggle.core.protocols import Case
from waggle.substrates.agentsnet import graph_files
from waggle.substrates.agentsnet.adapter import AgentsNet
from waggle.substrates.agentsnet.graph_files import find_graph, parse_graph
from waggle.substrates.agentsnet.graphs import (
    FAMILIES,
    POOL,
    AgentGraph,
    GraphError,
    benchmark_graph,
    benchmark_graphs,
    edition,
    from_edges,
    generate,
)


def test_every_public_graph_is_reproduced() -> None:
    recorded = recorded_graphs()
    assert len(recorded) == (36 if ALL else 20)
    for graph in recorded.values():
        ours = benchmark_graph(graph.family, graph.n, graph.index)
        assert (ours, ours.provenance) == (graph, graph.provenance)


def test_of_the_public_graphs_six_are_verified_eight_reconstructed_four_substitutes() -> None:
    found = Counter(graph.provenance for graph in benchmark_graphs())
    assert found == {
        "released_verified": 6,
        "released_reconstructed": 8,
        "official_generator_substitute": 4,
    }


@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_generated_delaunay_graph_is_not_the_released_one(n: int) -> None:
    """The planted bug: what the published generator draws in place of the released graph."""
    graph = benchmark_graph("dt", n, 0)
    drawn = [generate("dt", n, seed) for seed in (1825, 410, 4507)]
    assert all(other.edges != graph.edges for other in drawn)


def test_evaluation_editions_hold_no_released_graph() -> None:
    graphs = [benchmark_graph("dt", n, 0, edition(45_000)) for n in (4, 8, 16)]
    assert {graph.provenance for graph in graphs} == {"evaluation_edition"}


def test_pool_has_two_hundred_names_and_known_strangers_are_not_in_it() -> None:
    assert len(set(POOL)) == len(POOL) == 200
    assert {"Alan", "Mary", "Paul", "Joe", "Linda", "Sean"} <= set(POOL)
    assert not {"Zelda", "Bob", "alan", "joe"} & set(POOL)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [4, 5, 13, 50, 100])
def test_any_size_is_connected_and_measured_as_networkx_does(family: str, n: int) -> None:
    graph = benchmark_graph(family, n, 1)
    native = nx.Graph(list(graph.edges))
    assert native.number_of_nodes() == n == graph.n
    assert graph.diameter == nx.diameter(native)
    assert graph.max_degree == max(dict(native.degree()).values())
    assert len(set(graph.names)) == n


def test_family_edge_counts() -> None:
    assert len(generate("ws", 30, 7).edges) == 60
    assert len(generate("ba", 30, 7).edges) == 56
    assert len(benchmark_graph("ws", 4, 0).edges) == 6


def test_benchmark_is_three_families_two_sizes_three_graphs() -> None:
    graphs = benchmark_graphs()
    assert len(graphs) == len({g.id for g in graphs}) == 18


@pytest.mark.parametrize(
    ("family", "n", "index"), [("er", 8, 0), ("ws", 3, 0), ("ws", 101, 0), ("ws", 8, 3)]
)
def test_unknown_graphs_are_refused_with_the_fix(family: str, n: int, index: int) -> None:
    with pytest.raises(GraphError, match="use"):
        benchmark_graph(family, n, index)


def test_disconnected_graph_has_no_diameter() -> None:
    assert from_edges("x", ["a", "b", "c"], [(0, 1)]).diameter is None


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"names": ["a", "a"], "edges": []},
        {"names": ["a", "b"], "edges": [[0, 0]]},
        {"names": ["a", "b"], "edges": [[0, 1], [1, 0]]},
        {"names": ["a", "b"], "edges": [[0, 2]]},
        {"names": ["a", "b"], "edges": [[0, 1, 1]]},
        {"names": ["a", "b"], "edges": [[0, True]]},
        {"names": ["a", "b"], "edges": [0]},
        {"names": ["a", 3], "edges": []},
        {"names": ["a", "b"], "edges": [[0, 1]], "adjacency_order": [[], []]},
        {"graph": {"nodes": [{"id": 0}, {"id": 2}], "links": []}},
        {"graph": {"nodes": [{"id": 0}], "links": ["x"]}},
        {"names": [], "edges": []},
        {"names": ["a" * 65], "edges": []},
        {"names": ["Ann", "None"], "edges": [[0, 1]]},
        {"names": ["Ann", "\x1b[2J"], "edges": [[0, 1]]},
        {"names": ["Ann", "Joe"], "edges": [[0, 1]], "id": "\x1b[2J"},
    ],
)
def test_malformed_graphs_are_one_clear_error(value: Any) -> None:
    with pytest.raises(GraphError):
        parse_graph(value, "bad")


def test_node_link_form_reads_like_the_plain_one() -> None:
    nodes = [{"id": i, "name": name} for i, name in enumerate(["Ann", "Joe", "Roy"])]
    links = [{"source": 0, "target": 2}, {"source": 1, "target": 2}]
    read = parse_graph({"graph": {"nodes": nodes, "links": links}, "diameter": 2}, "graph_ws_3_1")
    assert read.graph.names == ("Ann", "Joe", "Roy")
    assert read.graph.adjacency == ((2,), (2,), (0, 1))
    assert (read.graph.family, read.graph.index) == ("ws", 1)
    assert read.recorded == {"diameter": 2}


def test_find_graph_prefers_the_folder_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "ws_3_0.json").write_text(json.dumps({"names": ["a", "b"], "edges": [[0, 1]]}))
    assert find_graph("ws", 3, 0, tmp_path).names == ("a", "b")
    assert find_graph("ba", 8, 0).provenance == "released_verified"
    with pytest.raises(GraphError, match="leave the folder out"):
        find_graph("ws", 8, 0, tmp_path)


def test_parquet_dataset_or_the_extra_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.parquet"
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        path.write_bytes(b"PAR1")
        with pytest.raises(GraphError, match=r"waggle-swarm\[dataset\]"):
            find_graph("ws", 8, 0, path)
        return
    path.write_bytes(b"PAR1")
    with pytest.raises(GraphError, match="not the AgentsNet parquet"):
        find_graph("ws", 8, 0, path)
    nodes = [{"id": 0, "name": "Ann"}, {"id": 1, "name": "Joe"}]
    graph = {"nodes": nodes, "links": [{"source": 0, "target": 1}]}
    rows = [{"graph_generator": "ws", "num_nodes": 2, "index": 0, "graph": json.dumps(graph)}]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    found = find_graph("ws", 2, 0, path)
    assert (found.names, found.provenance) == (("Ann", "Joe"), "dataset")
    many = graph | {"nodes": nodes + [{"id": i, "name": "Ann"} for i in range(2, 10_000)]}
    parquet.write_table(pa.Table.from_pylist([rows[0] | {"graph": json.dumps(many)}]), path)
    monkeypatch.setattr(graph_files, "_MAX_BYTES", 2 * path.stat().st_size)
    with pytest.raises(GraphError, match="is larger than"):  # though not while it is packed
        find_graph("ws", 2, 0, path)


@pytest.mark.parametrize("error", [NotImplementedError, TypeError, KeyError, OSError, ValueError])
def test_whatever_the_reader_says_of_a_bad_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def open_file(path: Path) -> None:
        raise error("a codec that is not built in\nStack: ...")

    reader = ModuleType("pyarrow")
    reader.parquet = SimpleNamespace(ParquetFile=open_file)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", reader)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(GraphError, match="not the AgentsNet parquet") as caught:
        find_graph("ws", 8, 0, tmp_path / "train.parquet")
    assert "\n" not in str(caught.value)


def test_a_dataset_without_one_of_its_columns_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_file(path: Path) -> object:
        """Leave out what the file lacks without a word, as pyarrow does."""
        table = SimpleNamespace(to_pylist=lambda: [{"num_nodes": 8, "index": 0}])
        return SimpleNamespace(
            metadata=SimpleNamespace(num_row_groups=0), read=lambda columns: table
        )

    reader = ModuleType("pyarrow")
    reader.parquet = SimpleNamespace(ParquetFile=open_file)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", reader)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(GraphError, match=r"not the AgentsNet parquet file .*graph_generator"):
        find_graph("ws", 8, 0, tmp_path / "train.parquet")


def shared_graphs(editions: tuple[int, int], sizes: tuple[int, ...] = (8, 16, 30)) -> list[str]:
    """Return the graphs of the first edition that some graph of the second equals but for names."""
    first, second = (
        [benchmark_graph(f, n, i, edition) for f in FAMILIES for n in sizes for i in range(3)]
        for edition in editions
    )
    pairs = [(a, b) for a in first for b in second if a.n == b.n]
    return [a.id for a, b in pairs if nx.is_isomorphic(as_networkx(a), as_networkx(b))]


def as_networkx(graph: AgentGraph) -> "nx.Graph[int]":
    return nx.Graph(list(graph.edges))


def test_evaluation_is_played_on_other_graphs_than_development() -> None:
    assert shared_graphs((edition(10_000), edition(45_000))) == []
    assert shared_graphs((edition(45_000), edition(55_000))) == []


def test_that_check_catches_editions_that_share_their_graphs() -> None:
    assert len(shared_graphs((edition(10_000), edition(24_999)))) >= 27


@pytest.mark.parametrize(
    ("seed", "provenance"),
    [(0, "released_verified"), (24_000, "released_verified"), (45_000, "evaluation_edition")],
)
def test_the_seed_of_a_case_chooses_the_edition(seed: int, provenance: str) -> None:
    made = AgentsNet().open(Case("agentsnet", "coloring", 8, seed))
    assert made.graph.provenance == provenance
