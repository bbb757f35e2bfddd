"""Updates whose kernels are launched as one: CUDA graphs of passes whose shapes were met before.

A small backbone has thousands of short kernels per update; launching them one by one takes longer
than running them. The first update of a shape runs as written (and compiles what has to be), the
second is recorded, all others replay the record on new inputs. Invariant: a replay does to weights
and optimizer what the recorded work would do, drawing its dropout from the seed of its own update.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from waggle.scd.train.checkpoint import TrainError

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Settings of torch's allocator, under either name."""

P = TypeVar("P")
Found = dict[str, Any]
Key = tuple[Any, ...]


class _Record(NamedTuple):
    """A recorded update: what it reads, what it leaves."""

    graph: Any
    inputs: list[Tensor]
    found: Found


class Captured(Generic[P]):
    """Does the work of an update, replaying it where it can."""

    def __init__(self, work: Callable[[P], Found]) -> None:
        """Name the work.

        Args:
            work: runs one pass, backward and the optimizer's step included; whatever differs
                between updates it reads from tensors that outlive it, or from the pass.
        """
        self._work = work
        self._met: set[Key] = set()
        self._records: dict[Key, _Record] = {}
        self._pool: Any = None
        self.lock = threading.Lock()
        """Held while recording; a thread that copies batches to the device has to hold it too."""

    def __call__(self, shown: P) -> Found:
        """Do the work on a pass; tensors that are found are overwritten by the next one."""
        key = shape(shown)
        if key not in self._met:
            self._met.add(key)
            found = self._work(shown)
            if self._pool is not None:
                # Records have memory of their own: what this pass took is for other processes.
                torch.cuda.empty_cache()
            return found
        if key not in self._records:
            with self.lock:
                self._records[key] = self._record(shown)
        record = self._records[key]
        for kept, new in zip(record.inputs, tensors(shown), strict=True):
            if kept is not new:
                kept.copy_(new, non_blocking=True)
        record.graph.replay()
        return record.found

    def _record(self, shown: P) -> _Record:
        """Record the work without doing it; the tensors of this pass stay its inputs."""
        try:
            graph = torch.cuda.CUDAGraph()
            # Only this thread must leave the device alone meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                found = self._work(shown)
        except RuntimeError as error:
            reason = str(error).splitlines()[0][:160]
            raise TrainError(
                f"updates cannot be recorded here ({reason}); set capture = false in [run]{_hint()}"
            ) from error
        self._pool = self._pool or graph.pool()
        return _Record(graph, list(tensors(shown)), found)

    def forget(self) -> None:
        """Give the memory of all records back."""
        self._records.clear()
        self._pool = None


def tensors(value: Any) -> Iterator[Tensor]:
    """Walk the tensors of nested tuples and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from tensors(part)
    elif is_dataclass(value):
        for each in fields(value):
            yield from tensors(getattr(value, each.name))


def _hint() -> str:
    """Name a setting of torch's allocator that recording has once failed with, where it is set."""
    found = [name for name in ALLOCATOR if "expandable_segments" in os.environ.get(name, "")]
    return f", or try without {found[0]}" if found else ""


def shape(shown: Any) -> Key:
    """Return what two passes must share to be one record: all shapes, and the longest sequence."""
    flat = shown[0] if isinstance(shown, tuple) else shown
    return (flat.longest, *(tuple(t.shape) for t in tensors(shown)))
