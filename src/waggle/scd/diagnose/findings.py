"""All diagnostics of one law, as one flat mapping of named numbers for tables and files.

Beside the numbers stand `units`: one value per held-out view or transition, in one order for all
laws of a corpus, named by `unit names`, so that laws can be compared pair by pair. `weights` is the
digest of what was measured, where a law has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from waggle import plugins
from waggle.core.canon import encode_view
from waggle.core.order import Order
from waggle.core.protocols import Law
from waggle.corpus.store import Example, Store
from waggle.laws.digest import digest_of
from waggle.scd.config import ARMS, Recipe
from waggle.scd.data.prepare import Prepared
from waggle.scd.data.records import Labelled, labelled
from waggle.scd.diagnose import diagnose, equivariance, probe
from waggle.scd.forward.states import read
from waggle.scd.model import Student
from waggle.scd.train import checkpoint

ORDERS: tuple[Order, ...] = ("shuffled", "canonical")
WEIGHTS = "weights"
UNITS = ("units", "unit names")
"""What is not one number."""


@dataclass(frozen=True)
class Findings:
    """What is measured, and on what."""

    store: Store
    views: int
    native: int
    seed: int
    evaluation_seed: int
    n: int = 16
    kept: Path | None = None
    """Folder that native views and encoded records are kept in, for the next law."""
    workers: int = 1

    def test(self) -> list[Labelled]:
        """Return the held-out synthetic records."""
        return labelled(self.store.examples("decisions", "test"))[: self.views]

    def made_up(self, kind: str) -> list[Labelled]:
        """Return held-out records of made-up tasks: `disguised` or `linked`, where there are."""
        rows = self.store.examples("decisions", "test")
        found = [e for e in rows if e.source == kind]
        return labelled(found)[: self.views] if found else []

    def natives(self) -> list[Labelled]:
        """Return native views of evaluation seeds with the expert's record on each."""
        name = f"native-{self.native}-{self.n}-{self.evaluation_seed}"
        kept = None if self.kept is None else Store(self.kept / name)
        if kept is not None and kept.exists():
            return labelled(kept.examples("decisions", "test"))
        made = self.store.manifest().settings["views"]
        expert = plugins.get_law("expert")
        found = diagnose.evaluation_views(
            made["tasks"], expert, self.native, n=self.n, seed=self.evaluation_seed
        )
        if kept is not None:
            rows = [
                Example(r.key, "native", "native", msgspec.Raw(encode_view(r.view)),
                        decision=r.decision, teacher=expert.name)
                for r in found
            ]  # fmt: skip
            kept.write("decisions", {"test": rows}, {"seed": self.evaluation_seed})
        return found

    def prepared(self, recipe: Recipe, tokenizer: Any) -> Prepared:
        """Return the corpus in the tokens of a student."""
        folder = self.kept or self.store.path / "prepared"
        return Prepared(
            folder, self.store, tokenizer, recipe.order, longest=recipe.max_context,
            workers=self.workers,
        )  # fmt: skip


def diagnose_law(findings: Findings, law: Law, order: Order) -> dict[str, Any]:
    """Measure what can be measured of any law: held-out decisions and deployed equivariance."""
    test, asked = findings.test(), diagnose.Once(law)
    views = [record.view for record in test]
    result: dict[str, Any] = {"order": order}
    units: dict[str, list[float]] = {}
    agreed = {o: equivariance.agreements(asked, views, o, findings.seed) for o in ORDERS}
    found = diagnose.held_out(asked, test, order)
    result |= _named("synthetic", found.rates)
    units["exact"] = [float(hit) for hit in found.exact]
    if findings.native:
        result |= _named("native", diagnose.held_out(asked, findings.natives(), order).rates)
    for kind in ("disguised", "linked"):
        if records := findings.made_up(kind):
            result |= _named(kind, diagnose.held_out(asked, records, order).rates)
    for shown, each in agreed.items():
        result |= _named(f"equivariance {shown}", equivariance.rates(each))
    for name in ("summary", "decoded", "admitted"):
        units[name] = [float(getattr(one, name)) for one in agreed[order]]
    if weights := digest_of(law):
        result[WEIGHTS] = weights
    return result | {"units": units, "unit names": {"views": [record.key for record in test]}}


