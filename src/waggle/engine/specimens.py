"""Canonical records to train a small tokenizer on: the contract's words in their real places.

Synthetic and seeded; the vocabulary of tasks is drawn from common words, so that the tokenizer
learns the schema and not a benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from waggle.core import prompt
from waggle.core.canon import encode_decision, encode_view
from waggle.core.schema import (
    DIRECTIONS,
    WAIT,
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

COUNT = 600
_SEED = 20_260
_VERBS = ("MOVE", "GRAB", "DROP", "HOLD", "TURN", "REPORT", "CHOOSE", "MATCH", "PUSH", "SCAN")
_FACTS = ("offer", "sent", "heard", "near", "held", "coherence")
_SEEN = ("count", "distance", "phase", "position", "direction", "answer", "progress", "size")


def specimens(count: int = COUNT) -> Iterator[str]:
    """Yield prompts and decisions in canonical text."""
    random = Random(_SEED)
    yield prompt.system()
    for _ in range(count):
        view = _view(random)
        yield prompt.prefix(view.contract)
        yield encode_view(view).decode()
        yield encode_decision(_decision(random, view)).decode()


def _handle(random: Random) -> str:
    return f"h{random.randrange(100)}"


def _claim(random: Random) -> str:
    return f"z{random.randrange(100)}"


def _trace(random: Random) -> Trace:
    direction = random.choice((None, *DIRECTIONS))
    novelty, support, conflict = (random.randrange(5) for _ in range(3))
    ttl = random.randint(1, 8)
    return Trace(_handle(random), _claim(random), novelty, support, conflict, ttl, direction)


def _view(random: Random) -> View:
    verbs = (*random.sample(_VERBS, 3), WAIT)
    contract = Contract("practice/words", "Agree on one value.", verbs, deposits=2)
    facts = random.sample(_FACTS, 3)
    ports = tuple(
        Port(_handle(random), random.randrange(16), {name: random.randrange(9) for name in facts})
        for _ in range(3)
    )
    evidence = (Evidence(_claim(random), 4, random.randrange(5), random.choice((0, 0, 3))),)
    seen = {name: random.randrange(50) for name in random.sample(_SEEN, 3)}
    private = Private(seen, evidence, (_claim(random),), random.randrange(5), ports)
    traces = tuple(_trace(random) for _ in range(random.randrange(5)))
    held = Commitment(_claim(random), random.randrange(5)) if random.random() < 0.5 else None
    proposal = Proposal(random.choice(verbs), None, _claim(random))
    return View(contract, private, proposal, traces, held, random.randrange(5))


def _decision(random: Random, view: View) -> Decision:
    commit = Commitment(_claim(random), random.randrange(5)) if random.random() < 0.5 else None
    intent = random.choice((None, "PRIVATE", "FIELD"))
    deposits = tuple(_trace(random) for _ in range(random.randrange(3)))
    return Decision(random.choice(view.contract.actions), None, deposits, commit, intent)
