"""All diagnostics of one law, as one flat mapping of named numbers for tables and files.

See the paper's "Held-out local decisions" and "SCD Training and Replication Protocols". Held-out
decisions and deployed equivariance are measured for any law; token loss, frozen probe and training
heads for a trained folder. Everything is measured after selection, on data used neither to train
nor to select the controller.

Besides the numbers, a result has `units`: one value per held-out view or transition, in the same
order for all laws of a corpus and named by `unit names`, so that laws can be compared in pairs.
`weights` is the digest of the measured weights, if a law has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
import torch
from pydantic import ValidationError

from waggle import plugins
from waggle.core.admit import violations
from waggle.core.canon import decode_view, encode_view
from waggle.core.decode import parse
from waggle.core.modes import Mode, mode
from waggle.core.order import Order
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import Decision
from waggle.core.seeds import Split, derive
from waggle.corpus.store import Example, Store
from waggle.corpus.views.native import play, sights, training_tasks
from waggle.laws.digest import digest_of
from waggle.scd import losses
from waggle.scd.config import ARMS, Recipe, recipe_of_law
from waggle.scd.data.arrays import Rows
from waggle.scd.data.encode import EncodedCorpus
from waggle.scd.data.records import LabelledView, in_order, labelled
from waggle.scd.diagnose import equivariance, probe
from waggle.scd.files import about, read_tensors
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train import checkpoint

ORDERS: tuple[Order, ...] = ("shuffled", "canonical")
WEIGHTS = "weights"
UNITS = ("units", "unit names")
"""Entries of a result that are not one number."""
NATIVE_SEED = 20_000
"""First seed of native views; diagnoses use development seeds."""


@dataclass(frozen=True)
class Findings:
    """The settings of a diagnosis, and the held-out data it uses."""

    store: Store
    views: int
    native: int
    seed: int
    n: int = 16
    native_seed: int = NATIVE_SEED
    kept: Path | None = None
    """Folder that caches native views and encoded records for the next law."""
    workers: int = 1

    def test(self) -> list[LabelledView]:
        """Return the held-out synthetic records."""
        return labelled(self.store.examples("decisions", "test"))[: self.views]

    def made_up(self, kind: str) -> list[LabelledView]:
        """Return the held-out records of a kind of made-up tasks, such as `disguised`."""
        found = [e for e in self.store.examples("decisions", "test") if e.source == kind]
        return labelled(found)[: self.views] if found else []

    def natives(self) -> list[LabelledView]:
        """Return native views of development seeds with the expert's record on each."""
        name = f"native-{self.native}-{self.n}-{self.native_seed}"
        kept = None if self.kept is None else Store(self.kept / name)
        if kept is not None and kept.exists():
            return labelled(kept.examples("decisions", "test"))
        tasks = self.store.manifest().settings["views"]["tasks"]
        expert = plugins.get_law("expert")
        found = native_views(tasks, expert, self.native, n=self.n, seed=self.native_seed)
        if kept is not None:
            rows = [
                Example(r.key, "native", "native", msgspec.Raw(encode_view(r.view)),
                        decision=r.decision, teacher=expert.name)
                for r in found
            ]  # fmt: skip
            kept.write("decisions", {"test": rows}, {"seed": self.native_seed})
        return found

    def encoded(self, recipe: Recipe, tokenizer: Any) -> EncodedCorpus:
        """Return the corpus encoded with a student's tokenizer."""
        folder = self.kept or self.store.path / "prepared"
        return EncodedCorpus(
            folder, self.store, tokenizer, recipe.order, longest=recipe.max_context,
            workers=self.workers,
        )  # fmt: skip