def diagnose_folder(
    findings: Findings, law: Path, limit: int, student: Student | None = None
) -> dict[str, Any]:
    """Measure the representation of a trained folder: token loss, fresh probe, training heads.

    Args:
        findings: what is measured.
        law: the exported law; its selected weights lie beside it.
        limit: at most so many transitions of a split.
        student: a student that holds these weights already.
    """
    student = student or load_student(law)
    line = told(law)
    with findings.prepared(student.recipe, student.tokenizer) as prepared:
        test = prepared.decisions("test", findings.views)
        loss = read(student, test)
        nll = float(loss.nll.sum() / loss.tokens.sum())
        result: dict[str, Any] = {"trained by": line, "nll": nll}
        # A record's share of the token mean, so that the mean over records is the number above.
        units = {"nll": (loss.nll / loss.tokens.mean()).tolist()}
        names: dict[str, list[str]] = {}
        if "transitions" in findings.store.manifest().parts:
            splits = {name: prepared.transitions(name, limit) for name in ("probe", "test")}
            features = {name: probe.features(student, rows) for name, rows in splits.items()}
            found = probe.fit(features["probe"], features["test"], findings.seed)
            result |= {"probe all": found.every, "probe eventful": found.eventful}
            eventful = [x for x, flag in zip(found.each, found.flags, strict=True) if flag]
            units |= {"probe all": list(found.each), "probe eventful": eventful}
            some = list(findings.store.transitions("test"))[:limit]
            names["transitions"] = [t.key for t in some]
            made = findings.store.manifest().settings.get("transitions", {})
            result["transitions played by"] = str(made.get("law", "unknown"))
            heads = diagnose.load_heads(law.parent, student.width)
            if heads is not None:
                moves = prepared.transitions("validation", limit)
                columns = diagnose.head_columns(student, heads, test, moves)
                result |= _named("train head", columns)
    return result | {"units": units, "unit names": names}


def told(law: Path) -> str:
    """Say in one line how a trained folder came about, as far as its card tells."""
    try:
        about = json.loads((law / "waggle.json").read_text(encoding="utf-8"))
        card, recipe = about["card"], Recipe.model_validate(about["recipe"])
    except (OSError, ValueError, KeyError):
        return "unknown"
    one, two = recipe.stage_one, recipe.stage_two
    arm = card.get("objective") in ARMS
    stage = two if arm else one
    size = f"{two.batch} records and {two.transition_batch} transitions" if arm else str(one.batch)
    made = recipe.adaptation
    kind = made.kind if made.kind == "full" else f"{made.kind} of rank {made.rank}"
    return (
        f"{recipe.name}: {recipe.backbone}, {kind}, teacher "
        f"{card.get('teacher', 'unknown')}, {card.get('updates', '?')} updates of {size}, rate "
        f"{stage.rate:g}"
    )


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Put two results of one law together, units and their names included."""
    result = {**one, **other}
    for name in UNITS:
        result[name] = {**one.get(name, {}), **other.get(name, {})}
    return result


def numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without its units, for tables."""
    return {name: value for name, value in result.items() if name not in UNITS}


def load_student(law: Path) -> Student:
    """Rebuild the student of a trained folder with its selected weights."""
    about = json.loads((law / "waggle.json").read_text(encoding="utf-8"))
    recipe = uncompiled(Recipe.model_validate(about["recipe"]))
    student = Student(recipe, 0)
    best = law.parent / "best" / "trainable.safetensors"
    checkpoint.restore(student.trainable(), checkpoint.read_tensors(best), best)
    return student


def uncompiled(recipe: Recipe) -> Recipe:
    """Return a recipe without compilation, for work that is over before it pays."""
    run = recipe.run.model_copy(update={"compile": False})
    return recipe.model_copy(update={"run": run})


def _named(prefix: str, values: Any) -> dict[str, Any]:
    return {f"{prefix} {name}": value for name, value in values._asdict().items()}
