"""What training changed, as factors of small rank: the numerics behind a shipped adapter.

The factors of a matrix's change are the best of their rank: in the matrix itself, or, given the
second moments of the inputs it sees, in what it makes of them, which costs the law least. Products
and eigenvectors are taken in float64. Rounding to bfloat16 is relative, so no split of the singular
values between the factors is better than another; their roots keep both factors of one size.
Invariant: the factors of a smaller rank are the first of those of a larger one, but for a rank at
which nothing is approximated (`exact`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.models import adapters
from waggle.scd.config import Adaptation
from waggle.scd.train import checkpoint

Pair = tuple[Tensor, Tensor]
"""(A, B); the change is B A."""


def low_rank(change: Tensor, rank: int, moments: Tensor | None = None) -> Pair:
    """Return (A, B) with B A the best approximation of a matrix of so small a rank.

    Args:
        change: (outputs, inputs).
        rank: rows of A; a smaller matrix is padded, since an adapter has one rank throughout.
        moments: second moments of the inputs, (inputs, inputs); by default all count alike.
    """
    wide = change.double()
    left = _directions(wide, None if moments is None else moments.double())[:, :rank]
    a = left.T @ wide
    # The eigenvectors may be of a weighted matrix: sizes are taken from the factors themselves.
    root = a.norm(dim=1).sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    a, b = a / root[:, None], left * root
    short = rank - left.shape[1]
    return F.pad(a, (0, 0, 0, short)).to(change.dtype), F.pad(b, (0, short)).to(change.dtype)


def exact(change: Tensor, rank: int) -> Pair:
    """Return (A, B) with B A the matrix itself, one of them the identity: it is rounded once.

    Args:
        change: (outputs, inputs).
        rank: at least the smaller side of the matrix; rows of A.
    """
    outputs, inputs = change.shape
    same = torch.eye(min(outputs, inputs), dtype=change.dtype, device=change.device)
    a, b = (change, same) if outputs <= inputs else (same, change)
    short = rank - len(same)
    return F.pad(a, (0, 0, 0, short)), F.pad(b, (0, short))


def _directions(change: Tensor, moments: Tensor | None) -> Tensor:
    """Return orthonormal output directions, those that carry most first."""
    outputs, inputs = change.shape
    if outputs <= inputs:
        seen = change if moments is None else change @ moments
        return _vectors(seen @ change.T)
    weighted = change if moments is None else change @ _root(moments)
    found: Tensor = torch.linalg.qr(weighted @ _vectors(weighted.T @ weighted)).Q
    return found


def _vectors(symmetric: Tensor) -> Tensor:
    """Return the eigenvectors of a matrix, those of the largest values first."""
    return _eigen(symmetric)[1].flip(1)


def _root(moments: Tensor) -> Tensor:
    """Return a square root of moments; what rounding made negative of them is nothing."""
    values, vectors = _eigen(moments)
    return vectors * values.clamp_min(0).sqrt()


def _eigen(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors, the smallest first."""
    try:
        values, vectors = torch.linalg.eigh(symmetric)
    except RuntimeError:  # a GPU's routine gives up sooner than the processor's
        values, vectors = torch.linalg.eigh(symmetric.cpu())
    return values.to(symmetric.device), vectors.to(symmetric.device)


def changed(law: Path, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what training changed of some matrices, in float32.

    Read from the selected weights that lie beside an exported law, or, where only the law is left,
    from its adapter.

    Raises:
        ConfigError: when the folder holds neither.
    """
    best = law.parent / "best" / "trainable.safetensors"
    if best.is_file():
        now = checkpoint.read_tensors(best)
        if now.keys() == base.keys():
            return {name: now[name].to(old.device).float() - old for name, old in base.items()}
    found = adapters.factors(law) or {}
    adapters.fitting(found, {name: tuple(old.shape) for name, old in base.items()})
    return {name: pair.change(base[name].device) for name, pair in found.items()}


def write(folder: Path, pairs: Mapping[str, Pair], backbone: str, adaptation: Adaptation) -> None:
    """Write factors by the name of their matrix as a PEFT adapter, in bfloat16."""
    tensors: dict[str, Tensor] = {}
    for name, (a, b) in pairs.items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        tensors[f"{module}.lora_A.weight"] = a.to(torch.bfloat16)
        tensors[f"{module}.lora_B.weight"] = b.to(torch.bfloat16)
    checkpoint.write_tensors(folder / adapters.WHOLE, tensors)
    config = _config(backbone, adaptation)
    (folder / adapters.CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")


def _config(backbone: str, adaptation: Adaptation) -> dict[str, Any]:
    """Return PEFT's adapter_config.json for factors that already hold their scale."""
    return {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": backbone,
        "r": adaptation.rank, "lora_alpha": adaptation.rank, "lora_dropout": 0.0, "bias": "none",
        "target_modules": list(adaptation.targets), "inference_mode": True, "use_rslora": False,
    }  # fmt: skip
