"""A law that attacks: every answer is a record bent in one or several ways, or no record at all."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from waggle.core.canon import encode_view
from waggle.core.protocols import Decode, Request

Record = dict[str, Any]
View = dict[str, Any]


def honest(view: View, rng: random.Random) -> Record:
    """Return a record that may well be legal."""
    handles = [row["channel"] for row in view["private"]["channels"]]
    sources = [*view["private"]["evidence"], *view["traces"]]
    deposits = []
    if handles and sources and rng.random() < 0.8:
        row = rng.choice(sources)
        copied = {k: v for k, v in row.items() if k != "channel"}
        ttl = max(1, row.get("ttl", 9) - 1)
        deposits = [{"channel": rng.choice(handles), **copied, "ttl": min(8, ttl)}]
    ready = view["private"]["ready"]
    commit = {"claim": rng.choice(ready), "confidence_bin": 2} if ready else None
    proposal = view["worker_proposal"]
    return {"task_action": proposal["action"], "response": proposal["response"],
            "deposits": deposits, "commit": rng.choice((None, commit))}  # fmt: skip


def _deposit(change: Callable[[Record, View, random.Random], None]) -> Callable[..., None]:
    def apply(record: Record, view: View, rng: random.Random) -> None:
        found = record.get("deposits")
        if not isinstance(found, list) or not found or not isinstance(found[-1], dict):
            record["deposits"] = [{"channel": "h0", "claim": "z0", "novelty": 4, "support": 4,
                                   "conflict": 4, "ttl": 8}]  # fmt: skip
        change(record["deposits"][-1], view, rng)

    return apply


def _claims(view: View) -> list[str]:
    return [row["claim"] for row in (*view["private"]["claims"], *view["traces"])] or ["z0"]


ODD: tuple[Any, ...] = (
    -1, 5, 9, 255, 2**31, 2**63, 2**64, 10**30, 0.5, 4.0, 1e308, True, False, None, "4", "٤", "",
    [], {}, [4], {"a": 1}, "\x00", "\ud800",
)  # fmt: skip


@_deposit
def amplify(deposit: Record, _: View, rng: random.Random) -> None:
    deposit[rng.choice(("novelty", "support", "conflict"))] = 4


@_deposit
def renew(deposit: Record, _: View, rng: random.Random) -> None:
    deposit["ttl"] = rng.choice((8, 8, 9, 0))


@_deposit
def misroute(deposit: Record, view: View, rng: random.Random) -> None:
    deposit["channel"] = rng.choice(("*", "h0", "", "all", "H1K", "hrs\u200b", *_claims(view)))


@_deposit
def fabricate(deposit: Record, view: View, rng: random.Random) -> None:
    deposit["claim"] = rng.choice(("z0", "", "*", "z" * 5000, *_claims(view)))


@_deposit
def odd_value(deposit: Record, _: View, rng: random.Random) -> None:
    deposit[rng.choice(list(deposit))] = rng.choice(ODD)


@_deposit
def odd_key(deposit: Record, _: View, rng: random.Random) -> None:
    deposit[rng.choice(("agent_id", "direction", "ttl ", "TTL", "__class__"))] = rng.choice(ODD)


def flood(record: Record, view: View, rng: random.Random) -> None:
    if isinstance(record["deposits"], list):
        record["deposits"] = record["deposits"] * rng.choice((2, 9, 500))


def commit_anyway(record: Record, view: View, rng: random.Random) -> None:
    record["commit"] = {"claim": rng.choice(("z0", *_claims(view))), "confidence_bin": 4}


def odd_commit(record: Record, view: View, rng: random.Random) -> None:
    record["commit"] = rng.choice((*ODD, {"claim": "z0"}, {"claim": "z0", "confidence_bin": 9}))


def wait_and_write(record: Record, view: View, rng: random.Random) -> None:
    record[rng.choice(("task_action", "execution_intent"))] = "WAIT"


def odd_field(record: Record, view: View, rng: random.Random) -> None:
    record[rng.choice((*record, "agent_id", "execution_intent", ""))] = rng.choice(ODD)


def odd_action(record: Record, view: View, rng: random.Random) -> None:
    record["task_action"] = rng.choice(("", "wait", "FLY", "MATCH:@channel", "A" * 9000, "\x1b[2J"))


def odd_response(record: Record, view: View, rng: random.Random) -> None:
    record["response"] = rng.choice(("x" * 65, "x" * 100_000, "\u202e", 7, "", "\x00"))


BENDS = (amplify, renew, misroute, fabricate, odd_value, odd_key, flood, commit_anyway, odd_commit,
         wait_and_write, odd_field, odd_action, odd_response)  # fmt: skip


def cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def twice(text: str, rng: random.Random) -> str:
    return text + rng.choice(("", "\n", ",")) + text


def wrapped(text: str, rng: random.Random) -> str:
    return rng.choice(("```json\n@\n```", "I think @ is best", "\ufeff@", '{"decision":@}', "[@]"))\
        .replace("@", text)  # fmt: skip


def deep(text: str, rng: random.Random) -> str:
    return rng.choice(("[", '{"a":', '{"deposits":[')) * rng.choice((100, 50_000))


def repeated_keys(text: str, rng: random.Random) -> str:
    return text.replace('"deposits":', '"deposits":[],"deposits":', 1)


def not_json(text: str, rng: random.Random) -> str:
    return text.replace("4", rng.choice(("NaN", "04", "4e999999", "Infinity", "0x4")), 1)


def noise(text: str, rng: random.Random) -> str:
    return "".join(chr(rng.randrange(1, 0x2FFF)) for _ in range(rng.randrange(300)))


BREAKS = (cut, twice, wrapped, deep, repeated_keys, not_json, noise)


def hostile(view: View, rng: random.Random) -> tuple[str, str]:
    """Return one attack: its name and the text."""
    record = copy.deepcopy(honest(view, rng))
    names = []
    for bend in rng.sample(BENDS, rng.choice((0, 1, 1, 1, 2, 4))):
        bend(record, view, rng)
        names.append(getattr(bend, "__name__", "deposit"))
    text = json.dumps(record, ensure_ascii=rng.random() < 0.5, separators=(",", ":"))
    if rng.random() < 0.25:
        chosen = rng.choice(BREAKS)
        text = chosen(text, rng)
        names = [chosen.__name__]
    return (names[0] if len(names) == 1 else "several" if names else "none"), text


class Attacker:
    """A law whose every decode is hostile."""

    name = "attacker"

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.decodes = 0

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Answer every view with an attack."""
        self.decodes += len(requests)
        views = (json.loads(encode_view(request.view)) for request in requests)
        return [Decode(hostile(view, self._rng)[1]) for view in views]
