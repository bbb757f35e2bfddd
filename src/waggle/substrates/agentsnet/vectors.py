"""Checks of evaluators, parsers and graph files against recorded ones (spec section 11).

Runs on any folder of the same schema. A malformed file or case, or one whose graph is not to be
had, is a failed case with a reason and never an exception: what was not checked has not passed.
Equality is exact, floats included.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from waggle.substrates.agentsnet.graph_files import (
    graph_paths,
    load_graph,
    parse_graph,
    read_json,
)
from waggle.substrates.agentsnet.graphs import AgentGraph, GraphError
from waggle.substrates.agentsnet.parsing import parse_answer, parse_messages
from waggle.substrates.agentsnet.tasks import TASKS, soft_score

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class VectorReport:
    """Counts of one check and the first thing that was wrong."""

    passed: int
    failed: int
    skipped: int
    first_difference: str | None

    @property
    def ok(self) -> bool:
        """Whether something ran and nothing failed."""
        return self.failed == 0 and self.passed > 0


@dataclass(frozen=True)
class Finding:
    """Outcome of one case."""

    status: Status
    reason: str = ""


def check_vectors(folder: Path, graphs: Path | None = None) -> VectorReport:
    """Run evaluator_*.json and parsing.json of a folder.

    Args:
        folder: where the vector files are.
        graphs: where graph ids resolve; the folder `graphs` beside `folder` by default.
    """
    paths = sorted(folder.glob("evaluator_*.json"))
    if (folder / "parsing.json").exists():
        paths.append(folder / "parsing.json")
    if not paths:
        reason = f"no evaluator_*.json or parsing.json in {folder}; point at a folder of vectors"
        return VectorReport(0, 1, 0, reason)
    library = _Library(graphs if graphs is not None else folder.resolve().parent / "graphs")
    return _report(finding for path in paths for finding in _check_file(path, library))


def check_graphs(folder: Path) -> VectorReport:
    """Check every graph file of a folder: simple, connected, measures and names as recorded.

    Where the folder has a `MANIFEST.json`, its measures of a graph must hold as well.
    """
    try:
        paths = graph_paths(folder)
        manifest = _manifest(folder / "MANIFEST.json")
    except GraphError as error:
        return VectorReport(0, 1, 0, str(error))
    return _report(_check_graph_file(path, manifest) for path in paths)


def _manifest(path: Path) -> dict[str, dict[str, object]]:
    """Return the measures that a folder's index records, by graph id."""
    if not path.exists():
        return {}
    rows = read_json(path)
    if not isinstance(rows, list) or any(not isinstance(row, dict) for row in rows):
        raise GraphError(f"{path} is not a list of graph measures; rebuild or remove it")
    names = {"n": "n", "edges": "num_edges", "diameter": "diameter", "max_degree": "max_degree"}
    return {
        str(row.get("id")): {names[key]: row[key] for key in names.keys() & row.keys()}
        for row in rows
    }


def _report(findings: Iterator[Finding]) -> VectorReport:
    """Count findings and keep the first failure's reason (else the first skip's)."""
    found = list(findings)
    counts = Counter(finding.status for finding in found)
    reasons = [f.reason for s in ("failed", "skipped") for f in found if f.status == s]
    first = reasons[0] if reasons else None
    return VectorReport(counts["passed"], counts["failed"], counts["skipped"], first)


