"""Check of evaluators, parsers and graph files against recorded ones (spec section 11).

    waggle check vectors agentsnet DIR;  waggle check graphs DIR

A malformed case, or one whose graph is missing, counts as failed, with a reason: an unchecked case
has not passed. Equality is exact, floats included. The parsers of a named agent's replies (spec
section 2) are here because only their vectors use them; they reproduce the official behaviour bug
for bug.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from conformance.report import Outcome, VectorReport, count, guarded, read_vector
from waggle.substrates.agentsnet.graph_files import (
    graph_paths,
    load_graph,
    parse_graph,
    read_json,
)
from waggle.substrates.agentsnet.graphs import POOL, AgentGraph, GraphError
from waggle.substrates.agentsnet.tasks import TASKS, soft_score

MAX_REPLY = 32_768
"""Longest reply, in characters, that is parsed."""
MARKER = "### Final Answer ###"
"""The text that must precede a final answer; case-sensitive."""
_NAMES = frozenset(POOL)
_DECODER = json.JSONDecoder()
_Library = Callable[[str], AgentGraph]


class _Official(msgspec.Struct):
    soft: float | None = None
    strict: bool | None = None
    error: str | None = None


class _ScoreCase(msgspec.Struct):
    task: str
    answers: list[str | None]
    official: _Official
    case: str = ""
    graph_id: str | None = None
    graph: Any = None
    num_groups: Annotated[int, Meta(ge=0, le=10_000)] | None = None


class _Scores(msgspec.Struct):
    cases: list[Raw]


class _MessageCase(msgspec.Struct):
    text: str
    parsed: dict[str, str] | None


class _AnswerCase(msgspec.Struct):
    text: str
    valid_answers: list[str]
    parsed: str | None


class _Parses(msgspec.Struct):
    parse_messages: list[Raw]
    parse_answer: list[Raw]


def check_vectors(folder: Path, graphs: Path | None = None) -> VectorReport:
    """Check evaluator_*.json and parsing.json of a folder.

    Args:
        folder: where the vector files are.
        graphs: the folder of the graph files; the folder `graphs` beside `folder` by default.
    """
    paths = sorted(folder.glob("evaluator_*.json"))
    if (folder / "parsing.json").exists():
        paths.append(folder / "parsing.json")
    if not paths:
        reason = f"no evaluator_*.json or parsing.json in {folder}; point at a folder of vectors"
        return VectorReport(0, 1, 0, reason)
    library = _library(graphs if graphs is not None else folder.resolve().parent / "graphs")
    return count(
        outcome for path in paths for outcome in guarded(path.name, _check_file(path, library))
    )


def check_graphs(folder: Path) -> VectorReport:
    """Check every graph file of a folder: simple, connected, measures and names as recorded.

    If the folder has a `MANIFEST.json`, the measures it records must hold as well.
    """
    try:
        paths = graph_paths(folder)
        manifest = _manifest(folder / "MANIFEST.json")
    except GraphError as error:
        return VectorReport(0, 1, 0, str(error))
    return count(
        outcome
        for path in paths
        for outcome in guarded(path.name, _check_graph_file(path, manifest))
    )


def _manifest(path: Path) -> dict[str, dict[str, object]]:
    """Return the measures recorded in a folder's manifest, by graph id."""
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


def _check_graph_file(
    path: Path, manifest: Mapping[str, Mapping[str, object]]
) -> Iterator[Outcome]:
    file = load_graph(path)
    graph = file.graph
    ours: dict[str, object] = {
        "n": graph.n,
        "num_nodes": graph.n,
        "num_edges": len(graph.edges),
        "diameter": graph.diameter,
        "max_degree": graph.max_degree,
    }
    wrong = [] if graph.diameter is not None else ["the graph is not connected"]
    for recorded in (file.recorded, manifest.get(graph.id, {})):
        wrong += [
            f"records {key} {said!r}, but the graph has {ours[key]!r}"
            for key, said in recorded.items()
            if said != ours[key]
        ]
    yield Outcome(path.name, wrong[0] if wrong else None)


