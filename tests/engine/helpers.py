"""Prompts, reference answers and engines that the tests of this folder share."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from waggle.engine.backends.lean import LeanBackend
from waggle.engine.cuda.graphs import ChoiceGraphs, PassGraphs
from waggle.engine.cuda.greedy_loop import GreedyLoop
from waggle.engine.engine import Engine
from waggle.engine.model.kv_rows import RowStore, Spans
from waggle.engine.model.linear import Linear
from waggle.engine.model.rope import Rotation
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


def references(model: Any, tokenizer: Any, batch: Sequence[Prompt]) -> list[tuple[int, ...]]:
    """Greedy tokens of transformers' generate, end token dropped; made once.

    Prompts of one length are generated together, so that nothing is padded.
    """
    known = KNOWN.setdefault(model, {})
    alike = defaultdict(list)
    for prompt in batch:
        text, limit = (*prompt.prefix, *prompt.tail), prompt.max_new_tokens
        if known.get(text, (0, ()))[0] < limit:
            alike[len(text), limit].append(text)
    for (_, limit), texts in alike.items():
        found = generated(model, tokenizer, texts, limit)
        known |= {text: (limit, answer) for text, answer in zip(texts, found, strict=True)}
    return [known[*p.prefix, *p.tail][1][: p.max_new_tokens] for p in batch]


def generated(model: Any, tokenizer: Any, texts: Any, limit: int) -> list[tuple[int, ...]]:
    whole, end = torch.tensor(texts), tokenizer.eos_token_id
    mask = torch.ones_like(whole)
    found = model.generate(whole, attention_mask=mask, max_new_tokens=limit, do_sample=False)
    answers = [row[whole.shape[1] :] for row in found.tolist()]
    return [tuple(row[: row.index(end)] if end in row else row) for row in answers]


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


class TorchKernels:
    """The fused kernels in torch, prefixes read where the rows say."""

    def __init__(self) -> None:
        self.steps = self.placed = self.spans = 0

    def place(
        self, qkv: Tensor, turns: Rotation, positions: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        q, kv = turns.at(positions).apply(qkv)
        cache.index_copy_(0, flat, kv)
        self.placed += 1
        return q

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rows: Spans, scale: float) -> Tensor:
        """Attend all rows in one padded product; one that says too little of itself gives zeros."""
        self.spans += 1
        counts = rows.starts.diff()
        bases, used, leads, lengths = (part[: len(counts)].unsqueeze(1) for part in rows[1:])
        valid = ((counts > 0) & (counts <= used[:, 0])).unsqueeze(1)
        own, place = torch.arange(int(counts.max())), torch.arange(int(used.max()))
        shared = place < torch.minimum(lengths, used - counts.unsqueeze(1))
        at = (torch.where(shared, leads, bases) + place).clamp_max(len(k) - 1)
        asks = (rows.starts[:-1].unsqueeze(1) + own).clamp_max(len(q) - 1)
        seen = place <= (used - counts.unsqueeze(1) + own).unsqueeze(2)
        asked, keys, values = (
            part.index_select(0, places.flatten()).unflatten(0, places.shape).transpose(1, 2)
            for part, places in ((q, asks), (k, at), (v, at))
        )
        found = scaled_dot_product_attention(
            asked, keys, values,
            attn_mask=(seen | ~valid.unsqueeze(2)).unsqueeze(1), scale=scale, enable_gqa=True,
        )  # fmt: skip
        out, live = torch.zeros_like(q), (own < counts.unsqueeze(1)) & valid
        out[asks[live]] = found.transpose(1, 2)[live]
        return out

    def step(
        self,
        qkv: Tensor,
        turns: Rotation,
        positions: Tensor,
        rows: Spans,
        cache: Tensor,
        scale: float,
    ) -> Tensor:
        q = self.place(qkv, turns, positions, rows.bases[:-1] + positions, cache)
        self.steps += 1
        starts = torch.arange(len(positions) + 1)
        return self.attend(q, *cache.chunk(2, dim=1), rows._replace(starts=starts), scale)


def row_engine(
    tiny: Any, rows: int, static: bool = True, multi_step: bool = False, **options: Any
) -> Engine:
    """An engine that decodes as on a GPU."""
    engine = Engine(*tiny, max_rows=rows, **options)
    backend = engine.backend
    assert isinstance(backend, LeanBackend)
    decoder = backend.decoder
    store = RowStore(decoder.shape, rows, decoder.dtype, decoder.device, TorchKernels())
    backend.store = store
    backend.asynchronous = True
    backend.cores = None
    backend._head.rounds = True
    backend._head.graphs = ChoiceGraphs(decoder.head, capture=warmed) if static else None
    backend.budget = 700
    backend.graphs = PassGraphs(decoder, store, capture=warmed) if static else None
    backend.loop = GreedyLoop(decoder, store, capture=warmed) if multi_step else None
    return engine


class Watched(Linear):
    """A product that notes how many rows it was given."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        super().__init__(torch.randn((50, 8), generator=generator))
        self.sizes: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        """Note the size, and multiply."""
        self.sizes.append(len(x))
        return super().__call__(x)


def states(count: int) -> Tensor:
    return torch.randn((count, 8), generator=torch.Generator().manual_seed(count))


def offers(count: int) -> Sequence[tuple[int, ...]]:
    kinds = [(7, 8, 9), (1, 40), (3,)]
    return [kinds[number % 3] for number in range(count)]


def rotation(heads: int, kv_heads: int, width: int, dtype: torch.dtype, normed: bool) -> Rotation:
    """Rotations by position, and norms whose weights differ."""
    angles = torch.arange(256)[:, None] * (10_000.0 ** (-torch.arange(0, width, 2) / width))
    both = torch.cat((angles, angles), -1)
    sin = both.sin()
    sin[:, : width // 2].neg_()
    norms = [torch.linspace(a, 2 - a, width).to(dtype) if normed else None for a in (0.5, 1.5)]
    tables = (table.to(dtype).unsqueeze(1) for table in (both.cos(), sin))
    return Rotation(*tables, *norms, 1e-6, heads, kv_heads)
