"""The contract of one local decision, read from the appendix of the paper and from nothing else.

"Canonical Local Interface": the view has six components and no forbidden key; the decision has the
printed schema; trace components have five bins (0 to 4), TTL is 1 to 8, confidence 0 to 4. "Runtime
boundary": fresh writes match private evidence, relays reference incident evidence, amplify nothing
and lose at least one step of TTL; a challenge has positive conflict that somebody vouches for; an
abstaining wait neither writes nor commits. Works on JSON, so it shares no code with the runtime.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VIEW = {"contract", "private", "worker_proposal", "traces", "commitment", "budget"}
RECORD = {"task_action", "response", "deposits", "commit"}
TRACE = {"channel", "claim", "novelty", "support", "conflict", "ttl"}
BINS = ("novelty", "support", "conflict")
PLAIN = ("agent_id", "node_id", "id", "role", "roster", "agents", "population", "num_agents",
         "global_state", "adjacency", "transcript", "non_neighbors")  # fmt: skip
"""Keys in plain spelling; that odd spellings are found is tested elsewhere."""


def whole(value: Any, low: int, high: int) -> bool:
    """Whether a value is a whole number in a range, and neither a boolean nor a float."""
    return type(value) is int and low <= value <= high


def view_breaches(view: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a view."""
    if set(view) != VIEW:
        yield "the view has other components"
    waiting: list[Any] = [view]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if set(PLAIN) & set(value):
                yield "the view has a forbidden key"
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    for trace in view["traces"]:
        yield from _bounds(trace)


def breaches(view: dict[str, Any], record: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a decision on a view."""
    if set(record) - {"execution_intent"} != RECORD:
        yield "the record has other fields"
        return
    if record.get("execution_intent") not in (None, "PRIVATE", "FIELD", "WAIT"):
        yield "an unknown intent"
    if not isinstance(record["task_action"], str):
        yield "an action that is no text"
    if not isinstance(record["response"], str | None):
        yield "a response that is neither text nor null"
    handles = {row["channel"] for row in view["private"]["channels"]}
    for deposit in record["deposits"]:
        yield from _bounds(deposit)
        if deposit["channel"] not in handles and deposit["channel"] != "*":
            yield "a write through a channel that is not incident"
        if not _vouched(deposit, view):
            yield "a write that neither private evidence nor an incident trace vouches for"
    if record["commit"] is not None:
        yield from _commit(record["commit"], view)
    waits = record["task_action"] == "WAIT" or record.get("execution_intent") == "WAIT"
    if waits and (record["deposits"] or record["commit"]):
        yield "a wait that writes or commits"


def _bounds(trace: dict[str, Any]) -> Iterator[str]:
    if set(trace) - {"direction"} != TRACE:
        yield "a trace with other fields"
    elif not all(whole(trace[name], 0, 4) for name in BINS) or not whole(trace["ttl"], 1, 8):
        yield "a trace out of its bins"


def _vouched(deposit: dict[str, Any], view: dict[str, Any]) -> bool:
    sources = [(row, 8) for row in view["private"]["evidence"]]
    sources += [(row, row["ttl"] - 1) for row in view["traces"]]
    return any(
        deposit["claim"] == row["claim"]
        and all(deposit[name] <= row[name] for name in BINS)
        and deposit["ttl"] <= longest
        for row, longest in sources
    )


def _commit(commit: dict[str, Any], view: dict[str, Any]) -> Iterator[str]:
    if set(commit) != {"claim", "confidence_bin"}:
        yield "a commitment with other fields"
        return
    if not whole(commit["confidence_bin"], 0, 4):
        yield "a confidence out of its bins"
    private = view["private"]
    known = {row["claim"] for row in (*private["evidence"], *view["traces"])}
    if commit["claim"] not in known | set(private["ready"]):
        yield "a commitment to a claim that nothing local speaks of"
