"""Low-rank adapters for the weight change of training, and a measurement of the rank they need.

The factors of a matrix's change are the best approximation of their rank: of the change itself
(`plain`) or, given the second moments of the matrix's inputs, of its effect on the outputs
(`fitted`), which costs the law least. `measure` evaluates adapters of several ranks and reports
their bytes, the fraction of the change's squared norm that is kept, and the held-out token loss.
Invariant: the measured factors are those of a packed law, rounded to bfloat16.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.corpus.store import Store
from waggle.models import adapters
from waggle.scd.config import Adaptation, recipe_of_law
from waggle.scd.data.arrays import Rows
from waggle.scd.data.encode import EncodedCorpus
from waggle.scd.files import ABOUT, about, new_folder, read_tensors, write_tensors
from waggle.scd.model import Student
from waggle.scd.train import checkpoint

Pair = tuple[Tensor, Tensor]
"""(A, B); the change is B A."""
RANKS = (16, 32, 64, 128)
RECORDS = 200
"""Number of records that moments are computed from; losses are measured on as many others."""


def low_rank(change: Tensor, rank: int, moments: Tensor | None = None) -> Pair:
    """Return (A, B) such that B A is the best approximation of a matrix at the given rank.

    Products and eigenvectors are computed in float64. Rounding to bfloat16 is relative, so no split
    of the singular values between the factors is better than another; their square roots keep both
    factors of one size. The factors of a smaller rank are the first of those of a larger one.

    Args:
        change: (outputs, inputs).
        rank: rows of A; a smaller matrix is padded, since an adapter has one rank throughout.
        moments: second moments of the inputs, (inputs, inputs); by default all inputs count alike.
    """
    wide = change.double()
    left = _directions(wide, None if moments is None else moments.double())[:, :rank]
    a = left.T @ wide
    # The eigenvectors may be those of a weighted matrix, so sizes come from the factors themselves.
    root = a.norm(dim=1).sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    a, b = a / root[:, None], left * root
    short = rank - left.shape[1]
    return F.pad(a, (0, 0, 0, short)).to(change.dtype), F.pad(b, (0, short)).to(change.dtype)


def exact(change: Tensor, rank: int) -> Pair:
    """Return (A, B) such that B A is the matrix; one is the identity, so rounding occurs once.

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
    """Return orthonormal output directions, by decreasing eigenvalue."""
    outputs, inputs = change.shape
    if outputs <= inputs:
        seen = change if moments is None else change @ moments
        return _eigen(seen @ change.T)[1].flip(1)
    if moments is not None:
        values, vectors = _eigen(moments)
        # Eigenvalues that rounding made negative count as zero.
        change = change @ (vectors * values.clamp_min(0).sqrt())
    found: Tensor = torch.linalg.qr(change @ _eigen(change.T @ change)[1].flip(1)).Q
    return found


