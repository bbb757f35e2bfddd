"""A synthetic swarm's worth of prompts: a long shared prefix, different tails, one skeleton.

Stands in for real views where the engine is measured, so that a measurement needs nothing but the
engine. Seeded: the same arguments give the same prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from waggle.core.forms import GrammarNode, IntRange
from waggle.engine.constraint.form_making import chain, choice
from waggle.engine.constraint.grammar import Common, Grammar

INSTRUCTION = (
    "You are one anonymous member of a changing local network. Use only the private proposal, "
    "private evidence, current commitment, and semantic traces on incident channels. Return one "
    "canonical JSON decision. Continue useful private work unless local evidence justifies a "
    "deposit, relay, challenge, or commitment. Every bin is 0 to 4 and a time to live is 1 to 8. "
    'A decision looks like {"task_action":"MOVE","response":null,"deposits":[{"channel":"h3",'
    '"claim":"z2","novelty":1,"support":2,"conflict":0,"ttl":5}],"commit":{"claim":"z2",'
    '"confidence_bin":3}}. A relay never claims more than the trace it repeats, and lives one '
    "round less. A wait writes nothing, commits nothing and answers nothing. "
)
LONGEST = 256
"""No answer has more tokens."""
ACTIONS = ("MOVE", "HOLD", "GRAB", "WAIT")


@dataclass(frozen=True, slots=True)
class Task:
    """One node's request: the tail of its prompt, and what its answers may name."""

    tail: str
    handles: tuple[str, ...]
    claims: tuple[str, ...]


def shared_prefix(tokenizer: Any, tokens: int) -> tuple[int, ...]:
    """Return a system turn of exactly this many tokens."""
    text = "<|im_start|>system\n" + INSTRUCTION
    while len(encode(tokenizer, text)) < tokens:
        text += INSTRUCTION
    return encode(tokenizer, text)[:tokens]


def tasks(count: int, records: int, seed: int = 0) -> list[Task]:
    """Return requests whose views hold about `records` traces each, give or take one."""
    random = Random(seed)
    return [_task(random, records + random.choice((-1, 0, 0, 1))) for _ in range(count)]


def fit_records(tokenizer: Any, tokens: int) -> int:
    """Return how many traces make a tail of about this many tokens."""
    one, nine = (len(encode(tokenizer, _task(Random(1), n).tail)) for n in (1, 9))
    return max(1, round(1 + (tokens - one) * 8 / (nine - one)))


def _task(random: Random, records: int) -> Task:
    handles = sorted(random.sample([f"h{i}" for i in range(1, 30)], 4))
    claims = sorted(random.sample([f"z{i}" for i in range(1, 30)], 3))
    rows = [_trace(random, random.choice(handles), random.choice(claims)) for _ in range(records)]
    tail = (
        '\n<|im_start|>user\nView: {"private":{"lot":' + str(random.randrange(16))
        + '},"proposal":{"action":"MOVE","claim":"' + claims[0] + '"},"traces":['
        + ",".join(rows) + '],"commitment":null,"budget":3}<|im_end|>\n<|im_start|>assistant\n'
    )  # fmt: skip
    return Task(tail, tuple(handles), tuple(claims))


def named(handles: Sequence[str], claims: Sequence[str], _: Common | None = None) -> Grammar:
    """Return the grammar of some names, made anew: nothing found out about another is known."""
    return Grammar(decision_grammar(handles, claims))


def longest() -> int:
    """Return how many tokens an answer may have."""
    return LONGEST


def _trace(random: Random, handle: str, claim: str) -> str:
    novelty, support, conflict = (random.randrange(5) for _ in range(3))
    return (
        f'{{"channel":"{handle}","claim":"{claim}","novelty":{novelty},"support":{support},'
        f'"conflict":{conflict},"ttl":{random.randint(1, 8)}}}'
    )


def decision_grammar(handles: Sequence[str], claims: Sequence[str]) -> GrammarNode:
    """Return the records with one deposit and one commitment: about eighty tokens."""
    return chain(
        '{"task_action":"', choice(*ACTIONS), '","response":null,"deposits":[{"channel":"',
        choice(*handles), '","claim":"', choice(*claims), '","novelty":', IntRange(0, 4),
        ',"support":', IntRange(0, 4), ',"conflict":', IntRange(0, 4), ',"ttl":', IntRange(1, 8),
        '}],"commit":{"claim":"', choice(*claims), '","confidence_bin":', IntRange(0, 4),
        '},"execution_intent":"', choice("PRIVATE", "FIELD"), '"}',
    )  # fmt: skip


def encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Encode without adding special tokens; markers in the text are recognised."""
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def texts(count: int = 200) -> list[str]:
    """Return texts of this workload, to train a small tokenizer on."""
    return [INSTRUCTION, *(task.tail for task in tasks(count, 6, seed=3))]
