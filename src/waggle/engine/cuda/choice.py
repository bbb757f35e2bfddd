"""Which kernels may be used: all that prove right, or plainer ones by the user's wish.

`WAGGLE_KERNELS` in the environment: `auto` uses kernels of our own and compiled parts where they
compute what they must; `torch` only what torch itself brings; `plain` neither its ragged attention
nor captured steps. For telling a wrong kernel from a wrong model, and for cards that nobody tried.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from waggle.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "WAGGLE_KERNELS"
KINDS = ("plain", "torch", "auto")


def allowed(kind: str) -> bool:
    """Whether kernels of a kind (`torch` or `auto`) may be used.

    Raises:
        ConfigError: when the environment names no kind.
    """
    wish = os.environ.get(VARIABLE, "auto")
    if wish not in KINDS:
        raise ConfigError(f"{VARIABLE} is {wish!r}; set it to {', '.join(KINDS)} or not at all")
    return KINDS.index(kind) <= KINDS.index(wish)


def near(found: Tensor, exact: Tensor) -> bool:
    """Whether values are those computed in float32, to some roundings of their own type."""
    import torch

    slack = max(1e-5, 4 * torch.finfo(found.dtype).eps)
    return torch.allclose(found.float(), exact.float(), atol=slack, rtol=slack)