def _eigen(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors, in ascending order."""
    try:
        values, vectors = torch.linalg.eigh(symmetric)
    except RuntimeError:  # the GPU routine fails to converge sooner than the CPU's
        values, vectors = torch.linalg.eigh(symmetric.cpu())
    return values.to(symmetric.device), vectors.to(symmetric.device)


def write(folder: Path, pairs: Mapping[str, Pair], backbone: str, adaptation: Adaptation) -> None:
    """Write factors, keyed by matrix name, as a PEFT adapter in bfloat16."""
    tensors: dict[str, Tensor] = {}
    for name, (a, b) in pairs.items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        tensors[f"{module}.lora_A.weight"] = a.to(torch.bfloat16)
        tensors[f"{module}.lora_B.weight"] = b.to(torch.bfloat16)
    write_tensors(folder / adapters.WHOLE, tensors)
    # The factors already hold their scale: alpha over rank is one.
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": backbone,
        "r": adaptation.rank, "lora_alpha": adaptation.rank, "lora_dropout": 0.0, "bias": "none",
        "target_modules": list(adaptation.targets), "inference_mode": True, "use_rslora": False,
    }  # fmt: skip
    (folder / adapters.CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")


class TrainedLaw:
    """A trained law as its backbone and the change of every trained matrix."""

    def __init__(self, law: Path, device: str | None = None) -> None:
        self.about = about(law)
        if not isinstance(self.about.get("recipe"), dict):
            raise ConfigError(f"{law} is no exported law; give the `law` folder of training")
        recipe = recipe_of_law(self.about["recipe"])
        if recipe.adaptation.kind == "full":
            raise ConfigError(f"{law} is a whole model, which has no rank; pack it without --rank")
        # LoRA changes the same matrices, so its change is read as a dense one.
        dense = recipe.adaptation.model_copy(update={"kind": "dense"})
        self.recipe = recipe.model_copy(update={"adaptation": dense})
        self.student = Student(self.recipe.uncompiled(), 0, device)
        self.base = {n: p.detach().clone() for n, p in self.student.trainable().items()}
        self.changes = changes_of(law, self.base)

    def rows(self, corpus: Path, split: str, count: int) -> Rows:
        """Return `count` records of a split, evenly spaced among those that training read."""
        run = self.recipe.run
        limit = run.validation_records if split == "validation" else None
        with EncodedCorpus(
            corpus.parent / "prepared", Store(corpus), self.student.tokenizer, self.recipe.order,
            longest=self.recipe.max_context,
        ) as encoded:  # fmt: skip
            found = encoded.decisions(split, limit)
        return found.take(np.unique(np.linspace(0, len(found) - 1, count).astype(np.int64)))

    def put(self, changes: Mapping[str, Tensor]) -> None:
        """Set the student's matrices to the backbone's plus the given changes."""
        with torch.no_grad():
            for name, parameter in self.student.trainable().items():
                change = changes.get(name)
                parameter.copy_(self.base[name] if change is None else self.base[name] + change)

    def loss(self, rows: Rows) -> float:
        """Return the student's loss per token, with its current matrices."""
        found = self.student.read(rows)
        return float(found.nll.sum() / found.tokens.sum())

    def moments(self, rows: Rows) -> dict[str, Tensor]:
        """Return the second moments of every trained matrix's inputs, in the trained law.

        Raises:
            ConfigError: if the inputs of a matrix cannot be observed.
        """
        self.put(self.changes)
        found: dict[str, Tensor] = {}
        hooks = []
        for name, module in self.student.model.named_modules():
            if f"{name}.weight" in self.base:
                hooks.append(module.register_forward_pre_hook(_adding(found, f"{name}.weight")))
        try:
            self.student.read(rows)
        finally:
            for hook in hooks:
                hook.remove()
        if missing := sorted(self.changes.keys() - found.keys()):
            raise ConfigError(f"the inputs of {missing[0]} cannot be observed; pack with --plain")
        return found

    def pairs(self, rank: int, moments: Mapping[str, Tensor] | None = None) -> dict[str, Pair]:
        """Return the best factors of the given rank for every matrix."""
        seen = moments or {}
        return {
            name: low_rank(change, rank, seen.get(name)) for name, change in self.changes.items()
        }


def _adding(found: dict[str, Tensor], name: str) -> Any:
    def hook(_module: Any, given: tuple[Tensor, ...]) -> None:
        states = given[0].detach().reshape(-1, given[0].shape[-1]).float()
        add = states.T @ states
        found[name] = found[name] + add if name in found else add

    return hook


def changes_of(law: Path, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the change that training made to each matrix of `base`, in float32.

    It is read from the selected weights beside an exported law, or from its adapter if those are
    missing or differ in their names.

    Raises:
        ConfigError: if the folder holds neither.
    """
    best = law.parent / checkpoint.BEST / checkpoint.WEIGHTS
    if best.is_file():
        now = read_tensors(best)
        if now.keys() == base.keys():
            return {name: now[name].to(old.device).float() - old for name, old in base.items()}
    found = adapters.factors(law) or {}
    adapters.fitting(found, {name: tuple(old.shape) for name, old in base.items()})
    return {name: pair.change(base[name].device) for name, pair in found.items()}


class Row(NamedTuple):
    """The measurements of one adapter."""

    factors: str
    """`plain` or `fitted`; `none` is the backbone, `whole` the trained matrices."""
    rank: int
    bytes: int
    kept: float
    """Fraction of the change's squared norm that is kept."""
    rounding: float
    """Squared norm of the bfloat16 rounding error, relative to that of the factors' product."""
    nll: float
    """Held-out loss per token."""


def measure(
    law: Path, corpus: Path, ranks: Sequence[int] = RANKS, records: int = RECORDS,
    device: str | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Measure adapters of a law at several ranks; yield one row per adapter."""
    trained = TrainedLaw(law, device)
    held_out = trained.rows(corpus, "validation", records)
    whole = sum(change.numel() for change in trained.changes.values())
    trained.put({})
    yield Row("none", 0, 0, 0.0, 0.0, trained.loss(held_out))
    moments = trained.moments(trained.rows(corpus, "train", records))
    yield Row("whole", 0, 2 * whole, 1.0, 0.0, trained.loss(held_out))
    for kind, seen in (("plain", None), ("fitted", moments)):
        largest = trained.pairs(max(ranks), seen)
        for rank in sorted(ranks):
            yield _row(trained, kind, rank, largest, held_out)


def _row(
    trained: TrainedLaw, kind: str, rank: int, largest: Mapping[str, Pair], held_out: Rows
) -> Row:
    """Truncate factors to a rank, round them, put them in place and measure."""
    size = lost = total = off = product = 0.0
    changes: dict[str, Tensor] = {}
    for name, (a, b) in largest.items():
        a, b = a[:rank], b[:, :rank]
        whole = b @ a
        rounded = b.bfloat16().float() @ a.bfloat16().float()
        size += 2 * (a.numel() + b.numel())
        lost += float((trained.changes[name] - rounded).square().sum())
        total += float(trained.changes[name].square().sum())
        off += float((whole - rounded).square().sum())
        product += float(whole.square().sum())
        changes[name] = rounded
    trained.put(changes)
    return Row(kind, rank, int(size), 1 - lost / total, off / product, trained.loss(held_out))


def refactor(
    law: Path, target: Path, rank: int, corpus: Path | None = None, records: int = RECORDS,
    device: str | None = None,
) -> Path:  # fmt: skip
    """Write an exported law again with an adapter of another rank.

    Args:
        law: the exported law.
        target: the folder to make.
        rank: rank of the adapter.
        corpus: corpus whose training records give the input moments; without one, factors are
            `plain`.
        records: number of those records.
        device: where to compute.
    """
    trained = TrainedLaw(law, device)
    moments = trained.moments(trained.rows(corpus, "train", records)) if corpus else None
    pairs = trained.pairs(rank, moments)
    shipped = trained.recipe.adaptation.model_copy(update={"rank": rank})
    with new_folder(target) as folder:
        write(folder, pairs, trained.recipe.backbone, shipped)
        if (law / "README.md").is_file():
            shutil.copyfile(law / "README.md", folder / "README.md")
        card = {**trained.about.get("card", {}), "adapter rank": rank,
                "adapter factors": "fitted" if corpus else "plain"}  # fmt: skip
        said = {**trained.about, "kind": "dense", "card": card}
        (folder / ABOUT).write_text(json.dumps(said, indent=1), encoding="utf-8")
    return target
