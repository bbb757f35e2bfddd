"""What lies between a block's two products, in as few launches as the device allows.

Queries and keys are normalised where the model does that, turned by their positions, and kept; rows
of one new token attend in the same launch. `plain` says in torch what the kernels must compute and
is what tests run elsewhere. Kernels are tried against it when a backend is made, and left aside
where they fail or differ. Invariant: same function, fewer launches.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine import flash
from waggle.engine.choice import allowed, near
from waggle.engine.pointwise import gate, rotate

BLOCK = 64
"""Keys that a program of the step kernel reads at a time."""
TILE = 16
"""Tokens of a row that a program attends with."""
GATED = 2048
"""Values that a program gates."""
_AT_ONCE = 16
"""Fewest queries that a matrix unit takes."""


class Spin(NamedTuple):
    """How a block treats its queries and keys before they meet."""

    cos: Tensor
    sin: Tensor
    """Tables by position, [L, 1, D]; the sign of the first half is in the sines."""
    q_norm: Tensor | None
    k_norm: Tensor | None
    epsilon: float
    heads: int
    kv: int


class Steps(NamedTuple):
    """Rows of one new token each: where their caches begin, and a shared copy of their prefix."""

    bases: Tensor
    leads: Tensor
    lengths: Tensor


def plain(fused: Tensor, spin: Spin, angles: Tensor) -> tuple[Tensor, Tensor]:
    """Return turned queries, and turned keys with values, of [N, heads + 2 kv, D]."""
    heads, kv = spin.heads, spin.kv
    if spin.q_norm is not None and spin.k_norm is not None:
        q, k, v = torch.split(fused, [heads, kv, kv], dim=1)
        width = (q.shape[-1],)
        q = F.rms_norm(q, width, spin.q_norm, spin.epsilon)
        k = F.rms_norm(k, width, spin.k_norm, spin.epsilon)
        fused = torch.cat((q, k, v), dim=1)
    return rotate(fused, spin.cos[angles], spin.sin[angles], heads, kv)


class Mixer(Protocol):
    """What is done for rows of caches that lie one after the other."""

    def place(
        self, fused: Tensor, spin: Spin, angles: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        """Turn and keep any number of tokens; return their queries."""
        ...

    def step(
        self, fused: Tensor, spin: Spin, angles: Tensor, rows: Steps, cache: Tensor, scale: float
    ) -> Tensor:
        """Turn, keep and attend for rows of one new token each."""
        ...

    @property
    def attend(self) -> flash.Varlen:
        """Attends with a few tokens of each row, as `waggle.engine.flash` does with many."""
        ...


class Kernels:
    """The fused kernels."""

    def __init__(self) -> None:
        self._made: Any = import_module("waggle.engine.mix_kernels")

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Normalise the rows of [N, D]."""
        count, width = x.shape
        out = torch.empty_like(x)
        self._made.norm[(count,)](
            x, weight, out, epsilon, WIDTH=width, BLOCK=_power(width), num_warps=4
        )
        return out

    def gate(self, both: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second."""
        count, width = both.shape[0], both.shape[1] // 2
        out = torch.empty((count, width), dtype=both.dtype, device=both.device)
        block = min(_power(width), GATED)
        self._made.gate[(count, -(-width // block))](
            both, out, WIDTH=width, BLOCK=block, num_warps=4
        )
        return out

    def place(
        self, fused: Tensor, spin: Spin, angles: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        """Turn and keep any number of tokens; return their queries."""
        count, lanes, width = fused.shape
        queries = torch.empty((count, spin.heads, width), dtype=fused.dtype, device=fused.device)
        self._made.place[(count,)](
            fused, spin.cos, spin.sin, angles, flat, cache, queries,
            *_norms(spin, fused), spin.epsilon,
            HEADS=spin.heads, KV=spin.kv, WIDTH=width, LANES=_power(lanes),
            NORMED=spin.q_norm is not None, num_warps=4,
        )  # fmt: skip
        return queries

    def step(
        self, fused: Tensor, spin: Spin, angles: Tensor, rows: Steps, cache: Tensor, scale: float
    ) -> Tensor:
        """Turn, keep and attend for rows of one new token each."""
        count, _, width = fused.shape
        out = torch.empty((count, spin.heads, width), dtype=fused.dtype, device=fused.device)
        self._made.step[(count, spin.kv)](
            fused, spin.cos, spin.sin, angles, *rows, cache, out,
            *_norms(spin, fused), spin.epsilon, scale,
            HEADS=spin.heads, KV=spin.kv, WIDTH=width,
            LANES=max(_AT_ONCE, _power(spin.heads // spin.kv)), BLOCK=BLOCK,
            NORMED=spin.q_norm is not None, num_warps=4, num_stages=3,
        )  # fmt: skip
        return out

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        starts_q: Tensor,
        starts_k: Tensor,
        used: Tensor,
        longest: tuple[int, int],
        scale: float,
    ) -> Tensor:
        """Attend with a few tokens of each row; a key is read once for all heads that share it."""
        heads, kv, width = q.shape[1], k.shape[1], q.shape[2]
        out = torch.empty_like(q)
        self._made.span[(used.shape[0], kv, -(-longest[0] // TILE))](
            q, k, v, starts_q, starts_k, used, out, scale,
            HEADS=heads, KV=kv, WIDTH=width, STRIDE=k.stride(0), TILE=TILE,
            SHARE=_power(heads // kv), BLOCK=BLOCK, num_warps=4, num_stages=3,
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
            good = agrees(made, spin, device, dtype) and smooth(made, device, dtype, *widths)
            sizes = spin.heads, spin.kv, spin.cos.shape[-1]
            return made if good and flash.agrees(device, dtype, *sizes, made.attend) else None
    except Exception:  # no Triton, an unknown card: plain torch works everywhere
        return None


def agrees(made: Mixer, spin: Spin, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernels give what float32 gives: several rows, one shared prefix, gaps."""
    width, lanes = spin.cos.shape[-1], spin.heads + 2 * spin.kv
    fused = _wave((3, lanes, width), 0.731, device, dtype)
    cache = _wave((3 * 160, 2 * spin.kv, width), 0.317, device, dtype)
    cache[160:200] = cache[:40]  # the first two rows begin alike
    places = torch.tensor([150, 130, 0], device=device)
    bases = torch.tensor([0, 160, 320], device=device)
    exact = _exactly(spin)
    wanted, kept = _reference(fused.float(), exact, places, bases, cache.float())
    rows = Steps(bases, torch.zeros_like(bases), torch.tensor([40, 40, 0], device=device))
    held = cache.clone()
    found = made.step(fused, spin, places, rows, held, width**-0.5)
    turned, _ = plain(fused.float(), exact, places)
    apart = cache.clone()
    asked = made.place(fused, spin, places, bases + places, apart)
    pairs = ((found, wanted), (held, kept), (asked, turned), (apart, kept))
    return all(near(a, b) for a, b in pairs)


def _exactly(spin: Spin) -> Spin:
    """Return the same turns and norms in float32."""
    return spin._replace(
        cos=spin.cos.float(),
        sin=spin.sin.float(),
        q_norm=None if spin.q_norm is None else spin.q_norm.float(),
        k_norm=None if spin.k_norm is None else spin.k_norm.float(),
    )


def smooth(
    made: Kernels, device: torch.device, dtype: torch.dtype, hidden: int = 576, gated: int = 1536
) -> bool:
    """Whether norms and gates are those of float32, on widths that are no powers of two."""
    x, weight = _wave((5, hidden), 0.37, device, dtype), _wave((hidden,), 0.11, device, dtype)
    wide = _wave((3, 2 * gated), 0.7, device, dtype)
    pairs = (
        (made.norm(x, weight, 1e-5), F.rms_norm(x.float(), (hidden,), weight.float(), 1e-5)),
        (made.gate(wide), gate(wide.float())),
    )
    return all(near(a, b) for a, b in pairs)


def _wave(shape: tuple[int, ...], step: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    count = 1
    for size in shape:
        count *= size
    values = torch.arange(count, device=device, dtype=torch.float32)
    return (values * step).sin().to(dtype).view(shape)


def _reference(
    fused: Tensor, spin: Spin, places: Tensor, bases: Tensor, cache: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what one new token of each row sees, and the cache behind it."""
    q, kv = plain(fused, spin, places)
    cache.index_copy_(0, bases + places, kv)
    groups, out = spin.heads // spin.kv, torch.empty_like(q)
    for row, (base, place) in enumerate(zip(bases.tolist(), places.tolist(), strict=True)):
        held = cache[base : base + place + 1].float()
        keys, values = (part.repeat_interleave(groups, dim=1) for part in held.chunk(2, dim=1))
        weights = torch.einsum("hd,khd->hk", q[row].float(), keys) * q.shape[-1] ** -0.5
        out[row] = torch.einsum("hk,khd->hd", weights.softmax(-1), values).to(q.dtype)
    return out, cache
