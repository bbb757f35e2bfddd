"""What this machine can do: arithmetic and bandwidth, measured, as a floor for decoding time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(slots=True)
class Limits:
    """Measured ceilings, and the size of the model they are applied to."""

    flops: float
    """Floating-point operations per second of a large product in the run's dtype."""
    bandwidth: float
    """Bytes per second of a large copy, read and write counted."""
    weights: int = 0
    """Weights one token passes through."""
    weight_bytes: int = 0


def measure(device: str, dtype: Any) -> Limits:
    """Measure a large matrix product and a large copy."""
    torch: Any = import_module("torch")
    cuda = device.startswith("cuda")
    side = 8192 if cuda else 1536
    a = torch.ones(side, side, dtype=dtype, device=device)
    product = _best(lambda: a @ a, cuda)
    big = torch.ones((1 << 30 if cuda else 1 << 25), dtype=torch.uint8, device=device)
    copy = _best(lambda: big.clone(), cuda)
    return Limits(2 * side**3 / product, 2 * big.numel() / copy)


def _best(work: Any, cuda: bool) -> float:
    torch: Any = import_module("torch")
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        work()
        if cuda:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def floors(limits: Limits, batch: int, tokens: float, steps: float) -> tuple[float, float]:
    """Return the least time of a batch: for its arithmetic, and for reading the weights."""
    arithmetic = 2 * limits.weights * batch * tokens / limits.flops
    return arithmetic, steps * limits.weight_bytes / limits.bandwidth
