"""Texts for the decoder and validator: mutated records, structured garbage, random bytes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

from tests.core import oracle
from tests.core.strategies import CLAIMS, HANDLES, mutate
from waggle.core import admit, templates
from waggle.core.canon import check_view, encode_decision, encode_view
from waggle.core.decode import CODES, parse
from waggle.core.options import actions
from waggle.core.schema import (
    WAIT,
    ClaimRow,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)

Validator = Callable[[View, Decision], tuple[str, ...]]
TOKENS = (
    '"', "{", "}", "[", "]", ":", ",", "null", "true", "NaN", "-1", "0", "4", "5", "8", "9", "1e9",
    '"h1"', '"z1"', '"*"', '"WAIT"', '"FIELD"', '"ANSWER"', "\\", "\\u0000", "\\ud800", "\u200b",
    "```", "\n", "é", '"ttl":8', '"conflict":4', '"support":4', '"confidence_bin":4',
)  # fmt: skip


def random_view(rng: random.Random) -> View:
    """Draw a bounded view without hypothesis, which is too slow for a hundred thousand texts."""
    hs = rng.sample(HANDLES, rng.randint(1, 4))
    zs = rng.sample(CLAIMS, rng.randint(1, 4))
    points = (None, None, "N", "SE")

    def bins() -> tuple[int, int, int]:
        return rng.randint(0, 4), rng.randint(0, 4), rng.choice((0, 0, 1, 4))

    evidence = tuple(
        Evidence(rng.choice(zs), *bins(), rng.choice(points)) for _ in range(rng.randint(0, 3))
    )
    traces = tuple(
        Trace(rng.choice(hs), rng.choice(zs), *bins(), rng.randint(1, 8), rng.choice(points))
        for _ in range(rng.randint(0, 5))
    )
    contract = Contract(
        "beacon", "", ("WAIT", "GO", "MATCH:@channel", "TRACK:@claim", "ANSWER"),
        rng.randint(0, 4), rng.random() < 0.5, rng.choice((None, "ANSWER")),
    )  # fmt: skip
    private = Private(
        {}, evidence, tuple(rng.sample(zs, rng.randint(0, 1))), rng.choice((None, 0, 2, 4)),
        tuple(Port(h, rng.randint(0, 15)) for h in hs), (ClaimRow(zs[0]),),
    )  # fmt: skip
    held = rng.choice((None, Commitment(rng.choice(zs), rng.randint(0, 4))))
    view = View(contract, private, Proposal(WAIT), traces, held, 2)
    proposal = Proposal(rng.choice(actions(view)), rng.choice((None, "7")), rng.choice(zs))
    return View(contract, private, proposal, traces, held, 2)


def _garbage(rng: random.Random, depth: int = 0) -> object:
    if depth > 3 or rng.random() < 0.4:
        return rng.choice((None, True, 0, 7, -3, "h1", "z1", "WAIT", "", "é", 10**12, 0.5))
    if rng.random() < 0.5:
        return [_garbage(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    keys = ("task_action", "response", "deposits", "commit", "channel", "claim", "ttl", "x")
    return {rng.choice(keys): _garbage(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def _mangle(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((0, 1, 1, 3, 20)))
        text = text[:at] + rng.choice(("", rng.choice(TOKENS))) + text[end:]
    return text


def random_text(legal: templates.Templates, rng: random.Random) -> str | bytes:
    """Draw one decode: from a legal record down to noise."""
    kind = rng.random()
    if kind < 0.08:
        return rng.randbytes(rng.randint(0, 200))
    if kind < 0.16:
        return json.dumps(_garbage(rng))
    decision = legal[rng.randrange(len(legal))].decision(rng.getrandbits(64))
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        decision = mutate(decision, rng)
    text = encode_decision(decision).decode()
    if kind < 0.5:
        return text
    if kind < 0.6:
        wrap = rng.choice(("```json\n{}\n```", "ok {} done", '{{"decision":{}}}', "\ufeff{}"))
        return wrap.format(text)
    if kind < 0.65:
        return text[: rng.randrange(len(text))]
    return _mangle(text, rng)


ILLEGAL = "broken: illegal record admitted"


def fuzz(
    count: int, seed: int, validate: Validator = admit.violations, until: str = ""
) -> Counter[str]:
    """Feed texts to parse, validate and project, up to an outcome; count what happened."""
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    for i in range(count):
        if i % 50 == 0:
            view = random_view(rng)
            check_view(view)
            shown = oracle.read(encode_view(view))
            legal = templates.Templates(view, free=False)
        text = random_text(legal, rng)
        parsed = parse(text)
        if parsed.decision is None:
            sound = bool(parsed.codes) and set(parsed.codes) <= set(CODES)
            found["refused" if sound else "broken: no code"] += 1
        elif not validate(view, parsed.decision):
            good = oracle.legal(shown, encode_decision(parsed.decision))
            found["admitted" if good else ILLEGAL] += 1
        else:
            found["invalid"] += 1
        rest = parsed.decision or parsed.salvage
        if rest is not None and not _projects(view, shown, rest):
            found["broken: projection"] += 1
        if until in found:
            break
    return found


def _projects(view: View, shown: oracle.Shown, decision: Decision) -> bool:
    kept = admit.project(view, decision)
    return (
        oracle.legal(shown, encode_decision(kept))
        and set(kept.deposits) <= set(decision.deposits)
        and kept.commit in (None, decision.commit)
        and kept.task_action in (decision.task_action, view.proposal.action, WAIT)
    )
