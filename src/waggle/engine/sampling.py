"""Sampling from a softmax by the Gumbel-max trick, with noise that belongs to each request.

The token drawn is the argmax of logits / temperature + noise over the allowed tokens. The noise is
Gumbel distributed and a pure function of the request's key, of the token's position in the answer
and of the token, by integer hashes that are equal on every device. So drafts are verified against
a draw as they are against a greedy choice, and an answer can be reproduced. Invariant: a draw
depends on the logits, the key and the position of its own state, never on other states in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from waggle.engine.request import Sampling

OWN = 2
"""The number of columns per state: the seed of its noise and the bits of its temperature."""
LARGEST = 1 - 2**-24
"""The largest number below one in float32."""


class SampledTokens(NamedTuple):
    """The tokens drawn and their log-probabilities."""

    tokens: list[int]
    logprobs: list[float]


DrawFuture = Callable[[], SampledTokens]
"""A callable that waits for draws computed on a device and returns them."""


def own_columns(samplings: Sequence[Sampling], positions: Sequence[Sequence[int]]) -> Tensor:
    """Return the seed and the temperature of each state, [N, OWN], on the host.

    Args:
        samplings: one for each request.
        positions: for each request, the position in the answer of each of its states' tokens.
    """
    counts = [*map(len, positions)]
    keys = np.repeat(np.array([s.key for s in samplings], dtype=np.int64), counts)
    places = np.array([place for some in positions for place in some], dtype=np.int64)
    columns = torch.empty((len(places), OWN), dtype=torch.int64)
    columns[:, 0] = mixed(torch.from_numpy(keys), torch.from_numpy(places))
    heat = np.repeat(np.array([s.temperature for s in samplings], dtype=np.float64), counts)
    columns[:, 1] = torch.from_numpy(heat.view(np.int64))
    return columns


def mixed(seeds: Tensor, keys: Tensor) -> Tensor:
    """Hash each (seed, key) to 64 well-mixed bits: `core.seeds.mix` for tensors."""
    z = (keys + 1).mul_(_signed(0x9E3779B97F4A7C15)) + seeds
    z = (z ^ _shifted(z, 30)).mul_(_signed(0xBF58476D1CE4E5B9))
    z = z.bitwise_xor_(_shifted(z, 27)).mul_(_signed(0x94D049BB133111EB))
    return z.bitwise_xor_(_shifted(z, 31))


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros, which torch does not do for negative numbers."""
    return (z >> bits).bitwise_and_((1 << 64 - bits) - 1)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def gumbel(seeds: Tensor, tokens: Tensor) -> Tensor:
    """Return the noise of tokens: -log(-log(1 - u)) with u uniform and at least 2**-63.

    The smallest u give the largest noise and keep the full precision of float32, so that unlikely
    tokens are drawn as often as they should be.
    """
    bits = _shifted(mixed(seeds, tokens), 1).bitwise_or_(1)
    uniform = bits.float().mul_(2.0**-63).clamp_max_(LARGEST)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def draw(logits: Tensor, tokens: Tensor, own: Tensor, closed: Tensor | None = None) -> Tensor:
    """Draw a token for each state; return it and its log-probability, [N, 2] in float64.

    The token is -1 where logits are not numbers.

    Args:
        logits: the logits of the candidate tokens of each state, [N, W].
        tokens: the candidate tokens, [N, W] or [1, W].
        own: the columns of each state (see `own_columns`).
        closed: mask of the candidates that a state may not take, [N, W].
    """
    scaled = logits.float() / own[:, 1:].view(torch.float64).float()
    if closed is not None:
        scaled = scaled.masked_fill_(closed, float("-inf"))
    total = scaled.logsumexp(-1, keepdim=True)
    best = (scaled + gumbel(own[:, :1], tokens)).argmax(-1, keepdim=True)
    token = tokens.expand(scaled.shape).gather(1, best).masked_fill_(~total.isfinite(), -1)
    return torch.cat((token.double(), (scaled.gather(1, best) - total).double()), 1)


def draw_among(logits: Tensor, given: Tensor) -> Tensor:
    """Draw from all logits by lists of allowed tokens, each preceded by its state's own columns.

    Short lists are padded by repeating their first token.
    """
    tokens = given[:, OWN:]
    repeated = tokens == tokens[:, :1]
    repeated[:, 0] = False
    return draw(logits.gather(1, tokens), tokens, given[:, :OWN], repeated)


def read_draws(found: Tensor) -> SampledTokens:
    """Return the result of `draw` as lists on the host."""
    return SampledTokens(found[:, 0].long().tolist(), found[:, 1].tolist())
