"""Updates as CUDA graphs: passes whose shapes were met before are replayed.

A small backbone has thousands of short kernels per update, and launching them one by one takes
longer than running them. The first update of a shape runs as written (and compiles what has to be),
the second is captured, all others replay the graph on new inputs. Invariant: a replay does to
weights and optimizer what the captured work would do, with the dropout of its own update's seed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from waggle.scd.files import TrainError, one_line

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Settings of torch's allocator, under either name."""

P = TypeVar("P")
Found = dict[str, Any]
Shape = tuple[Any, ...]


class Scalars:
    """Numbers that change between updates: plain ones, or tensors that a CUDA graph reads."""

    def __init__(self, device: str, *, replayed: bool) -> None:
        self.device, self.replayed = device, replayed

    def set(self, known: Any, value: float) -> Any:
        """Return a number with a new value; a tensor keeps its place in memory."""
        if isinstance(known, Tensor):
            return known.fill_(value)
        return torch.tensor(value, device=self.device) if self.replayed else value


class _Graph(NamedTuple):
    """A captured update: what it reads, what it leaves."""

    graph: Any
    inputs: list[Tensor]
    found: Found


class GraphRunner(Generic[P]):
    """Does the work of an update, by replaying a CUDA graph if it can."""

    def __init__(self, work: Callable[[P], Found]) -> None:
        """Name the work.

        Args:
            work: runs one pass, backward and optimizer step included. What differs between updates
                it reads from the pass, or from tensors that outlive it.
        """
        self._work = work
        self._met: set[Shape] = set()
        self._graphs: dict[Shape, _Graph] = {}
        self._pool: Any = None
        self.lock = threading.Lock()
        """Held during capture; a thread that copies batches to the device must hold it too."""

    def __call__(self, shown: P) -> Found:
        """Do the work on a pass; the next call overwrites the tensors that are returned."""
        shape = shape_of(shown)
        if shape not in self._met:
            self._met.add(shape)
            found = self._work(shown)
            if self._pool is not None:
                # Graphs have memory of their own: what this pass took is for other processes.
                torch.cuda.empty_cache()
            return found
        if shape not in self._graphs:
            with self.lock:
                self._graphs[shape] = self._capture(shown)
        graph = self._graphs[shape]
        for kept, new in zip(graph.inputs, tensors(shown), strict=True):
            if kept is not new:
                kept.copy_(new, non_blocking=True)
        graph.graph.replay()
        return graph.found

    def _capture(self, shown: P) -> _Graph:
        """Capture the work without doing it; the tensors of this pass stay its inputs."""
        try:
            graph = torch.cuda.CUDAGraph()
            # Only this thread must leave the device alone meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                found = self._work(shown)
        except RuntimeError as error:
            raise TrainError(
                f"updates cannot be captured here ({one_line(error)}); set capture = false in [run]"
                f"{_hint()}"
            ) from error
        self._pool = self._pool or graph.pool()
        return _Graph(graph, list(tensors(shown)), found)

    def clear(self) -> None:
        """Free the memory of all graphs."""
        self._graphs.clear()
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


def shape_of(shown: Any) -> Shape:
    """Return what passes must have in common to share a graph: all shapes, the longest sequence."""
    return (shown.ragged.longest, *(tuple(t.shape) for t in tensors(shown)))


def _hint() -> str:
    """Name a setting of torch's allocator that capture has once failed with, if it is set."""
    found = [name for name in ALLOCATOR if "expandable_segments" in os.environ.get(name, "")]
    return f", or try without {found[0]}" if found else ""
