"""Constrained answers against greedy decoding under a mask that is made without the engine."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the llm extra")

import torch

from tests.laws_llm.conftest import played
from waggle.core.forms import Alternatives, GrammarNode, IntRange, Literal, Text
from waggle.core.grammar import grammar
from waggle.core.protocols import Request
from waggle.laws.dialogue import Dialogue
from waggle.laws.local import LocalLaw
from waggle.models.nano import tiny_random


def following(node: GrammarNode, text: str) -> set[str]:
    """Return the characters that may follow a text, the empty one where it may end."""
    found: set[str] = set()

    def go(node: GrammarNode, at: int, then: Callable[[int], None]) -> None:
        if isinstance(node, Literal):
            here = text[at : at + len(node.text)]
            if here == node.text:
                then(at + len(here))
            elif node.text.startswith(here) and at + len(here) == len(text):
                found.add(node.text[len(here)])
        elif isinstance(node, IntRange):
            for number in range(node.low, node.high + 1):
                go(Literal(str(number)), at, then)
        elif isinstance(node, Alternatives):
            # A free text stands for what the view offers, or for nothing.
            for option in [o for o in node.options if not isinstance(o, Text)]:
                go(option, at, then)
        elif isinstance(node, Text):
            then(at)
        else:
            steps(node.parts, at, then)

    def steps(parts: tuple[GrammarNode, ...], at: int, then: Callable[[int], None]) -> None:
        if parts:
            go(parts[0], at, lambda after: steps(parts[1:], after, then))
        else:
            then(at)

    go(node, 0, lambda at: found.add("") if at == len(text) else None)
    return found


def masked(model: Any, tokenizer: Any, request: Request) -> str:
    """Decode byte by byte with transformers' own forward, the whole text anew each time."""
    (shared, own), node = Dialogue(tokenizer).tokens([request])[0], grammar(request.view)
    text, said = "", list[int]()
    while (offered := following(node, text)) != {""}:
        assert offered and "" not in offered, "a record ends where nothing can follow"
        tokens = {tokenizer.encode(c, add_special_tokens=False)[0]: c for c in sorted(offered)}
        token = next(iter(tokens))
        if len(tokens) > 1:
            with torch.no_grad():
                scores = model(torch.tensor([[*shared, *own, *said]])).logits[0, -1]
            token = max(tokens, key=lambda t: float(scores[t]))
        text += tokens[token]
        said.append(token)
    return text


@pytest.mark.parametrize("task", ["silo/III-26", "swarmbench/pursuit", "agentsnet/matching"])
def test_answers_are_those_of_greedy_decoding_under_an_independent_mask(task: str) -> None:
    torch.set_num_threads(1)
    model, tokenizer = tiny_random(3)
    law = LocalLaw.over(model, tokenizer, mode="constrained")
    request = Request(played(task, 4, 2)[-1])
    assert law.decide([request])[0].output == masked(model, tokenizer, request)
