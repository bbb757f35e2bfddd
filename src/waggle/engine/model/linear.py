"""The matrix products, norms and gates of a block, in the fastest form for each device.

On a CPU the weights are reordered once into the blocked layout of the matrix library, which saves
a reordering per call and nearly doubles small-batch speed; elsewhere, and in float32 with many
rows, the plain product is used. `Operations` are the element-wise parts that a GPU may fuse.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

_TYPICAL_ROWS = 64
_PACKED = {torch.bfloat16: 1 << 62, torch.float32: 128}
"""The most rows for which the blocked layout is faster, by dtype."""


class Operations(Protocol):
    """The per-token operations of a block between its products."""

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Scale the rows of [N, D] to a mean square of one, and by the weights."""
        ...

    def gate(self, gate_up: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second half."""
        ...


class TorchOperations:
    """The operations in plain torch, for any device."""

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Scale the rows of [N, D] to a mean square of one, and by the weights."""
        return rms_norm(x, weight, epsilon)

    def gate(self, gate_up: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second half."""
        first, second = gate_up.chunk(2, dim=-1)
        return F.silu(first).mul_(second)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Scale the last dimension to a mean square of one, and by the weights.

    On a CPU it is computed in float32 with few passes: up to three times the library's speed.
    """
    if x.device.type != "cpu":
        return F.rms_norm(x, (x.shape[-1],), weight, epsilon)
    wide = x.float()
    mean: Tensor = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_().div_(x.shape[-1])
    return (wide * mean.add_(epsilon).rsqrt_()).mul_(weight.float()).to(x.dtype)


class Product(Protocol):
    """The product with a fixed weight, in any number format."""

    weight: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x @ weight.T + bias`."""
        ...

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return `residual + x @ weight.T + bias`; the residual may be overwritten."""
        ...

    def take(self, other: Any) -> None:
        """Copy the weight of another product of this kind."""
        ...


class Linear:
    """A fixed weight, an optional bias, and the fastest product for their device and dtype."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight.contiguous()
        self.bias = bias
        self._packed = _pack(self.weight)

    def packed(self, x: Tensor) -> Any:
        """Return the weight in the blocked layout, or None if that is not faster for an input."""
        return self._packed if len(x) <= _PACKED.get(x.dtype, 0) else None

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x @ weight.T + bias`."""
        packed = self.packed(x)
        if packed is None:
            return F.linear(x, self.weight, self.bias)
        return _product(x, packed, self.bias, "none")

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return `residual + x @ weight.T + bias`, in one kernel if the device supports it.

        The residual may be overwritten, which saves the library a copy.
        """
        packed = self.packed(x)
        if packed is None and self.bias is None:
            return residual.addmm_(x, self.weight.t())
        if packed is not None and x.dtype == torch.bfloat16 and _fuses(x.dtype):
            return _product_with(x, residual, packed, self.bias, "add")
        return self(x).add_(residual)

    def take(self, other: Linear) -> None:
        """Copy the weight of another instance, in place."""
        overwrite(self.weight, other.weight)
        overwrite(self.bias, other.bias)
        self._packed = other._packed


def overwrite(kept: Tensor | None, fresh: Tensor | None) -> None:
    """Copy a weight to the memory that captured steps read, unless it is already there."""
    if kept is not None and fresh is not None and kept.data_ptr() != fresh.data_ptr():
        kept.copy_(fresh)


MakeProduct = Callable[[Tensor, Tensor | None], Product]
"""A callable that makes the product with a weight and an optional bias."""


class GateUp:
    """The two products of the gated layer: silu of the first times the second.

    On a CPU in floating point they are computed separately, and the gate is applied in place.
    """

    def __init__(self, gate: Tensor, up: Tensor, product: MakeProduct = Linear) -> None:
        self._parts: tuple[Linear, Linear] | None = None
        self._whole: Product | None = None
        if gate.device.type == "cpu" and product is Linear:
            self._parts = Linear(gate), Linear(up)
        else:
            self._whole = product(torch.cat((gate, up)), None)
        self.weights = gate.numel() + up.numel()

    def __call__(self, x: Tensor, join: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the gated product; `join` gates the two concatenated products."""
        if self._whole is not None:
            return join(self._whole(x))
        assert self._parts is not None
        gate, up = self._parts
        first, second = gate.packed(x), up.packed(x)
        if first is None or second is None or not _fuses(x.dtype):
            return F.silu(gate(x), inplace=True).mul_(up(x))
        return _product_with(x, _product(x, first, None, "swish"), second, None, "mul")

    def take(self, other: GateUp) -> None:
        """Copy the weights of another instance, in place."""
        if self._whole is not None:
            self._whole.take(other._whole)
        else:
            for kept, fresh in zip(self._parts or (), other._parts or (), strict=True):
                kept.take(fresh)


def _product(x: Tensor, packed: Any, bias: Tensor | None, then: str) -> Tensor:
    """Return a product with a function applied to it in the same kernel."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, then, [], "")
    return found


def _product_with(x: Tensor, other: Tensor, packed: Any, bias: Tensor | None, how: str) -> Tensor:
    """Return a product with another tensor added or multiplied in the same kernel."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, packed, bias, how)
    return found


@lru_cache(maxsize=len(_PACKED))
def _fuses(dtype: torch.dtype) -> bool:
    """Return whether the matrix library is available and can fuse an operation after a product.

    On ARM it does so with reference code: a product of 64 rows with silu took 740 ms, without 2 ms.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    x = torch.arange(32, dtype=torch.float32).view(2, 16).to(dtype) - 8
    packed = _pack(torch.eye(16, dtype=dtype))
    if packed is None:
        return False
    try:
        opened = _product(x, packed, None, "swish")
        found = (
            _product_with(x, opened, packed, None, "mul"),
            _product_with(x, x, packed, None, "add"),
        )
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
    except (AttributeError, RuntimeError):  # a build without the library: use plain products
        return None
