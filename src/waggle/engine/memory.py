"""Memory: shares of a GPU, recovery from out-of-memory errors, and the garbage collector.

* Several engines on one GPU keep to their shares of its memory, together at most WAGGLE_GPU_SHARE.
* Work that runs out of memory is retried in halves. Sequences do not depend on others in their
  pass, so a pass may be split between any two of them; a half that does not fit is halved again,
  down to one sequence. The result equals that of the whole, in the same order.
* Decoding creates many small objects that live as long as their sequence. The garbage collector
  would visit them repeatedly while a GPU waits, so it is paused while an engine decodes.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waggle.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

SHARE = "WAGGLE_GPU_SHARE"
"""Environment variable: the fraction of a GPU's memory for all engines of a command, above 0 and at
most 1; 1 if unset."""
RESERVE = 0.08
"""The fraction of the memory that no allocator counts: contexts, kernels, captured graphs."""
OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED")
"""Out-of-memory messages of libraries that do not allocate through torch."""
COLLECT_EVERY = 1024
"""The number of engine steps between garbage collections while decoding continues."""


def share() -> float:
    """Return the fraction of a GPU's memory that the engines of this command may take together.

    Raises:
        ConfigError: if the variable is not a number above 0 and at most 1.
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
    """Limit this process to one of `parts` equal shares of every GPU; do nothing without torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(share() * (1 - RESERVE) / max(1, parts), device)


def spare(device: Any) -> int:
    """Return how many free bytes of a GPU this process may still allocate."""
    import torch

    # Not every function accepts a device without an index.
    number = device.index if device.index is not None else torch.cuda.current_device()
    free, total = torch.cuda.mem_get_info(number)
    allowed = int(min(torch.cuda.get_per_process_memory_fraction(number), share()) * total)
    return max(0, min(int(free), allowed - torch.cuda.memory_reserved(number)))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one in its `__context__` chain, is an out-of-memory error."""
    import torch

    while error is not None:
        named = isinstance(error, RuntimeError) and any(m in str(error) for m in OUT_OF_MEMORY)
        if named or isinstance(error, torch.OutOfMemoryError):
            return True
        error = error.__context__
    return False


def attempted(work: Callable[[], Tensor | None], relieve: Callable[[], None]) -> Tensor | None:
    """Do work that has a fallback; return None if it runs out of memory."""
    try:
        return work()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    relieve()  # not earlier: the error's traceback keeps objects of the failed work alive
    return None


def halved(work: Callable[[slice], Tensor], rows: range, relieve: Callable[[], None]) -> Tensor:
    """Do work on all rows together, or in halves if it runs out of memory.

    Args:
        work: computes consecutive rows; must be safe to repeat.
        rows: the rows; at least one.
        relieve: frees memory; called after every failure.

    Raises:
        RuntimeError: if a single row does not fit (mostly torch.OutOfMemoryError).
    """
    import torch

    whole = slice(rows.start, rows.stop)
    found = attempted(lambda: work(whole), relieve)
    if found is not None:
        return found
    if len(rows) == 1:
        return work(whole)
    middle = len(rows) // 2
    return torch.cat([halved(work, part, relieve) for part in (rows[:middle], rows[middle:])])


_lock = threading.Lock()
_decoding = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector until the last of the threads in this context leaves it."""
    global _decoding, _was_enabled
    with _lock:
        if _decoding == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _decoding += 1
    try:
        yield
    finally:
        with _lock:
            _decoding -= 1
            if _decoding == 0 and _was_enabled:
                gc.enable()


def collect_sometimes(step: int) -> None:
    """Collect garbage every `COLLECT_EVERY` steps, unless the collector was off before decoding."""
    if step % COLLECT_EVERY == 0 and _was_enabled:
        gc.collect()
