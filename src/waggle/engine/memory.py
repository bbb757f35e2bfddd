"""Several engines on one GPU: each keeps to its part of the memory.

An engine alone grows its caches into half of what is free. Engines that start together would all
take that half, and the last of them would find nothing left. Where something else needs the GPU
too (a training, a second run), WAGGLE_GPU_SHARE says which part of it the engines of a command may
take together. Invariant: what the parts may take adds up to less than that.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from waggle.core.errors import ConfigError

SHARE = "WAGGLE_GPU_SHARE"
"""Part of a GPU's memory for all engines of a command, above 0 and at most 1; 1 if unset."""

SPARED = 0.08
"""Part of the memory for what no allocator counts: contexts, kernels, recorded steps."""


def share() -> float:
    """Return the part of a GPU's memory that the engines of this command may take together.

    Raises:
        ConfigError: if it is set to something else than a part.
    """
    text = os.environ.get(SHARE, "1")
    try:
        part = float(text)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise ConfigError(f"{SHARE}={text[:40]!r}: set it to a part of the GPU, such as 0.5")
    return part


def keep_to(parts: int) -> None:
    """Let this process take one of so many parts of every GPU; without torch there is none."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(share() * (1 - SPARED) / max(1, parts), device)


def spare(device: Any) -> int:
    """Return how many bytes of a GPU are free and this process may still take."""
    import torch

    # Not every function takes a device without a number.
    number = device.index if device.index is not None else torch.cuda.current_device()
    free, total = torch.cuda.mem_get_info(number)
    allowed = int(min(torch.cuda.get_per_process_memory_fraction(number), share()) * total)
    return max(0, min(int(free), allowed - torch.cuda.memory_reserved(number)))
