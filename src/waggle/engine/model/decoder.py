"""The forward pass of Llama-shaped decoders over preallocated KV caches.

Takes the weights of a model in the architecture table (see `config`), fuses the projections that
share an input, and runs whole batches of ragged chunks with a handful of operations per layer.
Invariant: in float32 its logits agree with transformers' to rounding, so greedy tokens are the
same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.model.config import ARCHITECTURES, Shape
from waggle.engine.model.kv_cache import Chunk, Store
from waggle.engine.model.linear import (
    GateUp,
    Linear,
    MakeProduct,
    Operations,
    Product,
    TorchOperations,
    overwrite,
)
from waggle.engine.model.rope import Rotation, rotary, tables

FIRST_POSITIONS = 512
"""The initial number of positions in the rotary tables; they grow with the caches."""


@dataclass(slots=True)
class Layer:
    """One block's weights, fused."""

    qkv: Product
    out: Product
    gate_up: GateUp
    down: Product
    norm_in: Tensor
    norm_mid: Tensor
    q_norm: Tensor | None
    k_norm: Tensor | None

    def take(self, other: Layer) -> None:
        """Copy the weights of another block, in place."""
        self.qkv.take(other.qkv)
        self.out.take(other.out)
        self.gate_up.take(other.gate_up)
        self.down.take(other.down)
        for name in ("norm_in", "norm_mid", "q_norm", "k_norm"):
            overwrite(getattr(self, name), getattr(other, name))


class Decoder:
    """Fused weights and the forward pass; `product` makes the products of its blocks."""

    def __init__(self, model: Any, product: MakeProduct = Linear) -> None:
        self.shape = Shape.of(model.config)
        body = model.model
        self.embedding: Tensor = body.embed_tokens.weight.detach()
        self.dtype = self.embedding.dtype
        self.device = self.embedding.device
        self._qk_norm = ARCHITECTURES[model.config.model_type].qk_norm
        self._make_product = product
        self.layers = [self._fuse(block) for block in body.layers]
        self.norm: Tensor = body.norm.weight.detach()
        self.head = Linear(model.lm_head.weight.detach())
        self.operations: Operations = TorchOperations()
        """Norms and gates; a backend may put fused kernels here."""
        self._weights = _count(self.layers) + self.head.weight.numel()
        self._rotary = rotary(model)
        self.tables = tables(self._rotary, FIRST_POSITIONS, self.embedding)
        """The rotary tables in use; a captured step keeps those it reads alive."""

    def reserve(self, length: int) -> bool:
        """Extend the rotary tables to at least `length` positions; return whether they moved."""
        if length <= len(self.tables[0]):
            return False
        self.tables = tables(self._rotary, 2 * length, self.embedding)
        return True

    def refresh(self, model: Any) -> None:
        """Copy the current weights of a model of the same shape, in place."""
        body = model.model
        for layer, block in zip(self.layers, body.layers, strict=True):
            layer.take(self._fuse(block))  # one by one: old and new are never both fully in memory
        overwrite(self.embedding, self._read(body.embed_tokens.weight))
        overwrite(self.norm, self._read(body.norm.weight))
        self.head.take(Linear(self._read(model.lm_head.weight)))

    def _read(self, parameter: Tensor) -> Tensor:
        return parameter.detach().to(self.embedding)

    def _fuse(self, block: Any) -> Layer:
        """Fuse the weights of one transformers block."""
        read, product, normed = self._read, self._make_product, self._qk_norm
        attention, mlp = block.self_attn, block.mlp
        parts = attention.q_proj, attention.k_proj, attention.v_proj
        biased = parts[0].bias is not None
        out_bias = attention.o_proj.bias
        return Layer(
            qkv=product(
                torch.cat([read(part.weight) for part in parts]),
                torch.cat([read(part.bias) for part in parts]) if biased else None,
            ),
            out=product(
                read(attention.o_proj.weight), None if out_bias is None else read(out_bias)
            ),
            gate_up=GateUp(read(mlp.gate_proj.weight), read(mlp.up_proj.weight), product),
            down=product(read(mlp.down_proj.weight), None),
            norm_in=read(block.input_layernorm.weight),
            norm_mid=read(block.post_attention_layernorm.weight),
            q_norm=read(attention.q_norm.weight) if normed else None,
            k_norm=read(attention.k_norm.weight) if normed else None,
        )

    def parameters(self) -> int:
        """Return the number of weights that one token passes through, without embedding rows."""
        return self._weights

    def forward(self, chunk: Chunk, store: Store, keep: Tensor | None = None) -> Tensor:
        """Run a chunk, keep its keys and values in the store, return normalised hidden states.

        `keep` selects the flat tokens whose states are returned; the last block runs only these.
        """
        x = F.embedding(chunk.tokens, self.embedding)
        turns = self.tables
        if not store.rotates:
            turns = turns[0][chunk.positions], turns[1][chunk.positions]
        for index, layer in enumerate(self.layers):
            last = index == len(self.layers) - 1
            rotation = self._rotation(layer, turns)
            x = self._block(index, layer, rotation, x, chunk, store, keep if last else None)
        return self._norm(x, self.norm)

    def _block(
        self,
        index: int,
        layer: Layer,
        rotation: Rotation,
        x: Tensor,
        chunk: Chunk,
        store: Store,
        keep: Tensor | None,
    ) -> Tensor:
        heads = self.shape.heads + 2 * self.shape.kv_heads
        qkv = layer.qkv(self._norm(x, layer.norm_in))
        qkv = qkv.view(x.shape[0], heads, self.shape.head_dim)
        seen = store.attend(index, qkv, rotation, chunk)
        if keep is not None:
            x, seen = x[keep], seen[keep]
        x = layer.out.add(seen.reshape(x.shape[0], -1), x)
        gated = layer.gate_up(self._norm(x, layer.norm_mid), self.operations.gate)
        return layer.down.add(gated, x)

    def rotation(self) -> Rotation:
        """Return the first block's rotation of queries and keys, over all positions."""
        return self._rotation(self.layers[0], self.tables)

    def _rotation(self, layer: Layer, turns: tuple[Tensor, Tensor]) -> Rotation:
        shape = self.shape
        norms = layer.q_norm, layer.k_norm
        return Rotation(*turns, *norms, shape.epsilon, shape.heads, shape.kv_heads)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return self.operations.norm(x, weight, self.shape.epsilon)


def _count(layers: list[Layer]) -> int:
    products = (part.weight for layer in layers for part in (layer.qkv, layer.out, layer.down))
    return sum(w.numel() for w in products) + sum(layer.gate_up.weights for layer in layers)


def greedy(logits: Tensor) -> Tensor:
    """Return the most likely token of each row, or -1 where its logits are not numbers.

    Without this check, such logits would silently make an arbitrary token the best one.
    """
    best = logits.max(-1)
    return best.indices.masked_fill(~best.values.isfinite(), -1)