def native_views(
    tasks: Sequence[str], teacher: Law, count: int, *, n: int, seed: int
) -> list[LabelledView]:
    """Return native views of development seeds with the teacher's record on each."""
    found: list[LabelledView] = []
    chosen = training_tasks(tasks)
    share = max(1, -(-count // len(chosen)))
    for i, task in enumerate(chosen):
        record = play(task, teacher, n, seed + i % 5, split=Split.DEVELOPMENT)
        seen = {s.data: s for s in sights(record)}
        drawn = sorted(seen.values(), key=lambda s: derive(seed, "native test", s.key))[:share]
        views = [decode_view(s.data) for s in drawn]
        decodes = teacher.decide([Request(view) for view in views])
        for sight, view, decode in zip(drawn, views, decodes, strict=True):
            decision = _read(decode.output)[0]
            if decision is not None and not violations(view, decision):
                found.append(LabelledView(sight.key, view, decision))
    return found[:count]


def diagnose_law(findings: Findings, law: Law, order: Order) -> dict[str, Any]:
    """Run the diagnostics that apply to any law: held-out decisions and deployed equivariance."""
    test, asked = findings.test(), _CachedLaw(law)
    views = [record.view for record in test]
    result: dict[str, Any] = {"order": order}
    units: dict[str, list[float]] = {}
    agreed = {o: equivariance.agreements(asked, views, o, findings.seed) for o in ORDERS}
    found = held_out(asked, test, order)
    result |= found.named("synthetic")
    units["exact"] = [float(hit) for hit in found.exact]
    if findings.native:
        result |= held_out(asked, findings.natives(), order).named("native")
    for kind in ("disguised", "far", "near", "development"):
        if records := findings.made_up(kind):
            result |= held_out(asked, records, order).named(kind)
    for shown, each in agreed.items():
        result |= _named(f"equivariance {shown}", equivariance.rates(each))
    for name in ("summary", "decoded", "admitted", "decoded_strict", "admitted_strict"):
        units[name] = [float(getattr(one, name)) for one in agreed[order]]
    if weights := digest_of(law):
        result[WEIGHTS] = weights
    return result | {"units": units, "unit names": {"views": [record.key for record in test]}}


class _CachedLaw:
    """A law with a cache by view; greedy decoding would give the same answer again."""

    def __init__(self, law: Law) -> None:
        self._law, self.name = law, law.name
        self._known: dict[bytes, Decode] = {}

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Return the law's decisions, calling it for new views only."""
        keys = [encode_view(request.view) for request in requests]
        new = {key: r for key, r in zip(keys, requests, strict=True) if key not in self._known}
        if new:
            self._known |= dict(zip(new, self._law.decide(list(new.values())), strict=True))
        return [self._known[key] for key in keys]


class HeldOut(NamedTuple):
    """Rates of decode quality on held-out views."""

    views: int
    json_valid: float
    schema_valid: float
    executable: float
    mode_f1: float
    exact: float


class Quality(NamedTuple):
    """Rates over a set of views, a flag per view for an exact match, and the F1 of each mode."""

    rates: HeldOut
    exact: tuple[bool, ...]
    f1: Mapping[Mode, float]

    def named(self, views: str) -> dict[str, Any]:
        """Return all rates, with names that start with `views`."""
        by_mode = {f"{views} f1 {label}": value for label, value in self.f1.items()}
        return _named(views, self.rates) | by_mode


def held_out(law: Law, records: Sequence[LabelledView], order: Order) -> Quality:
    """Decode held-out views freely and compare with their labels."""
    shown = [in_order(r.view, r.decision, order) for r in records]
    json_valid = schema = executable = 0
    exact: list[bool] = []
    modes: list[tuple[Mode | None, Mode]] = []
    for start in range(0, len(shown), equivariance.BATCH):
        some = shown[start : start + equivariance.BATCH]
        decodes = law.decide([Request(view) for view, _ in some])
        for (view, wanted), decode in zip(some, decodes, strict=True):
            assert wanted is not None
            found, codes = _read(decode.output)
            json_valid += not any(code.startswith(("text.", "json.")) for code in codes)
            schema += found is not None
            legal = found is not None and not violations(view, found)
            executable += legal
            exact.append(found == wanted)
            decided = mode(view, found) if found is not None and legal else None
            modes.append((decided, mode(view, wanted)))
    n, f1 = max(1, len(records)), f1_by_mode(modes)
    macro = fmean(f1.values()) if f1 else 0.0
    rates = HeldOut(
        len(records), json_valid / n, schema / n, executable / n, macro, sum(exact) / n
    )  # fmt: skip
    return Quality(rates, tuple(exact), f1)


def _read(output: str | Decision) -> tuple[Decision | None, tuple[str, ...]]:
    if isinstance(output, Decision):
        return output, ()
    read = parse(output)
    return (None if read.normalized else read.decision), read.codes


def f1_by_mode(pairs: Sequence[tuple[Mode | None, Mode]]) -> dict[Mode, float]:
    """Return the F1 of every mode that occurs as a label; an invalid decision has no mode."""
    scores = {}
    for label in Mode:
        hits = sum(found == label == wanted for found, wanted in pairs)
        said = sum(found == label for found, _ in pairs)
        if there := sum(wanted == label for _, wanted in pairs):
            scores[label] = 2 * hits / (said + there)
    return scores


def diagnose_folder(
    findings: Findings, law: Path, limit: int, student: Student | None = None
) -> dict[str, Any]:
    """Measure the representation of a trained folder: token loss, fresh probe, training heads.

    Args:
        findings: settings of the diagnosis.
        law: the exported law; its selected weights lie beside it.
        limit: maximum number of transitions per split.
        student: a student that holds these weights already.
    """
    student = student or load_student(law)
    with findings.encoded(student.recipe, student.tokenizer) as corpus:
        test = corpus.decisions("test", findings.views)
        loss = student.read(test)
        nll = float(loss.nll.sum() / loss.tokens.sum())
        result: dict[str, Any] = {"trained by": trained_by(law), "nll": nll}
        # Each record's share of the token mean: the mean over records is the `nll` above.
        units = {"nll": (loss.nll / loss.tokens.mean()).tolist()}
        names: dict[str, list[str]] = {}
        if "transitions" in findings.store.manifest().parts:
            splits = {name: corpus.transitions(name, limit) for name in ("probe", "test")}
            features = {name: probe.features(student, rows) for name, rows in splits.items()}
            found = probe.fit(features["probe"], features["test"], findings.seed)
            result |= {"probe all": found.every, "probe eventful": found.eventful}
            eventful = [x for x, flag in zip(found.each, found.flags, strict=True) if flag]
            units |= {"probe all": list(found.each), "probe eventful": eventful}
            some = list(findings.store.transitions("test"))[:limit]
            names["transitions"] = [t.key for t in some]
            made = findings.store.manifest().settings.get("transitions", {})
            result["transitions played by"] = str(made.get("law", "unknown"))
            heads = load_heads(law.parent, student.width)
            if heads is not None:
                transitions = corpus.transitions("validation", limit)
                columns = head_columns(student, heads, test, transitions)
                result |= _named("train head", columns)
    return result | {"units": units, "unit names": names}


class HeadColumns(NamedTuple):
    """Training-head columns: optimization diagnostics only, since the heads are not deployed."""

    orbit_accuracy: float
    field: float
    field_eventful: float


def head_columns(student: Student, heads: Heads, decisions: Rows, transitions: Rows) -> HeadColumns:
    """Measure the trained heads on held-out records and transitions."""
    heads = heads.to("cpu").eval()
    with torch.no_grad():
        labels = torch.from_numpy(decisions.labels)
        hits = losses.orbit_accuracy(heads.orbit(student.read(decisions).hidden), labels)
        logits = heads.field(student.read(transitions).hidden, torch.from_numpy(transitions.labels))
        field = losses.field_loss(logits, torch.from_numpy(transitions.targets))
    chosen = field[torch.from_numpy(transitions.eventful)]
    return HeadColumns(
        float(hits.mean()), float(field.mean()),
        float(chosen.mean()) if len(chosen) else float("nan"),
    )  # fmt: skip


def load_heads(stage: Path, width: int) -> Heads | None:
    """Return the training heads of a stage's selected checkpoint, if it has any."""
    path = stage / checkpoint.BEST / checkpoint.HEADS
    if not path.exists():
        return None
    heads = Heads(width, 0)
    heads.load_state_dict(read_tensors(path))
    return heads


def load_student(law: Path) -> Student:
    """Rebuild the student of a trained folder with its selected weights."""
    student = Student(recipe_of_law(about(law)["recipe"]).uncompiled(), 0)
    checkpoint.restore_best(student.trainable(), law.parent)
    return student


def law_of(folder: Path, **options: Any) -> Law:
    """Return the deployable law of an exported folder, which has no heads."""
    from waggle.laws.shipped import of_folder

    return of_folder(folder, **options)


def trained_by(law: Path) -> str:
    """Return one line on how a trained folder was made, as far as its card records it."""
    try:
        said = about(law)
        card, recipe = said["card"], recipe_of_law(said["recipe"])
    except (KeyError, ValidationError):
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
    """Merge two results of one law, units and their names included."""
    result = {**one, **other}
    for name in UNITS:
        result[name] = {**one.get(name, {}), **other.get(name, {})}
    return result


def numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without its units, for tables."""
    return {name: value for name, value in result.items() if name not in UNITS}


def _named(prefix: str, values: Any) -> dict[str, Any]:
    return {f"{prefix} {name}": value for name, value in values._asdict().items()}
