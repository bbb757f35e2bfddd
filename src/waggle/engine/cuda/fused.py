"""Kernels of our own for what lies between a block's products, and whether they may be used.

They are tried against plain torch when a decoder is made, and left aside where they fail or differ
(see `waggle.engine.cuda.selfcheck`). Invariant: same function, fewer launches.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from waggle.engine.cuda import selfcheck as fused_trial
from waggle.engine.cuda.choice import allowed
from waggle.engine.cuda.recall import ORDER
from waggle.engine.model.mixing import Spans, Spin

GATED = 2048
"""Values that a program gates."""
AT_ONCE = 16
"""Fewest queries that a matrix unit takes."""
KEYS = 32
"""Keys that a program of the step kernel reads at a time: a warp, which waits for no other."""
SPLITS = ((64, 8), (256, 4), (1024, 2))
"""With up to so many rows and key heads, keys of each are split among so many programs."""
LANES = 64
"""Queries of one program where rows have several tokens."""
NEAR, FAR = (64, 3), (128, 2)
"""Keys that it reads at a time, and how many times ahead."""
FEW, NARROW = 512, 64
"""It reads far where there are few programs, if heads are narrow: small cards have little room."""
LOOKED_AT = 1024
"""Places that the recalling kernel looks at together."""


class Kernels:
    """The fused kernels."""

    def __init__(self) -> None:
        self._mix: Any = import_module("waggle.engine.cuda.mix_kernels")
        self._look: Any = import_module("waggle.engine.cuda.attend_kernels")
        self._find: Any = import_module("waggle.engine.cuda.recall_kernels")
        self._counter: Tensor | None = None
        """How many parts of a sum are there; all of it is zero between launches."""

    def recalled(
        self, texts: Tensor, slots: Tensor, places: Tensor, answers: Tensor, count: int
    ) -> Tensor:
        """Find what followed the place that is most like each row's last tokens."""
        out = torch.empty((len(slots), count), dtype=torch.int32, device=texts.device)
        own = texts.shape[1]
        self._find.recall[(len(slots),)](
            texts, slots, places, answers, out, own, own + len(answers),
            COUNT=count, WIDTH=_power(count), ORDER=ORDER, BLOCK=LOOKED_AT, num_warps=8,
        )  # fmt: skip
        return out

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Normalise the rows of [N, D]."""
        count, width = x.shape
        out = torch.empty_like(x)
        self._mix.norm[(count,)](
            x, weight, out, epsilon, WIDTH=width, BLOCK=_power(width), num_warps=4
        )
        return out

    def gate(self, both: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second."""
        count, width = both.shape[0], both.shape[1] // 2
        out = torch.empty((count, width), dtype=both.dtype, device=both.device)
        block = min(_power(width), GATED)
        self._mix.gate[(count, -(-width // block))](
            both, out, WIDTH=width, BLOCK=block, num_warps=4
        )
        return out

    def place(
        self, fused: Tensor, spin: Spin, angles: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        """Turn and keep any number of tokens; return their queries."""
        count, lanes, width = fused.shape
        queries = torch.empty((count, spin.heads, width), dtype=fused.dtype, device=fused.device)
        self._mix.place[(count,)](
            fused, spin.cos, spin.sin, angles, flat, cache, queries,
            *_norms(spin, fused), spin.epsilon,
            HEADS=spin.heads, KV=spin.kv, WIDTH=width, LANES=_power(lanes),
            NORMED=spin.q_norm is not None, num_warps=4,
        )  # fmt: skip
        return queries

    def step(
        self, fused: Tensor, spin: Spin, angles: Tensor, rows: Spans, cache: Tensor, scale: float
    ) -> Tensor:
        """Turn, keep and attend for rows of one new token each."""
        count, _, width = fused.shape
        out = torch.empty((count, spin.heads, width), dtype=fused.dtype, device=fused.device)
        lanes, groups = max(AT_ONCE, _power(spin.heads // spin.kv)), count * spin.kv
        splits = next((parts for most, parts in SPLITS if groups <= most), 1)
        size = groups * splits * lanes * (width + 2) if splits > 1 else 0
        parts = torch.empty(size, dtype=torch.float32, device=fused.device)
        self._look.step[(splits, spin.kv, count)](
            fused, spin.cos, spin.sin, angles, rows.bases, rows.leads, rows.lengths, cache, out,
            self._counted(fused), parts,
            *_norms(spin, fused), spin.epsilon, scale,
            HEADS=spin.heads, KV=spin.kv, WIDTH=width, LANES=lanes, BLOCK=KEYS, SPLITS=splits,
            NORMED=spin.q_norm is not None, num_warps=max(1, width // 64), num_stages=3,
        )  # fmt: skip
        return out

    def _counted(self, near: Tensor) -> Tensor:
        if self._counter is None:  # where a graph is being recorded it would be the graph's own
            most = SPLITS[-1][0]
            self._counter = torch.zeros(most, dtype=torch.int32, device=near.device)
        return self._counter

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rows: Spans, scale: float) -> Tensor:
        """Attend with any number of tokens of each row; a key is read once for all its heads."""
        heads, kv, width = q.shape[1], k.shape[1], q.shape[2]
        count, lanes = rows.used.shape[0], max(LANES, _power(heads // kv))
        tiles = q.shape[0] // (lanes // (heads // kv)) + count
        block, stages = FAR if tiles * kv <= FEW and width <= NARROW else NEAR
        out = torch.empty_like(q)
        self._look.span[(tiles, kv)](
            q, k, v, *rows, out, count, scale,
            HEADS=heads, KV=kv, WIDTH=width, STRIDE=k.stride(0), LANES=lanes, BLOCK=block,
            ROWS=max(AT_ONCE, _power(count)), num_warps=4, num_stages=stages,
        )  # fmt: skip
        return out


def _norms(spin: Spin, other: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights of both norms; where there are none, what stands in is never read."""
    if spin.q_norm is None or spin.k_norm is None:
        return other, other
    return spin.q_norm, spin.k_norm


def _power(value: int) -> int:
    return 1 << (value - 1).bit_length()


def kernels(
    device: torch.device, dtype: torch.dtype, spin: Spin, widths: tuple[int, int]
) -> Kernels | None:
    """Return the kernels where they are to be had and compute what they must.

    `widths` are those of hidden states and of what is gated.
    """
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return None
    if not allowed("auto"):
        return None
    try:
        made = Kernels()
        with torch.inference_mode():
            return made if fused_trial.passed(made, spin, device, dtype, widths) else None
    except Exception:  # no Triton, an unknown card: plain torch works everywhere
        return None
