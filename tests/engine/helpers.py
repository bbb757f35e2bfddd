"""Prompts, reference answers and engines that the tests of this folder share."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch

from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda import flash
from waggle.engine.cuda.choice_graphs import ChoiceGraphs
from waggle.engine.cuda.graphs import PassGraphs
from waggle.engine.cuda.greedy_loop import GreedyLoop
from waggle.engine.engine import Engine
from waggle.engine.model import pairs
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.request import Prompt

NEW = 16
PREFIX = "You are one node of a swarm. Answer with one JSON record. " * 3
KNOWN: WeakKeyDictionary[Any, dict[Any, tuple[int, tuple[int, ...]]]] = WeakKeyDictionary()
"""Greedy answers and their limits, by model and text: many tests ask one tiny model the same."""


def ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def tails(tokenizer: Any, count: int) -> list[tuple[int, ...]]:
    return [ids(tokenizer, f"view {i}: " + "ab{" * (i % 7) + str(i * i)) for i in range(count)]


def prompts(tokenizer: Any, count: int, new: int = NEW, **options: Any) -> list[Prompt]:
    prefix = ids(tokenizer, PREFIX)
    return [
        Prompt(tail=tail, prefix=prefix, max_new_tokens=new, **options)
        for tail in tails(tokenizer, count)
    ]


def reference(model: Any, tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    """Greedy tokens of transformers' generate for one prompt, end token dropped; made once."""
    known = KNOWN.setdefault(model, {})
    text, limit = (*prompt.prefix, *prompt.tail), prompt.max_new_tokens
    if known.get(text, (0, ()))[0] < limit:
        known[text] = limit, generated(model, tokenizer, prompt)
    return known[text][1][:limit]


def generated(model: Any, tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    whole = torch.tensor([[*prompt.prefix, *prompt.tail]])
    found = model.generate(
        whole,
        attention_mask=torch.ones_like(whole),
        max_new_tokens=prompt.max_new_tokens,
        do_sample=False,
    )
    answer = found[0, whole.shape[1] :].tolist()
    return tuple(
        answer[: answer.index(tokenizer.eos_token_id)]
        if tokenizer.eos_token_id in answer
        else answer
    )


def answers(engine: Engine, batch: Sequence[Prompt]) -> list[tuple[int, ...]]:
    return [completion.tokens for completion in engine.generate(batch)]


def long_prompts(tokenizer: Any, number: int, new: int = 24) -> list[Prompt]:
    """Prompts for which the caches have to grow."""
    prefix = ids(tokenizer, PREFIX * 2)
    return [
        Prompt(ids(tokenizer, f"node {i} " * 20), prefix, max_new_tokens=new) for i in range(number)
    ]


def warmed(step: Any) -> Any:
    """Run a step once before it is replayed, as recording a CUDA graph does."""
    step()
    return step


def row_engine(
    tiny: Any, rows: int, static: bool = True, rolls: bool = False, **options: Any
) -> Engine:
    """An engine that decodes as on a GPU."""
    with patch.object(pairs, "suits", return_value=False):
        engine = Engine(*tiny, max_rows=rows, **options)
    backend = engine.backend
    assert isinstance(backend, LeanBackend)
    decoder = backend.decoder
    store = RowStore(decoder.shape, rows, decoder.dtype, decoder.device, flash.reference)
    backend.store = store
    backend.asynchronous = True
    backend.lanes = None
    backend._output.rounds = True
    backend._output.graphs = ChoiceGraphs(decoder.head, capture=warmed) if static else None
    backend.budget = 700
    backend.graphs = PassGraphs(decoder, store, capture=warmed) if static else None
    backend.loop = GreedyLoop(decoder, store, capture=warmed) if rolls else None
    return engine
