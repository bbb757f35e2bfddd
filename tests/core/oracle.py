"""An independent reading of the admission rules, on JSON instead of on objects.

Written from the rules and not from `admit`, so that the two can disagree.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

BINS = ("novelty", "support", "conflict")
POINTS = {"N", "NE", "E", "SE", "S", "SW", "W", "NW", "HERE"}


Shown: TypeAlias = dict[str, Any]
"""A view as its text shows it."""


def read(view_text: bytes | str) -> Shown:
    """Read the text of a view, once for many records."""
    shown: Shown = json.loads(view_text)
    return shown


def legal(view: Shown, record_text: bytes | str) -> bool:
    """Whether a record is admissible on a view."""
    record = json.loads(record_text)
    contract, private = view["contract"], view["private"]
    handles = {row["channel"] for row in private["channels"]}
    if set(record) - {"execution_intent"} != {"task_action", "response", "deposits", "commit"}:
        return False
    if not _act(record, contract, handles, {row["claim"] for row in private["claims"]}):
        return False
    waits = "WAIT" in (record["task_action"], record.get("execution_intent"))
    if waits and (record["deposits"] or record["commit"] or record["response"] is not None):
        return False
    written = {(d["channel"], d["claim"]) for d in record["deposits"]}
    if len(record["deposits"]) > contract["deposits"] or len(written) < len(record["deposits"]):
        return False
    reach = handles | ({"*"} if contract["broadcast"] else set())
    if not all(d["channel"] in reach and _write(d, view) for d in record["deposits"]):
        return False
    return record["commit"] is None or _commit(record, view)


def _act(record: Any, contract: Any, handles: set[str], claims: set[str]) -> bool:
    legal_actions = set()
    for action in contract["actions"]:
        if action.endswith(":@channel"):
            legal_actions |= {action.replace("@channel", h) for h in handles}
        elif action.endswith(":@claim"):
            legal_actions |= {action.replace("@claim", z) for z in claims}
        else:
            legal_actions.add(action)
    if record["task_action"] not in legal_actions:
        return False
    if record.get("execution_intent", "FIELD") not in ("PRIVATE", "FIELD", "WAIT"):
        return False
    answers = contract["response"] is not None and record["task_action"] == contract["response"]
    if answers:
        return isinstance(record["response"], str) and len(record["response"]) <= 64
    return record["response"] is None


def _write(deposit: Any, view: Any) -> bool:
    if any(deposit[name] not in range(5) for name in BINS) or deposit["ttl"] not in range(1, 9):
        return False
    if deposit.get("direction", "N") not in POINTS:
        return False
    sources = [(row, 8) for row in view["private"]["evidence"]]
    sources += [(row, row["ttl"] - 1) for row in view["traces"]]
    return any(
        row["claim"] == deposit["claim"]
        and row.get("direction") == deposit.get("direction")
        and all(deposit[name] <= row[name] for name in BINS)
        and deposit["ttl"] <= longest
        for row, longest in sources
    )


def _commit(record: Any, view: Any) -> bool:
    private, held, commit = view["private"], view["commitment"], record["commit"]
    claim, confidence = commit["claim"], commit["confidence_bin"]
    challenged = {d["claim"] for d in record["deposits"] if d["conflict"] > 0}
    if confidence not in range(5) or claim in challenged:
        return False
    if claim not in private["ready"]:
        known = {row["claim"] for row in (*private["evidence"], *view["traces"])}
        coverage = private["coverage"]
        if coverage is None or claim not in known or confidence > coverage:
            return False
    if held is None or held["claim"] == claim:
        return True
    verified = {row["claim"] for row in private["evidence"] if row["conflict"] > 0}
    return held["claim"] in challenged & verified
