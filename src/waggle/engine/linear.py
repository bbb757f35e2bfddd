"""Matrix products in the layout the machine likes best.

On a CPU the weights are reordered once into the blocked layout of the matrix library, which spares
a reordering per call and nearly doubles small-batch speed; elsewhere, and in float32 with many
rows, this is an ordinary product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_TYPICAL_ROWS = 64
_PACKED = {torch.bfloat16: 1 << 62, torch.float32: 128}
"""Most rows with which the blocked layout pays, by dtype."""


class Linear:
    """A fixed weight, an optional bias, and the fastest product for their device and dtype."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight.contiguous()
        self.bias = bias
        self._packed = _pack(self.weight)

    @property
    def packed(self) -> Any:
        """The weight in the layout of the matrix library, where it has one."""
        return self._packed

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x @ weight.T + bias`."""
        if self._packed is None or len(x) > _PACKED[x.dtype]:
            return F.linear(x, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, self.bias, "none", [], ""
        )
        return product

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return `residual + x @ weight.T + bias`, in one kernel where the device has it.

        The residual may be overwritten: otherwise the library first copies it to the result.
        """
        if self.weight.is_cuda and self.bias is None:
            return residual.addmm_(x, self.weight.t())
        if self._packed is not None and self.weight.dtype == torch.bfloat16 and _fuses():
            return _onto(x, residual, self._packed, self.bias, "add")
        return residual + self(x)


class GateUp:
    """Two products of one input, of which the first, through silu, gates the second."""

    def __init__(self, gate: Tensor, up: Tensor) -> None:
        self._parts: tuple[Linear, Linear] | None = None
        self._whole: Linear | None = None
        if gate.device.type == "cpu" and gate.dtype == torch.bfloat16 and _fuses():
            self._parts = Linear(gate), Linear(up)
        else:
            self._whole = Linear(torch.cat((gate, up)))
        self.weights = gate.numel() + up.numel()

    def __call__(self, x: Tensor, close: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the gated product; `close` gates both products side by side."""
        if self._whole is not None:
            return close(self._whole(x))
        assert self._parts is not None
        gate, up = (part.packed for part in self._parts)
        opened: Tensor = torch.ops.mkldnn._linear_pointwise(x, gate, None, "swish", [], "")
        return _onto(x, opened, up, None, "mul")


def _onto(x: Tensor, other: Tensor, packed: Any, bias: Tensor | None, how: str) -> Tensor:
    """Return a product with another tensor added or multiplied where it is computed."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, packed, bias, how)
    return found


@lru_cache(maxsize=1)
def _fuses() -> bool:
    """Whether the matrix library is here and takes what follows a product into it."""
    weight = torch.eye(16, dtype=torch.bfloat16)
    x = torch.arange(32, dtype=torch.float32).view(2, 16).to(torch.bfloat16) - 8
    packed = _pack(weight)
    if packed is None:
        return False
    try:
        opened = torch.ops.mkldnn._linear_pointwise(x, packed, None, "swish", [], "")
        found = _onto(x, opened, packed, None, "mul"), _onto(x, x, packed, None, "add")
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    wanted = F.silu(x) * x, x + x
    return all(
        torch.allclose(a.float(), b.float(), rtol=0.03) for a, b in zip(found, wanted, strict=True)
    )


def _pack(weight: Tensor) -> Any:
    if weight.device.type != "cpu" or weight.dtype not in _PACKED:
        return None
    try:
        return torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)
    except (AttributeError, RuntimeError):  # a build without the library: plain products work
        return None
