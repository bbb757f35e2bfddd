"""Dropout by a hash of the place, for compiled adapters of large backbones.

An adapter drops inputs of every projection, each on its own: billions of draws per update. The
counter-based generator of a compiled dropout costs about a hundred instructions for each of them
and keeps its mask; a hash costs about ten and is taken again in the backward pass. Invariant: the
words that name a mask are drawn from torch's generator, so a seed fixes it, and modules differ.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_SPREAD, _FIRST, _SECOND = -1640531527, -2048144789, -1028477387
"""Golden ratio, and the multipliers of a well-known 32-bit finalizer, as signed numbers."""

WORDS = 4
"""Words of a module: the first two are used, all four keep those of every module aligned."""


def dropped(states: Tensor, share: float, words: Tensor) -> Tensor:
    """Drop a share of some states (rows, width), scale the others up; two words name the mask.

    Numbers of 32 bits wrap around, and shifts fill with the sign: it is cut off. A word is mixed in
    before the first product: a compiler folds products of bare places into constants too large.
    """
    rows, width = states.shape
    places = torch.arange(rows * width, dtype=torch.int32, device=states.device)
    mixed = (places ^ words[0]) * _SPREAD
    mixed = (mixed ^ ((mixed >> 16) & 0xFFFF)) * _FIRST
    mixed = (mixed ^ ((mixed >> 13) & 0x7FFFF) ^ words[1]) * _SECOND
    mixed = mixed ^ ((mixed >> 16) & 0xFFFF)
    kept = mixed.view(rows, width) >= round(share * 2**32) - 2**31
    return torch.where(kept, states * (1 / (1 - share)), 0.0)


def install(decoder: Any, modules: list[Any]) -> None:
    """Give modules new words before every training pass of a decoder."""

    def draw(_decoder: Any, _args: Any, _kwargs: Any) -> None:
        if decoder.training:
            device = next(decoder.parameters()).device
            shape = (len(modules), WORDS)
            words = torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32, device=device)
            for module, own in zip(modules, words, strict=True):
                module.words = own

    for module in modules:
        module.register_buffer("words", torch.zeros(WORDS, dtype=torch.int32), persistent=False)
    decoder.register_forward_pre_hook(draw, with_kwargs=True)


def drop(module: nn.Module, states: Tensor, words: Tensor | None) -> Tensor:
    """Drop states as a module says, by a hash where there are words for it."""
    if words is None or not isinstance(module, nn.Dropout) or not module.training or not module.p:
        found: Tensor = module(states)
        return found
    return dropped(states, module.p, words)
