"""Several engines on one GPU: each keeps to its part of the memory.

An engine alone grows its caches into half of what is free. Engines that start together would all
take that half, and the last of them would find nothing left. Invariant: what the parts may take
adds up to less than the device has.
"""

from __future__ import annotations

import sys
from typing import Any

SPARED = 0.08
"""Part of the memory for what no allocator counts: contexts, kernels, recorded steps."""


def keep_to(parts: int) -> None:
    """Let this process take one of so many parts of every GPU; without torch there is none."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction((1 - SPARED) / max(1, parts), device)


def spare(device: Any) -> int:
    """Return how many bytes of a GPU are free and this process may still take."""
    import torch

    # Not every function takes a device without a number.
    number = device.index if device.index is not None else torch.cuda.current_device()
    free, total = torch.cuda.mem_get_info(number)
    allowed = int(torch.cuda.get_per_process_memory_fraction(number) * total)
    return max(0, min(int(free), allowed - torch.cuda.memory_reserved(number)))
