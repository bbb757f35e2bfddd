"""Whether fused kernels compute what they must: tried on a few rows against float32."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.cuda import flash
from waggle.engine.cuda.choice import near
from waggle.engine.cuda.recall import Recalled, recalled
from waggle.engine.model.mixing import Mixer, Spans, Spin, plain
from waggle.engine.model.pointwise import gate

IDLE = 600
"""Rows without tokens that make many programs."""


class Smoother(Protocol):
    """What is done to each token alone."""

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Normalise the rows of [N, D]."""
        ...

    def gate(self, both: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second."""
        ...


class Fused(Mixer, Smoother, Protocol):
    """All of it."""

    def recalled(
        self, texts: Tensor, slots: Tensor, places: Tensor, answers: Tensor, count: int
    ) -> Tensor:
        """As `waggle.engine.cuda.recall.recalled`."""
        ...


def passed(
    made: Fused, spin: Spin, device: torch.device, dtype: torch.dtype, widths: tuple[int, int]
) -> bool:
    """Whether all kernels agree; `widths` are those of hidden states and of what is gated."""
    return (
        agrees(made, spin, device, dtype)
        and attends(made, spin, device, dtype)
        and smooth(made, device, dtype, *widths)
        and recalls(made.recalled, device)
    )


def agrees(made: Mixer, spin: Spin, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether steps give what float32 gives: several rows, one shared prefix, gaps."""
    width, lanes = spin.cos.shape[-1], spin.heads + 2 * spin.kv
    fused = flash.wave((3, lanes, width), 0.731, device, dtype)
    cache = flash.wave((3 * 160, 2 * spin.kv, width), 0.317, device, dtype)
    cache[160:200] = cache[:40]  # the first two rows begin alike
    places = torch.tensor([150, 130, 0], device=device)
    bases = torch.tensor([0, 160, 320], device=device)
    exact = _exactly(spin)
    wanted, kept = _reference(fused.float(), exact, places, bases, cache.float())
    more = torch.arange(4, device=device), F.pad(bases, (0, 1)), places + 1
    rows = Spans(*more, torch.zeros_like(bases), torch.tensor([40, 40, 0], device=device))
    held = cache.clone()
    found = made.step(fused, spin, places, rows, held, width**-0.5)
    turned, _ = plain(fused.float(), exact, places)
    apart = cache.clone()
    asked = made.place(fused, spin, places, bases + places, apart)
    pairs = ((found, wanted), (held, kept), (asked, turned), (apart, kept))
    return all(near(a, b) for a, b in pairs)


def attends(made: Mixer, spin: Spin, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether rows of some tokens see what they must: long, short and empty ones, out of order.

    Alone, and before so many empty ones that the kernel goes about it otherwise.
    """

    def whole(*values: int) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    width, scale = spin.cos.shape[-1], spin.cos.shape[-1] ** -0.5
    q = flash.wave((120, spin.heads, width), 0.731, device, dtype)
    cache = flash.wave((4 * 240, 2 * spin.kv, width), 0.317, device, dtype)
    cache[240:390] = cache[480:630]  # two rows begin alike
    keys, values = cache.chunk(2, dim=1)
    seen = whole(0, 90, 90, 117, 119, 120), whole(480, 0, 240, 0, 720), whole(230, 0, 190, 2, 131)
    exact = flash.reference(q.float(), keys.float(), values.float(), *seen, (120, 240), scale)
    parts = *seen, whole(480, 0, 480, 0, 720), whole(150, 0, 150, 0, 70)
    for more in (0, IDLE):
        starts, *others = parts
        rows = Spans(
            torch.cat((starts, starts[-1:].expand(more))),
            *(torch.cat((part, part.new_zeros(more))) for part in others),
        )
        if not near(made.attend(q, keys, values, rows, scale), exact):
            return False
    return True


def recalls(made: Recalled, device: torch.device) -> bool:
    """Whether the same is recalled: from a row's own text, which loops, from answers, or not."""
    steps = torch.arange(3 * 300, device=device)
    texts = (steps * steps // 7 % 23).int().view(3, 300)
    answers = (steps[:700] * 5 % 19 - 1).int()
    slots, places = (torch.tensor(rows, device=device) for rows in ([2, 0, 2, 1], [290, 30, 5, 0]))
    texts[0, 20:31] = texts[0, 9:20]
    wanted = recalled(texts, slots, places, answers, 7)
    return made(texts, slots, places, answers, 7).tolist() == wanted.tolist()


def _exactly(spin: Spin) -> Spin:
    """Return the same turns and norms in float32."""
    return spin._replace(
        cos=spin.cos.float(),
        sin=spin.sin.float(),
        q_norm=None if spin.q_norm is None else spin.q_norm.float(),
        k_norm=None if spin.k_norm is None else spin.k_norm.float(),
    )


def smooth(
    made: Smoother, device: torch.device, dtype: torch.dtype, hidden: int = 576, gated: int = 1536
) -> bool:
    """Whether norms and gates are those of float32, on widths that are no powers of two."""
    x, weight = (
        flash.wave((5, hidden), 0.37, device, dtype),
        flash.wave((hidden,), 0.11, device, dtype),
    )
    wide = flash.wave((3, 2 * gated), 0.7, device, dtype)
    pairs = (
        (made.norm(x, weight, 1e-5), F.rms_norm(x.float(), (hidden,), weight.float(), 1e-5)),
        (made.gate(wide), gate(wide.float())),
    )
    return all(near(a, b) for a, b in pairs)


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
