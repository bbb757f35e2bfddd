"""How large the adapter of a law has to be: its factors at several ranks, measured.

For every rank: bytes, the share of the change's squared norm that is kept, and the held-out token
loss with the factors in place, for factors that are best in the matrices themselves (`plain`) and
for factors that are best in what the matrices make of the inputs of training records (`fitted`).
Invariant: what is measured is what a packed law holds, rounded to bfloat16.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.corpus.store import Store
from waggle.scd.config import Recipe
from waggle.scd.data.arrays import Rows
from waggle.scd.data.prepare import Prepared
from waggle.scd.diagnose.findings import uncompiled
from waggle.scd.forward.states import read
from waggle.scd.model import Student
from waggle.scd.ship import factors
from waggle.scd.ship.factors import Pair
from waggle.scd.train.checkpoint import publishing

RANKS = (16, 32, 64, 128)
RECORDS = 200
"""Records that moments are taken from, and as many that losses are measured on."""
EXPORTED = "waggle.json"


class Row(NamedTuple):
    """One adapter size."""

    factors: str
    """`plain` or `fitted`; `none` is the backbone, `whole` the trained matrices."""
    rank: int
    bytes: int
    kept: float
    """Share of the squared norm of the change."""
    rounding: float
    """Squared norm of what bfloat16 rounds away, relative to the factors' product."""
    nll: float
    """Held-out loss per token."""


class Trained:
    """A trained law as its backbone and the change of every trained matrix."""

    def __init__(self, law: Path, device: str | None = None) -> None:
        self.about = _about(law)
        recipe = Recipe.model_validate(self.about["recipe"])
        if recipe.adaptation.kind == "full":
            raise ConfigError(f"{law} is a whole model, which has no rank; pack it without --rank")
        if recipe.adaptation.kind == "lora":
            # What LoRA changed is changed of the same matrices: trained they are dense.
            dense = recipe.adaptation.model_copy(update={"kind": "dense"})
            recipe = recipe.model_copy(update={"adaptation": dense})
        self.recipe = recipe
        self.student = Student(uncompiled(recipe), 0, device)
        self.base = {n: p.detach().clone() for n, p in self.student.trainable().items()}
        self.changes = factors.changed(law, self.base)

    def rows(self, corpus: Path, split: str, count: int) -> Rows:
        """Return so many records of a split, evenly drawn from those that training read."""
        run = self.recipe.run
        limit = run.validation_records if split == "validation" else None
        with Prepared(
            corpus.parent / "prepared", Store(corpus), self.student.tokenizer, self.recipe.order,
            longest=self.recipe.max_context,
        ) as prepared:  # fmt: skip
            found = prepared.decisions(split, limit)
        return found.take(np.unique(np.linspace(0, len(found) - 1, count).astype(np.int64)))

    def put(self, changes: Mapping[str, Tensor]) -> None:
        """Set the student's matrices to the backbone's with some changes."""
        with torch.no_grad():
            for name, parameter in self.student.trainable().items():
                change = changes.get(name)
                parameter.copy_(self.base[name] if change is None else self.base[name] + change)

    def loss(self, rows: Rows) -> float:
        """Return the loss per token of the student as it is."""
        found = read(self.student, rows)
        return float(found.nll.sum() / found.tokens.sum())

    def moments(self, rows: Rows) -> dict[str, Tensor]:
        """Return the second moments of the inputs of every trained matrix, as trained."""
        self.put(self.changes)
        found: dict[str, Tensor] = {}
        hooks = []
        for name, module in self.student.model.named_modules():
            if f"{name}.weight" in self.base:
                hooks.append(module.register_forward_pre_hook(_adding(found, f"{name}.weight")))
        try:
            read(self.student, rows)
        finally:
            for hook in hooks:
                hook.remove()
        if missing := sorted(self.changes.keys() - found.keys()):
            raise ConfigError(f"the inputs of {missing[0]} cannot be watched; pack with --plain")
        return found

    def pairs(self, rank: int, moments: Mapping[str, Tensor] | None = None) -> dict[str, Pair]:
        """Return the best factors of a rank."""
        seen = moments or {}
        return {
            name: factors.low_rank(change, rank, seen.get(name))
            for name, change in self.changes.items()
        }


def _adding(found: dict[str, Tensor], name: str) -> Any:
    def hook(_module: Any, given: tuple[Tensor, ...]) -> None:
        states = given[0].detach().reshape(-1, given[0].shape[-1]).float()
        add = states.T @ states
        found[name] = found[name] + add if name in found else add

    return hook


def _about(law: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((law / EXPORTED).read_text(encoding="utf-8"))
        return {**found, "recipe": dict(found["recipe"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{law} is no exported law; give the `law` folder of training") from None


def measure(
    law: Path, corpus: Path, ranks: Sequence[int] = RANKS, records: int = RECORDS,
    device: str | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Measure the adapters of a law at several ranks, one row at a time."""
    trained = Trained(law, device)
    held = trained.rows(corpus, "validation", records)
    whole = sum(change.numel() for change in trained.changes.values())
    trained.put({})
    yield Row("none", 0, 0, 0.0, 0.0, trained.loss(held))
    moments = trained.moments(trained.rows(corpus, "train", records))
    yield Row("whole", 0, 2 * whole, 1.0, 0.0, trained.loss(held))
    for kind, seen in (("plain", None), ("fitted", moments)):
        most = trained.pairs(max(ranks), seen)
        for rank in sorted(ranks):
            yield _row(trained, kind, rank, most, held)


def _row(trained: Trained, kind: str, rank: int, most: Mapping[str, Pair], held: Rows) -> Row:
    """Cut factors to a rank, round them, put them in place and measure."""
    size = lost = total = off = product = 0.0
    changes: dict[str, Tensor] = {}
    for name, (a, b) in most.items():
        a, b = a[:rank], b[:, :rank]
        exact = b @ a
        put = b.bfloat16().float() @ a.bfloat16().float()
        size += 2 * (a.numel() + b.numel())
        lost += float((trained.changes[name] - put).square().sum())
        total += float(trained.changes[name].square().sum())
        off += float((exact - put).square().sum())
        product += float(exact.square().sum())
        changes[name] = put
    trained.put(changes)
    return Row(kind, rank, int(size), 1 - lost / total, off / product, trained.loss(held))


def refactor(
    law: Path, target: Path, rank: int, corpus: Path | None = None, records: int = RECORDS,
    device: str | None = None,
) -> Path:  # fmt: skip
    """Write an exported law again with an adapter of another rank.

    Args:
        law: the exported law.
        target: the folder to make.
        rank: rank of the adapter.
        corpus: corpus whose training records say which inputs count; without one all do.
        records: how many of them.
        device: where to compute.
    """
    trained = Trained(law, device)
    moments = trained.moments(trained.rows(corpus, "train", records)) if corpus else None
    pairs = trained.pairs(rank, moments)
    shipped = trained.recipe.adaptation.model_copy(update={"kind": "dense", "rank": rank})
    with publishing(target) as folder:
        factors.write(folder, pairs, trained.recipe.backbone, shipped)
        for name in (EXPORTED, "README.md"):
            if (law / name).is_file():
                shutil.copyfile(law / name, folder / name)
        card = {**trained.about.get("card", {}), "adapter rank": rank,
                "adapter factors": "fitted" if corpus else "plain"}  # fmt: skip
        about = {**trained.about, "kind": "dense", "card": card}
        (folder / EXPORTED).write_text(json.dumps(about, indent=1), encoding="utf-8")
    return target
