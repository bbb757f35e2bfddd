"""A lean forward pass for Llama-shaped decoders over preallocated caches.

Takes the weights of a transformers model (Llama, SmolLM2, Mistral without windows, Qwen2, Qwen3),
fuses the projections that share an input, and runs whole batches of ragged chunks with a handful
of operations per layer. Invariant: in float32 its logits agree with transformers' to rounding, so
greedy tokens are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine import attention
from waggle.engine.linear import Linear

SUPPORTED = frozenset({"llama", "qwen2", "qwen3"})
"""Model types whose forward pass this module reproduces."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a decoder."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    epsilon: float

    @property
    def groups(self) -> int:
        """Query heads per key head."""
        return self.heads // self.kv_heads


@dataclass(slots=True)
class Layer:
    """One block's weights, fused."""

    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    norm_in: Tensor
    norm_mid: Tensor
    q_norm: Tensor | None
    k_norm: Tensor | None


@dataclass(slots=True)
class PrefixKV:
    """Keys and values of a shared prefix: one [Hkv,P,D] pair per layer; P may be 0."""

    keys: list[Tensor]
    values: list[Tensor]
    length: int


@dataclass(slots=True)
class Chunk:
    """A batch of new tokens, flat, with where each belongs.

    `rows` and `offsets` place token n in the padded [B,T] grid (None when the grid is full);
    `slots` and `positions` are its cache row and position after the prefix.
    """

    tokens: Tensor
    slots: Tensor
    positions: Tensor
    rows: int
    steps: int
    grid: tuple[Tensor, Tensor] | None
    fresh: bool
    """Whether every row starts at position 0, so that nothing cached is read."""
    mask: Tensor | None = None
    span: int = 0
    cache_rows: Tensor | None = None
    """Cache rows of the batch when they are not simply the first `rows`."""


def supports(config: Any) -> bool:
    """Whether a transformers configuration describes a decoder this module can run."""
    if getattr(config, "model_type", "") not in SUPPORTED:
        return False
    return not getattr(config, "use_sliding_window", False) and config.hidden_act == "silu"