class _Library:
    """Graphs by id, read once each; absent ones are None."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, AgentGraph | None] = {}

    def get(self, id: str) -> AgentGraph | None:
        """Return the graph of an id (a plain file stem, so that no path can leave the folder)."""
        if id not in self._read:
            path = self.folder / f"{id}.json"
            usable = re.fullmatch(r"[\w.-]{1,64}", id) is not None and path.is_file()
            self._read[id] = load_graph(path).graph if usable else None
        return self._read[id]


def _check_file(path: Path, library: _Library) -> Iterator[Finding]:
    """Yield one finding per case of a vector file, or one failure for an unreadable file."""
    try:
        value = read_json(path)
        if path.name == "parsing.json":
            cases = _fields(value, parse_messages=list, parse_answer=list)
        else:
            cases = _fields(value, cases=list)
    except (GraphError, _MalformedError) as error:
        yield Finding("failed", f"{path.name}: {error}")
        return
    for kind, rows in cases.items():
        for number, case in enumerate(rows):
            yield _check_case(f"{path.name} {kind}[{number}]", kind, case, library)


def _check_case(label: str, kind: str, case: object, library: _Library) -> Finding:
    """Run one case; whatever is malformed about it is a failure with a reason."""
    try:
        if kind == "parse_messages":
            return _check_messages(label, case)
        if kind == "parse_answer":
            return _check_answer(label, case)
        return _check_score(label, case, library)
    except (GraphError, _MalformedError) as error:
        return Finding("failed", f"{label}: {error}")


def _check_messages(label: str, case: object) -> Finding:
    """Compare the message parser with one case."""
    text = _fields(case, text=str)["text"]
    return _compare(label, parse_messages(text), _expected(case))


def _check_answer(label: str, case: object) -> Finding:
    """Compare the answer parser with one case."""
    fields = _fields(case, text=str, valid_answers=list)
    legal = fields["valid_answers"]
    if any(not isinstance(answer, str) for answer in legal):
        raise _MalformedError("valid_answers must hold strings")
    return _compare(label, parse_answer(fields["text"], legal), _expected(case))


def _check_score(label: str, case: object, library: _Library) -> Finding:
    """Compare the evaluator with one case: soft, strict, and the exception where it raises."""
    fields = _fields(case, task=str, answers=list, official=dict)
    assert isinstance(case, dict)
    label = f"{label} {case.get('case', '')}".strip()
    graph = _graph_of(case, library)
    if graph is None:
        missing = f"graph {case.get('graph_id')!r} is not in {library.folder}"
        raise _MalformedError(f"{missing}; say where the graphs are (--graphs DIR)")
    _require_case(fields, case, graph)
    official = fields["official"]
    expected = {key: official.get(key) for key in ("soft", "strict", "error")}
    try:
        soft = soft_score(fields["task"], graph, fields["answers"], case.get("num_groups"))
        ours: dict[str, object] = {"soft": soft, "strict": soft == 1.0, "error": None}
    except ZeroDivisionError:
        ours = {"soft": None, "strict": None, "error": "ZeroDivisionError"}
    return _compare(label, ours, expected)


def _require_case(fields: Mapping[str, Any], case: Mapping[str, Any], graph: AgentGraph) -> None:
    """Refuse a case the evaluator is not defined for."""
    if fields["task"] not in TASKS:
        raise _MalformedError(f"task {fields['task']!r} is not one of {', '.join(TASKS)}")
    answers = fields["answers"]
    if len(answers) != graph.n or any(not isinstance(a, str | None) for a in answers):
        raise _MalformedError(f"answers must be {graph.n} strings or nulls, one per node")
    groups = case.get("num_groups")
    if groups is not None and (type(groups) is not int or not 0 <= groups <= 10_000):
        raise _MalformedError("num_groups must be a small integer")


def _graph_of(case: Mapping[str, Any], library: _Library) -> AgentGraph | None:
    """Return the inline graph of a case, or the one its id names."""
    id = case.get("graph_id")
    if case.get("graph") is not None:
        return parse_graph(case["graph"], id if isinstance(id, str) and id else "inline").graph
    if not isinstance(id, str):
        raise _MalformedError("graph_id is missing; name a graph or give one inline")
    return library.get(id)


def _check_graph_file(path: Path, manifest: Mapping[str, Mapping[str, object]]) -> Finding:
    """Check one graph file against what it records."""
    try:
        file = load_graph(path)
    except GraphError as error:
        return Finding("failed", f"{path.name}: {error}")
    wrong = _wrong_measures(file.graph, file.recorded)
    wrong += _wrong_measures(file.graph, manifest.get(file.graph.id, {}))
    return Finding("failed", f"{path.name}: {wrong[0]}") if wrong else Finding("passed")


def _wrong_measures(graph: AgentGraph, recorded: Mapping[str, object]) -> list[str]:
    """Return every recorded measure that the graph itself contradicts."""
    ours: dict[str, object] = {
        "n": graph.n,
        "num_nodes": graph.n,
        "num_edges": len(graph.edges),
        "diameter": graph.diameter,
        "max_degree": graph.max_degree,
    }
    wrong = [] if graph.diameter is not None else ["the graph is not connected"]
    wrong += [
        f"records {key} {said!r}, but the graph has {ours[key]!r}"
        for key, said in recorded.items()
        if said != ours[key]
    ]
    return wrong


class _MalformedError(Exception):
    """A vector case that does not follow the schema."""


def _fields(value: object, **types: type) -> dict[str, Any]:
    """Return the named fields of a JSON object, each of its type."""
    if not isinstance(value, dict):
        raise _MalformedError("not a JSON object")
    for key, kind in types.items():
        if not isinstance(value.get(key), kind):
            raise _MalformedError(f"{key!r} is missing or no {kind.__name__}")
    return {key: value[key] for key in types}


def _expected(case: object) -> object:
    """Return the recorded parse; a missing field is malformed, null is a result."""
    if not isinstance(case, dict) or "parsed" not in case:
        raise _MalformedError("'parsed' is missing")
    return case["parsed"]


def _compare(label: str, ours: object, expected: object) -> Finding:
    """Return passed for equality, else a failure that shows both values."""
    if ours == expected:
        return Finding("passed")
    return Finding("failed", f"{label}: got {ours!r:.200}, recorded {expected!r:.200}")