def _library(folder: Path) -> _Library:
    """Return a lookup of graphs by id, each read once."""

    @cache
    def find(id: str) -> AgentGraph:
        # An id must be a plain file stem, so that no path can leave the folder.
        path = folder / f"{id}.json"
        if re.fullmatch(r"[\w.-]{1,64}", id) is None or not path.is_file():
            missing = f"graph {id!r} is not in {folder}"
            raise GraphError(f"{missing}; say where the graphs are (--graphs DIR)")
        return load_graph(path).graph

    return find


def _check_file(path: Path, library: _Library) -> Iterator[Outcome]:
    """Yield one outcome per case of a vector file."""
    if path.name == "parsing.json":
        parses = read_vector(path, _Parses)
        groups: dict[str, list[Raw]] = msgspec.structs.asdict(parses)
    else:
        groups = {"cases": read_vector(path, _Scores).cases}
    for kind, rows in groups.items():
        for number, raw in enumerate(rows):
            label = f"{path.name} {kind}[{number}]"
            yield from guarded(label, _check_case(label, kind, raw, library))


def _check_case(label: str, kind: str, raw: Raw, library: _Library) -> Iterator[Outcome]:
    if kind == "parse_messages":
        message = msgspec.json.decode(raw, type=_MessageCase)
        yield _compare(label, parse_messages(message.text), message.parsed)
    elif kind == "parse_answer":
        answer = msgspec.json.decode(raw, type=_AnswerCase)
        yield _compare(label, parse_answer(answer.text, answer.valid_answers), answer.parsed)
    else:
        case = msgspec.json.decode(raw, type=_ScoreCase)
        yield _compare(f"{label} {case.case}".strip(), _scored(case, library), case.official)


def _scored(case: _ScoreCase, library: _Library) -> _Official:
    """Return our evaluator's soft and strict scores, or the name of the exception it raises."""
    if case.graph is not None:
        graph = parse_graph(case.graph, case.graph_id or "inline").graph
    elif case.graph_id is None:
        raise GraphError("graph_id is missing; name a graph or give one inline")
    else:
        graph = library(case.graph_id)
    if case.task not in TASKS:
        raise GraphError(f"task {case.task!r} is not one of {', '.join(TASKS)}")
    if len(case.answers) != graph.n:
        raise GraphError(f"answers must be {graph.n} strings or nulls, one per node")
    try:
        soft = soft_score(case.task, graph, case.answers, case.num_groups)
    except ZeroDivisionError:
        return _Official(error="ZeroDivisionError")
    return _Official(soft, soft == 1.0)


def _compare(label: str, ours: object, recorded: object) -> Outcome:
    if ours == recorded:
        return Outcome(label)
    return Outcome(label, f"got {ours!r:.200}, recorded {recorded!r:.200}")


def parse_messages(text: str) -> dict[str, str] | None:
    """Return {neighbour name: message}, {} for no messages, None if the reply is unreadable.

    An object counts only if it ends at the reply's last brace.
    """
    if len(text) > MAX_REPLY:
        return None
    text = text.replace("\\n", "\n")
    last = text.rfind("}")
    start = text.find("{")
    while 0 <= start < last:
        messages = _object_at(text, start, last + 1)
        if messages is not None:
            return messages
        start = text.find("{", start + 1)
    return None


def _object_at(text: str, start: int, end: int) -> dict[str, str] | None:
    """Return the object in text[start:end] if its keys are pool names and its values strings."""
    try:
        value, stop = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if stop != end or not isinstance(value, dict):
        return None
    if all(key in _NAMES and isinstance(item, str) for key, item in value.items()):
        return value
    return None


def parse_answer(text: str, legal: Sequence[str]) -> str | None:
    """Return the first legal answer, in list order, that follows the marker in a reply, or None."""
    if not legal or len(text) > MAX_REPLY:
        return None
    options = "|".join(re.escape(answer) for answer in legal)
    found = re.search(rf"{re.escape(MARKER)}\s*({options})", text)
    return found.group(1) if found else None