class Decoder:
    """Fused weights and the forward pass."""

    def __init__(self, model: Any) -> None:
        config = model.config
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.shape = Shape(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=width,
            vocabulary=config.vocab_size,
            epsilon=config.rms_norm_eps,
        )
        body = model.model
        self.embedding: Tensor = body.embed_tokens.weight.detach()
        self.layers = [_fuse(block) for block in body.layers]
        self.norm: Tensor = body.norm.weight.detach()
        self.head = Linear(model.lm_head.weight.detach())
        self.dtype = self.embedding.dtype
        self.device = self.embedding.device
        self.scale = width**-0.5
        self._rotary = body.rotary_emb
        self._cos, self._sin = self._tables(512)

    def _tables(self, length: int) -> tuple[Tensor, Tensor]:
        positions = torch.arange(length, device=self.device).unsqueeze(0)
        cos, sin = self._rotary(self.embedding[:1].unsqueeze(0), positions)
        sin = sin[0].clone()
        sin[:, : sin.shape[1] // 2].neg_()
        return cos[0].unsqueeze(1), sin.unsqueeze(1)

    @property
    def tables(self) -> tuple[Tensor, Tensor]:
        """The rotary tables in use; who captures a step keeps them alive."""
        return self._cos, self._sin

    def reserve(self, length: int) -> None:
        """Make rotary tables reach at least this position."""
        if length > self._cos.shape[0]:
            self._cos, self._sin = self._tables(2 * length)

    def parameters(self) -> int:
        """Return the number of weights one token passes through, embedding rows aside."""
        blocks = sum(
            part.weight.numel()
            for layer in self.layers
            for part in (layer.qkv, layer.out, layer.gate_up, layer.down)
        )
        return blocks + self.head.weight.numel()

    def new_cache(self, rows: int, length: int) -> list[tuple[Tensor, Tensor]]:
        """Allocate zeroed keys and values for rows of tails and answers, layer by layer."""
        size = (rows, self.shape.kv_heads, length, self.shape.head_dim)
        return [
            (
                torch.zeros(size, dtype=self.dtype, device=self.device),
                torch.zeros(size, dtype=self.dtype, device=self.device),
            )
            for _ in range(self.shape.layers)
        ]

    def forward(
        self,
        chunk: Chunk,
        cache: list[tuple[Tensor, Tensor]],
        prefix: PrefixKV,
        keep: Tensor | None = None,
    ) -> Tensor:
        """Run a chunk, write its keys and values, return normalised hidden states.

        `keep` picks the flat tokens whose states are wanted.
        """
        x = F.embedding(chunk.tokens, self.embedding)
        angles = chunk.positions + prefix.length
        cos, sin = self._cos[angles], self._sin[angles]
        for index, layer in enumerate(self.layers):
            keys = (prefix.keys[index], prefix.values[index]) if prefix.length else None
            x = self._block(layer, x, (cos, sin), chunk, cache[index], keys)
        if keep is not None:
            x = x[keep]
        return self._normalise(x, self.norm)

    def _block(
        self,
        layer: Layer,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        chunk: Chunk,
        cache: tuple[Tensor, Tensor],
        prefix: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        q, k, v = self._project(layer, x, angles)
        cache[0][chunk.slots, :, chunk.positions] = k
        cache[1][chunk.slots, :, chunk.positions] = v
        mixed = self._own(q, k, v, chunk, cache)
        if prefix is None:
            seen = mixed[0]
        else:
            seen = attention.merge(attention.attend_prefix(q, *prefix, self.scale), mixed)
        x = x + layer.out(seen.reshape(x.shape[0], -1))
        gate, up = layer.gate_up(self._normalise(x, layer.norm_mid)).chunk(2, dim=-1)
        return x + layer.down(F.silu(gate) * up)

    def _project(
        self, layer: Layer, x: Tensor, angles: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        shape = self.shape
        fused = layer.qkv(self._normalise(x, layer.norm_in))
        fused = fused.view(x.shape[0], shape.heads + 2 * shape.kv_heads, shape.head_dim)
        q, k, v = torch.split(fused, [shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = self._normalise(q, layer.q_norm), self._normalise(k, layer.k_norm)
        return _rotate(q, *angles), _rotate(k, *angles), v

    def _own(
        self, q: Tensor, k: Tensor, v: Tensor, chunk: Chunk, cache: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Attend over what each row owns; flat in, flat out."""
        if chunk.fresh:
            grid = (_pad(q, chunk), _pad(k, chunk), _pad(v, chunk))
            out, lse = attention.attend_own(*grid, self.scale)
        else:
            assert chunk.mask is not None
            keys, values = _span(cache, chunk)
            out, lse = attention.attend_cached(_pad(q, chunk), keys, values, self.scale, chunk.mask)
        return _flatten(out, chunk), _flatten(lse, chunk)

    def _normalise(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.shape.epsilon)


def _span(cache: tuple[Tensor, Tensor], chunk: Chunk) -> tuple[Tensor, Tensor]:
    keys, values = cache
    if chunk.cache_rows is None:
        return keys[: chunk.rows, :, : chunk.span], values[: chunk.rows, :, : chunk.span]
    rows = chunk.cache_rows
    return keys[rows, :, : chunk.span], values[rows, :, : chunk.span]


def _pad(flat: Tensor, chunk: Chunk) -> Tensor:
    if chunk.grid is None:
        return flat.reshape(chunk.rows, chunk.steps, *flat.shape[1:])
    padded = flat.new_zeros(chunk.rows, chunk.steps, *flat.shape[1:])
    padded[chunk.grid] = flat
    return padded


def _flatten(padded: Tensor, chunk: Chunk) -> Tensor:
    if chunk.grid is None:
        return padded.reshape(-1, *padded.shape[2:])
    return padded[chunk.grid]


def _rotate(x: Tensor, cos: Tensor, signed_sin: Tensor) -> Tensor:
    """Rotate half-split pairs; the sign of the first half is folded into the sine table."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), signed_sin)


def _fuse(block: Any) -> Layer:
    mixer, mlp = block.self_attn, block.mlp
    biased = mixer.q_proj.bias is not None
    parts = (mixer.q_proj, mixer.k_proj, mixer.v_proj)
    return Layer(
        qkv=Linear(
            torch.cat([part.weight.detach() for part in parts]),
            torch.cat([part.bias.detach() for part in parts]) if biased else None,
        ),
        out=Linear(mixer.o_proj.weight.detach(), _bias(mixer.o_proj)),
        gate_up=Linear(torch.cat([mlp.gate_proj.weight.detach(), mlp.up_proj.weight.detach()])),
        down=Linear(mlp.down_proj.weight.detach()),
        norm_in=block.input_layernorm.weight.detach(),
        norm_mid=block.post_attention_layernorm.weight.detach(),
        q_norm=mixer.q_norm.weight.detach() if hasattr(mixer, "q_norm") else None,
        k_norm=mixer.k_norm.weight.detach() if hasattr(mixer, "k_norm") else None,
    )


def _bias(linear: Any) -> Tensor | None:
    return None if linear.bias is None else linear.bias.detach()
