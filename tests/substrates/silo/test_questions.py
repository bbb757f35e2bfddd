"""What a private worker is asked determines its answer, at partial and at complete knowledge."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from heapq import heapreplace
from typing import Any

import networkx as nx
import pytest

from waggle import plugins
from waggle.core.errors import ContractError
from waggle.core.protocols import Case
from waggle.core.schema import Contract
from waggle.core.worker import Work
from waggle.substrates.silo import task as tasks
from waggle.substrates.silo.cases import TASKS, independent_case
from waggle.substrates.silo.proposals import PIECES, WHOLE, Proposer
from waggle.testing.episodes import play
from waggle.workers.hire import hire

N = 6
CONTRACT = Contract("silo/test", "", ("GATHER", "WAIT"))
PUBLIC = {
    "II-18": {"items"}, "III-22": {"median_pos"}, "III-23": {"vertices"}, "III-24": {"vertices"},
    "III-25": {"centroids"}, "III-28": {"vertices"},
    "III-29": {"total_tasks", "total_duration", "machines"}, "III-30": {"dim"},
}  # fmt: skip
"""The parameters that section 2 of the specification calls public, and the machines of III-29."""


def work(task: str, known: int = 0b101) -> Work:
    return Proposer(independent_case(task, N, 10_000)).work(known, 0, CONTRACT)


def asked(question: Work) -> tuple[Mapping[str, Any], list[Any]]:
    """Return the state of a question and all pieces in it, read from its text alone."""
    text = json.loads(question.question())
    pieces = sorted([text["state"]["piece"], *text["delivered"]["pieces"]])
    return text["state"], [json.loads(content) for _, content in pieces]


def components(state: Mapping[str, Any], pieces: list[Any]) -> Any:
    return nx.number_connected_components(graph(state, pieces))


def graph(state: Mapping[str, Any], pieces: list[Any]) -> nx.Graph[int]:
    found: nx.Graph[int] = nx.Graph()
    found.add_nodes_from(range(state["vertices"]))
    found.add_edges_from(edge for piece in pieces for edge in piece)
    return found


def distances(state: Mapping[str, Any], pieces: list[Any]) -> Any:
    reached = nx.single_source_shortest_path_length(graph(state, pieces), 0)
    return {str(node): reached.get(node, -1) for node in range(state["vertices"])}


def ranks(state: Mapping[str, Any], pieces: list[Any]) -> Any:
    count, edges = state["vertices"], [edge for piece in pieces for edge in piece]
    rank = [0.15 / count] * count
    for u, v in edges:
        rank[v] += 0.85 / count / sum(u == other for other, _ in edges)
    return {str(node): round(value, 6) for node, value in enumerate(rank)}


def balance(state: Mapping[str, Any], pieces: list[Any]) -> Any:
    loads = [0] * state["machines"]
    for duration in sorted((job["duration"] for piece in pieces for job in piece), reverse=True):
        heapreplace(loads, loads[0] + duration)
    mean = sum(loads) / len(loads)
    spread = sum((load - mean) ** 2 for load in loads) / len(loads)
    return {"variance": round(spread, 2), "max_load": max(loads), "min_load": min(loads)}


EXACT: Mapping[str, Callable[[Mapping[str, Any], list[Any]], Any]] = {
    "III-23": components, "III-24": distances, "III-28": ranks, "III-29": balance,
}  # fmt: skip


@pytest.mark.parametrize("known", [0b1, 0b101, (1 << N) - 1])
@pytest.mark.parametrize("task", EXACT)
def test_a_worker_that_reads_its_question_is_exact(task: str, known: int) -> None:
    question = work(task, known)
    assert question.native is not None
    assert EXACT[task](*asked(question)) == question.native()


@pytest.mark.parametrize("task", EXACT)
def test_a_question_without_the_public_parameters_has_no_determined_answer(task: str) -> None:
    made = independent_case(task, N, 10_000)
    silent = replace(made, task=replace(made.task, stated=lambda setting: {}))
    with pytest.raises(KeyError):
        EXACT[task](*asked(Proposer(silent).work(1, 0, CONTRACT)))


def test_workers_are_told_what_the_specification_calls_public() -> None:
    told = {task: set(work(task).state) - {"piece"} for task in TASKS}
    assert {task: names for task, names in told.items() if names} == PUBLIC
    goals = {task: work(task).goal for task in TASKS}
    assert all(goal.endswith(WHOLE if task in PUBLIC else PIECES) for task, goal in goals.items())


def test_the_benchmark_s_own_name_of_a_count_of_nodes_is_refused() -> None:
    made = independent_case("III-23", N, 10_000)
    question = Proposer(made).work(1, 0, CONTRACT)
    with pytest.raises(ContractError, match="population-size"):
        Work(question.task, "", {**question.state, **tasks.public(made.setting)}).question()


@pytest.mark.parametrize("task", ["III-23", "III-29"])
def test_no_view_of_a_law_holds_a_public_parameter(task: str) -> None:
    silo, law = plugins.get_substrate("silo"), plugins.get_law("expert")
    case = Case("silo", task, 8, 10_000)
    alone, hired = play(silo, law, case), play(silo, law, case, staff=hire("native"))
    views = [[update.view for update in entry.updates] for entry in alone.rounds]
    assert views == [[update.view for update in entry.updates] for entry in hired.rounds]
    texts = [bytes(view) for row in views for view in row]
    assert not any(name.encode() in text for name in PUBLIC[task] for text in texts)
