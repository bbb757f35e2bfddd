"""All diagnostics of one law, as one flat mapping of named numbers for tables and files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waggle import plugins
from waggle.core.order import Order
from waggle.core.protocols import Law
from waggle.corpus.store import Store
from waggle.scd import checkpoint, diagnose, equivariance
from waggle.scd.config import Recipe
from waggle.scd.data import Labelled, encode_moves, labelled
from waggle.scd.model import Student
from waggle.scd.tokens import Coder
from waggle.scd.trainer import restore

ORDERS: tuple[Order, ...] = ("shuffled", "canonical")


@dataclass(frozen=True)
class Findings:
    """What is measured, and on what."""

    store: Store
    views: int
    native: int
    seed: int
    evaluation_seed: int
    n: int = 16

    def test(self) -> list[Labelled]:
        """Return the held-out synthetic records."""
        return labelled(self.store.examples("decisions", "test"))[: self.views]


def diagnose_law(findings: Findings, law: Law, order: Order) -> dict[str, Any]:
    """Measure what can be measured of any law: held-out decisions and deployed equivariance."""
    test = findings.test()
    result: dict[str, Any] = {"order": order}
    result |= _named("synthetic", diagnose.held_out(law, test, order))
    if findings.native:
        made = findings.store.manifest().settings["views"]
        native = diagnose.evaluation_views(
            made["tasks"], plugins.get_law("expert"), findings.native, n=findings.n,
            seed=findings.evaluation_seed,
        )  # fmt: skip
        result |= _named("native", diagnose.held_out(law, native, order))
    for shown in ORDERS:
        found = equivariance.measure(law, [r.view for r in test], shown, findings.seed)
        result |= _named(f"equivariance {shown}", found)
    return result


def diagnose_folder(findings: Findings, law: Path, limit: int) -> dict[str, Any]:
    """Measure the representation of a trained folder: fresh probe and training-head columns."""
    folder = law.parent
    student = load_student(law)
    order = student.recipe.order
    result: dict[str, Any] = {}
    if "transitions" in findings.store.manifest().parts:
        found = diagnose.probe_loss(student, findings.store, order, findings.seed, limit)
        result |= {"probe all": found.every, "probe eventful": found.eventful}
        heads = diagnose.load_heads(folder, student.width)
        if heads is not None:
            some = list(findings.store.transitions("validation"))[:limit]
            moves = encode_moves(some, Coder(student.tokenizer), order)
            columns = diagnose.head_columns(student, heads, findings.test(), moves, order)
            result |= _named("train head", columns)
    return result


def load_student(law: Path) -> Student:
    """Rebuild the student of a trained folder with its selected weights."""
    about = json.loads((law / "waggle.json").read_text(encoding="utf-8"))
    recipe = Recipe.model_validate(about["recipe"])
    student = Student(recipe, 0)
    best = law.parent / "best" / "trainable.safetensors"
    restore(student.trainable(), checkpoint.read_tensors(best), best)
    return student


def _named(prefix: str, values: Any) -> dict[str, Any]:
    return {f"{prefix} {name}": value for name, value in values._asdict().items()}
