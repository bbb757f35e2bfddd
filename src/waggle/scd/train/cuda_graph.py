"""Updates as CUDA graphs: passes whose shapes have occurred before are replayed.

A small backbone has thousands of short kernels per update, and launching them one by one takes
longer than running them. The first update of a shape runs normally, with any compilation; the
second is captured; all others replay the graph on new inputs. Invariant: a replay changes weights
and optimizer as the captured work would, with dropout drawn from its own update's seed.
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
"""Environment variables with the settings of torch's allocator, under either name."""

P = TypeVar("P")
Found = dict[str, Any]
Shape = tuple[Any, ...]


class Scalars:
    """Numbers that change between updates: plain ones, or tensors that a CUDA graph reads."""

    def __init__(self, device: str, *, replayed: bool) -> None:
        self.device, self.replayed = device, replayed

    def set(self, known: Any, value: float) -> Any:
        """Return a number with a new value; a tensor is overwritten in place."""
        if isinstance(known, Tensor):
            return known.fill_(value)
        return torch.tensor(value, device=self.device) if self.replayed else value


class _Graph(NamedTuple):
    """A captured update with the tensors it reads and the tensors it returns."""

    graph: Any
    inputs: list[Tensor]
    found: Found


class GraphRunner(Generic[P]):
    """A runner for the work of an update that replays a CUDA graph where possible."""

    def __init__(self, work: Callable[[P], Found]) -> None:
        """Store the work; nothing is run yet.

        Args:
            work: runs one pass, backward and optimizer step included. It reads values that differ
                between updates from the pass, or from tensors that outlive it.
        """
        self._work = work
        self._met: set[Shape] = set()
        self._graphs: dict[Shape, _Graph] = {}
        self._pool: Any = None
        self.lock = threading.Lock()
        """Held during capture; a thread that copies batches to the device must hold it too."""

    def __call__(self, shown: P) -> Found:
        """Run the work on a pass; the next call overwrites the returned tensors."""
        shape = shape_of(shown)
        if shape not in self._met:
            self._met.add(shape)
            found = self._work(shown)
            if self._pool is not None:
                # Graphs have a separate pool: release this pass's memory for other processes.
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
        """Capture the work without running it; this pass's tensors become the graph's inputs."""
        try:
            graph = torch.cuda.CUDAGraph()
            # Capture restricts the CUDA calls of this thread only, not those of others.
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
    """Yield the tensors of nested tuples and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from tensors(part)
    elif is_dataclass(value):
        for each in fields(value):
            yield from tensors(getattr(value, each.name))


def shape_of(shown: Any) -> Shape:
    """Return the key by which passes share a graph: all tensor shapes, the longest sequence."""
    return (shown.ragged.longest, *(tuple(t.shape) for t in tensors(shown)))


def _hint() -> str:
    """Return a hint to unset an allocator setting that has made capture fail, if it is set."""
    found = [name for name in ALLOCATOR if "expandable_segments" in os.environ.get(name, "")]
    return f", or try without {found[0]}" if found else ""
