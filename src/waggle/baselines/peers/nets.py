"""The small networks of the trained designers: weights by name, stored as text, trained by Adam.

Networks are functions of named tensors, so that a fit can store the weights after every step and
resume from exactly the same numbers. PyTorch is imported only when a network is used.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from waggle.baselines.peers.training import WORKING, Parameters
from waggle.core.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

Weights: TypeAlias = "dict[str, Tensor]"
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
CLIP = 1.0
"""The largest gradient norm; gradients with a larger norm are clipped to it."""


def start(method: str, shapes: Shapes) -> Parameters:
    """Return the initial parameters of a network: random matrices and zero biases."""
    drawn = {}
    for name, shape in shapes.items():
        bound = sqrt(6 / sum(shape)) if len(shape) > 1 else 0.0
        values = generator(0, "nets", method, name).uniform(-bound, bound, shape)
        drawn[name] = _text(values)
    return {"weights": drawn}


def weights_of(found: Parameters, *, learning: bool = False) -> Weights:
    """Return the tensors of stored parameters; with `learning`, they collect gradients."""
    return {name: _tensor(kept).requires_grad_(learning) for name, kept in found["weights"].items()}


def improve(found: Parameters, weights: Weights, loss: Tensor, rate: float) -> Parameters:
    """Return the parameters after one Adam step on a loss; other entries are unchanged."""
    import torch

    with torch.no_grad():
        names = list(weights)
        slopes = torch.autograd.grad(
            loss, [weights[name] for name in names], materialize_grads=True
        )
        length = sqrt(sum(float(slope.square().sum()) for slope in slopes))
        kept = found.get(WORKING, {})
        count = kept.get("count", 0) + 1
        moved, first, second = {}, {}, {}
        for name, slope in zip(names, slopes, strict=True):
            g = slope * min(1.0, CLIP / (length + 1e-12))
            m, v = (
                _tensor(kept[which][name]) if which in kept else torch.zeros_like(g)
                for which in ("first", "second")
            )
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            scale = (v / (1 - 0.999**count)).sqrt() + 1e-8
            moved[name] = _text(weights[name] - rate * m / (1 - 0.9**count) / scale)
            first[name], second[name] = _text(m), _text(v)
    working = {**kept, "count": count, "first": first, "second": second}
    return {**found, "weights": moved, WORKING: working}


def linear(weights: Weights, name: str, given: Tensor) -> Tensor:
    """Apply a linear layer, with its bias if it has one."""
    product = given @ weights[name]
    bias = weights.get(f"{name} bias")
    return product if bias is None else product + bias


def gru_shapes(name: str, given: int, width: int) -> dict[str, tuple[int, ...]]:
    """Return the weight shapes of a gated recurrent unit."""
    return {
        f"{name} in": (3 * width, given),
        f"{name} on": (3 * width, width),
        f"{name} in bias": (3 * width,),
        f"{name} on bias": (3 * width,),
    }


def gru(weights: Weights, name: str, given: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run a gated recurrent unit over sequences.

    Args:
        weights: weights by name, including those of the unit.
        name: name of the unit.
        given: inputs of shape (sequences, steps, entries).
        state: initial hidden state, one row per sequence.

    Returns:
        The state after every step, and the last one.
    """
    import torch

    parts = [weights[f"{name} {part}"] for part in ("in", "on", "in bias", "on bias")]
    states, last = torch.gru(given, state[None], parts, True, 1, 0.0, False, False, True)
    return states, last[0]


def rows(vectors: Sequence[Sequence[float]]) -> Tensor:
    """Return vectors as the rows of a tensor."""
    import torch

    return torch.from_numpy(np.array(vectors, dtype=np.float32))


def _text(values: Any) -> dict[str, Any]:
    """Serialise numbers as single-precision bytes in base64."""
    array = np.asarray(values, dtype="<f4")
    return {"shape": list(array.shape), "values": b64encode(array.tobytes()).decode()}


def _tensor(kept: Mapping[str, Any]) -> Tensor:
    import torch

    flat = np.frombuffer(b64decode(kept["values"]), dtype="<f4")
    return torch.from_numpy(flat.reshape(kept["shape"]).copy())
