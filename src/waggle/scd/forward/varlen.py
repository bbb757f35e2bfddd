"""Variable-length flash attention of torch, under any of its signatures.

Sequences lie end to end; if a sequence has more keys than queries, its queries are its last tokens.
The function is new and changes between releases, so it is checked once per dtype, forward and
backward, against plain attention. Invariant: `attend` is called only if `usable` returns True.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.core.errors import ConfigError

try:
    from torch.nn.attention import varlen

    _function: Any = varlen.varlen_attn
except (ImportError, AttributeError):
    _function = None
_known = inspect.signature(_function).parameters if _function is not None else {}
# Plain flags, so that a compiled layer need not inspect the signature.
_WINDOWED = "window_size" in _known
_SCALED = "scale" in _known
_GROUPED = "enable_gqa" in _known


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def usable(kind: str, dtype: torch.dtype) -> bool:
    """Return whether flash attention works on a kind of device and agrees with plain attention."""
    return kind == "cuda" and dtype in (torch.bfloat16, torch.float16) and _works(dtype)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _takes_grouped_keys(kind: str, dtype: torch.dtype) -> bool:
    """Return whether keys with fewer heads are accepted without an option for grouped queries."""
    return kind == "cuda" and _works(dtype, repeated=False)


@lru_cache(maxsize=8)
def _works(dtype: torch.dtype, *, repeated: bool = True) -> bool:
    try:
        return _function is not None and _agrees(dtype, repeated=repeated)
    except (RuntimeError, TypeError, NotImplementedError, ValueError, AssertionError):
        return False


def _agrees(dtype: torch.dtype, *, repeated: bool) -> bool:
    """Compare values and gradients for one sequence with three more keys than queries."""
    generator = torch.Generator("cuda").manual_seed(0)

    def drawn(rows: int, heads: int) -> Tensor:
        made = torch.randn(rows, heads, 64, generator=generator, device="cuda").to(dtype)
        return made.requires_grad_()

    with torch.enable_grad():
        q, k, v = drawn(5, 2), drawn(8, 1), drawn(8, 1)
        queries = torch.tensor([0, 5, 5], dtype=torch.int32, device="cuda")
        keys = torch.tensor([0, 8, 8], dtype=torch.int32, device="cuda")
        found = _attend(q, k, v, queries, keys, 64, None, None, repeated=repeated)
        mask = torch.ones(5, 8, dtype=torch.bool, device="cuda").tril(3)
        known = F.scaled_dot_product_attention(
            q.transpose(0, 1), k.transpose(0, 1).expand(2, -1, -1),
            v.transpose(0, 1).expand(2, -1, -1), attn_mask=mask,
        ).transpose(0, 1)  # fmt: skip
        pairs = [(found, known)]
        for one, other in zip(*(torch.autograd.grad(x.float().square().sum(), (q, k, v))
                                for x in (found, known)), strict=True):  # fmt: skip
            pairs.append((one, other))
    return all(torch.allclose(a.float(), b.float(), atol=0.1, rtol=0.1) for a, b in pairs)


def attend(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int,
    scaling: float | None, window: int | None = None,
) -> Tensor:  # fmt: skip
    """Attend causally within each sequence; (rows, heads, width) states.

    Args:
        q: queries.
        k: keys, with fewer heads for grouped queries.
        v: values.
        bounds: start of each sequence's queries, then the end.
        keys: start of each sequence's keys, then the end.
        longest: upper bound on the lengths of the sequences.
        scaling: factor on scores; by default one over the square root of the width.
        window: number of last tokens a token attends to, itself included; by default all.

    Raises:
        ConfigError: if this torch has no sliding window.
    """
    if window is not None and window < longest and not _WINDOWED:
        raise ConfigError("this torch has no sliding window on the GPU; choose another backbone")
    repeated = _GROUPED or not _takes_grouped_keys(q.device.type, q.dtype)
    return _attend(q, k, v, bounds, keys, longest, scaling, window, repeated=repeated)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, keys: Tensor, longest: int,
    scaling: float | None, window: int | None, *, repeated: bool,
) -> Tensor:  # fmt: skip
    left = -1 if window is None else window - 1
    options: dict[str, Any] = {"window_size": (left, 0)} if _WINDOWED else {"is_causal": True}
    if scaling is not None and _SCALED:
        options["scale"] = scaling
    elif scaling is not None and abs(scaling - q.shape[-1] ** -0.5) > 1e-6:
        q = q * (scaling * q.shape[-1] ** 0.5)
    groups = q.shape[1] // k.shape[1]
    if groups > 1 and _GROUPED:
        options["enable_gqa"] = True
    elif groups > 1 and repeated:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    found: Tensor = _function(
        q.contiguous(), k.contiguous(), v.contiguous(), bounds, keys, longest, longest, **options
    )
    return found
