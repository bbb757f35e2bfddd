"""The launches of the Triton kernels, and the decision whether to use them.

All kernels are compared with float32 when a backend is created, and none is used if one fails or
differs (see `selfcheck`). `WAGGLE_KERNELS=plain` in the environment disables them, too, together
with captured steps: it separates a wrong kernel from a wrong model, and helps on untested cards.
Invariant: same function, fewer launches.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.engine.cuda import selfcheck
from waggle.engine.cuda.greedy_loop import ORDER
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_rows import Spans
from waggle.engine.model.rope import Rotation

VARIABLE = "WAGGLE_KERNELS"
KINDS = ("plain", "auto")
HALF = (torch.bfloat16, torch.float16)
GATED = 2048
"""The most values that one program gates."""
LEAST_QUERIES = 16
"""The fewest queries that a matrix unit accepts."""
STEP_KEYS = 32
"""Keys that a step program reads per iteration: one warp, which waits for no other."""
SPLITS = ((64, 8), (256, 4), (1024, 2))
"""Pairs: for up to this many rows times key heads, the programs that share the keys of each."""
QUERIES = 64
"""Queries of one program if rows have several tokens."""
NEAR, FAR = (64, 3), (128, 2)
"""Keys that such a program reads per iteration, and its number of pipeline stages."""
FEW, NARROW = 512, 64
"""`FAR` is used up to this many programs and this head width: small cards have little room."""
LOOKUP = 1024
"""Positions that the n-gram kernel compares per iteration."""


def allowed() -> bool:
    """Return whether our kernels may be used.

    Raises:
        ConfigError: if the environment variable has an unknown value.
    """
    kind = os.environ.get(VARIABLE, "auto")
    if kind not in KINDS:
        raise ConfigError(f"{VARIABLE} is {kind!r}; set it to {' or '.join(KINDS)} or not at all")
    return kind == "auto"


class Kernels:
    """Our Triton kernels, each with its launch."""

    def __init__(self) -> None:
        self._triton: Any = import_module("waggle.engine.cuda.triton_kernels")
        self._counter: Tensor | None = None
        """The number of stored parts of each sum; all zeros between launches."""

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Scale the rows of [N, D] to a mean square of one, and by the weights."""
        count, width = x.shape
        out = torch.empty_like(x)
        self._triton.norm[(count,)](
            x, weight, out, epsilon, WIDTH=width, BLOCK=_power(width), num_warps=4
        )
        return out

    def gate(self, gate_up: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second half."""
        count, width = gate_up.shape[0], gate_up.shape[1] // 2
        out = torch.empty((count, width), dtype=gate_up.dtype, device=gate_up.device)
        block = min(_power(width), GATED)
        self._triton.gate[(count, -(-width // block))](
            gate_up, out, WIDTH=width, BLOCK=block, num_warps=4
        )
        return out

    def place(
        self, qkv: Tensor, rotation: Rotation, positions: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        """Rotate any number of tokens, store their keys and values; return their queries."""
        count, lanes, width = qkv.shape
        queries = torch.empty((count, rotation.heads, width), dtype=qkv.dtype, device=qkv.device)
        self._triton.place[(count,)](
            qkv, rotation.cos, rotation.sin, positions, flat, cache, queries,
            *_norms(rotation, qkv), rotation.epsilon,
            HEADS=rotation.heads, KV=rotation.kv_heads, WIDTH=width, LANES=_power(lanes),
            NORMED=rotation.q_norm is not None, num_warps=4,
        )  # fmt: skip
        return queries

    def step(
        self,
        qkv: Tensor,
        rotation: Rotation,
        positions: Tensor,
        rows: Spans,
        cache: Tensor,
        scale: float,
    ) -> Tensor:
        """Rotate, store and attend for rows of one new token each."""
        count, _, width = qkv.shape
        heads, kv_heads = rotation.heads, rotation.kv_heads
        out = torch.empty((count, heads, width), dtype=qkv.dtype, device=qkv.device)
        lanes, groups = max(LEAST_QUERIES, _power(heads // kv_heads)), count * kv_heads
        splits = next((parts for most, parts in SPLITS if groups <= most), 1)
        size = groups * splits * lanes * (width + 2) if splits > 1 else 0
        parts = torch.empty(size, dtype=torch.float32, device=qkv.device)
        self._triton.step[(splits, kv_heads, count)](
            qkv, rotation.cos, rotation.sin, positions, rows.bases, rows.leads, rows.lengths,
            cache, out, self._zeros(qkv.device), parts,
            *_norms(rotation, qkv), rotation.epsilon, scale,
            HEADS=heads, KV=kv_heads, WIDTH=width, LANES=lanes, BLOCK=STEP_KEYS, SPLITS=splits,
            NORMED=rotation.q_norm is not None, num_warps=max(1, width // 64), num_stages=3,
        )  # fmt: skip
        return out

    def _zeros(self, device: torch.device) -> Tensor:
        if self._counter is None:  # created during a graph capture it would belong to the graph
            self._counter = torch.zeros(SPLITS[-1][0], dtype=torch.int32, device=device)
        return self._counter

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rows: Spans, scale: float) -> Tensor:
        """Attend with any number of tokens per row; a key is read once for all its query heads."""
        heads, kv, width = q.shape[1], k.shape[1], q.shape[2]
        count, lanes = rows.used.shape[0], max(QUERIES, _power(heads // kv))
        tiles = q.shape[0] // (lanes // (heads // kv)) + count
        block, stages = FAR if tiles * kv <= FEW and width <= NARROW else NEAR
        out = torch.empty_like(q)
        self._triton.attend[(tiles, kv)](
            q, k, v, *rows, out, count, scale,
            HEADS=heads, KV=kv, WIDTH=width, STRIDE=k.stride(0), LANES=lanes, BLOCK=block,
            ROWS=max(LEAST_QUERIES, _power(count)), num_warps=4, num_stages=stages,
        )  # fmt: skip
        return out

    def propose(
        self, texts: Tensor, slots: Tensor, places: Tensor, history: Tensor, count: int
    ) -> Tensor:
        """Return the tokens after the best match of each row's last tokens ([rows, count])."""
        out = torch.empty((len(slots), count), dtype=torch.int32, device=texts.device)
        own = texts.shape[1]
        self._triton.propose[(len(slots),)](
            texts, slots, places, history, out, own, own + len(history),
            COUNT=count, WIDTH=_power(count), ORDER=ORDER, BLOCK=LOOKUP, num_warps=8,
        )  # fmt: skip
        return out


def _norms(rotation: Rotation, other: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights of both norms, or placeholders that are never read."""
    if rotation.q_norm is None or rotation.k_norm is None:
        return other, other
    return rotation.q_norm, rotation.k_norm


def _power(value: int) -> int:
    return 1 << (value - 1).bit_length()


def triton_kernels(
    device: torch.device, dtype: torch.dtype, rotation: Rotation, shape: Shape
) -> Kernels | None:
    """Return our kernels if Triton is available and they pass the self-check, else None."""
    if device.type != "cuda" or dtype not in HALF or not allowed():
        return None
    try:
        kernels = Kernels()
        with torch.inference_mode():
            right = selfcheck.passed(kernels, rotation, device, dtype, shape)
        return kernels if right else None
    except Exception:  # no Triton or an unknown card: use plain torch, which works everywhere
        return None
