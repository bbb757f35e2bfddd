"""Diagnostics of a law: held-out decisions, deployed equivariance, frozen probe, training heads.

"Held-out local decisions" and "SCD Training and Replication Protocols". Everything here runs after
selection, on data that neither trained nor chose the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from waggle.core.admit import violations
from waggle.core.canon import decode_view, encode_view
from waggle.core.decode import parse
from waggle.core.modes import Mode, mode
from waggle.core.order import Order
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import Decision
from waggle.core.seeds import Split, derive
from waggle.corpus.views.native import play, sights, training_tasks
from waggle.scd import losses
from waggle.scd.data.arrays import Rows
from waggle.scd.data.records import Labelled, in_order
from waggle.scd.forward.states import read
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train.checkpoint import read_tensors

BATCH = 2_048
"""Views that a law is asked about at once; it batches them as it can."""


class Once:
    """A law that is asked once about each view: greedy decoding gives the same answer again."""

    def __init__(self, law: Law) -> None:
        self._law, self.name = law, law.name
        self._known: dict[bytes, Decode] = {}

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Return what the law decided, asking it about new views only."""
        keys = [encode_view(request.view) for request in requests]
        new = {key: r for key, r in zip(keys, requests, strict=True) if key not in self._known}
        if new:
            self._known |= dict(zip(new, self._law.decide(list(new.values())), strict=True))
        return [self._known[key] for key in keys]


class HeldOut(NamedTuple):
    """Decode quality on held-out views."""

    views: int
    json_valid: float
    schema_valid: float
    executable: float
    mode_f1: float
    exact: float


class Quality(NamedTuple):
    """Rates over some views, and which of them were decided exactly as labelled."""

    rates: HeldOut
    exact: tuple[bool, ...]


def held_out(law: Law, records: Sequence[Labelled], order: Order) -> Quality:
    """Decode held-out views freely and compare with their labels."""
    shown = [in_order(r.view, r.decision, order) for r in records]
    json_valid = schema = executable = 0
    exact: list[bool] = []
    told: list[tuple[Mode | None, Mode]] = []
    for start in range(0, len(shown), BATCH):
        some = shown[start : start + BATCH]
        for (view, wanted), decode in zip(
            some, law.decide([Request(v) for v, _ in some]), strict=True
        ):
            assert wanted is not None
            found, codes = _read(decode.output)
            json_valid += not any(code.startswith(("text.", "json.")) for code in codes)
            schema += found is not None
            legal = found is not None and not violations(view, found)
            executable += legal
            exact.append(found == wanted)
            told.append((mode(view, found) if found is not None and legal else None,
                         mode(view, wanted)))  # fmt: skip
    n = max(1, len(records))
    rates = HeldOut(
        len(records), json_valid / n, schema / n, executable / n, macro_f1(told), sum(exact) / n
    )
    return Quality(rates, tuple(exact))


def _read(output: str | Decision) -> tuple[Decision | None, tuple[str, ...]]:
    if isinstance(output, Decision):
        return output, ()
    read = parse(output)
    return (None if read.normalized else read.decision), read.codes


def macro_f1(pairs: Sequence[tuple[Mode | None, Mode]]) -> float:
    """Return the mean F1 over the modes that occur as labels; no decision is no mode."""
    scores = []
    for label in {wanted for _, wanted in pairs}:
        hits = sum(found == label == wanted for found, wanted in pairs)
        said = sum(found == label for found, _ in pairs)
        there = sum(wanted == label for _, wanted in pairs)
        scores.append(2 * hits / (said + there))
    return sum(scores) / max(1, len(scores))


def evaluation_views(
    tasks: Sequence[str], teacher: Law, count: int, *, n: int, seed: int
) -> list[Labelled]:
    """Return native views of evaluation seeds with the teacher's record on each."""
    found: list[Labelled] = []
    chosen = training_tasks(tasks)
    share = max(1, -(-count // len(chosen)))
    for i, task in enumerate(chosen):
        record = play(task, teacher, n, seed + i % 5, split=Split.EVALUATION)
        seen = {s.data: s for s in sights(record)}
        drawn = sorted(seen.values(), key=lambda s: derive(seed, "native test", s.key))[:share]
        views = [decode_view(s.data) for s in drawn]
        for sight, view, decode in zip(
            drawn, views, teacher.decide([Request(v) for v in views]), strict=True
        ):
            decision = _read(decode.output)[0]
            if decision is not None and not violations(view, decision):
                found.append(Labelled(sight.key, view, decision))
    return found[:count]


class HeadColumns(NamedTuple):
    """Training-head columns: optimization diagnostics only, since the heads are not deployed."""

    orbit_accuracy: float
    field: float
    field_eventful: float


def head_columns(student: Student, heads: Heads, records: Rows, moves: Rows) -> HeadColumns:
    """Measure the trained heads on held-out records and transitions."""
    heads = heads.to("cpu").eval()
    with torch.no_grad():
        labels = torch.from_numpy(records.labels)
        hits = losses.orbit_accuracy(heads.orbit(read(student, records).hidden), labels)
        rho = torch.from_numpy(moves.labels)
        logits = heads.field(read(student, moves).hidden, rho)
        field = losses.field_loss(logits, torch.from_numpy(moves.targets))
    chosen = field[torch.from_numpy(moves.eventful)]
    return HeadColumns(
        float(hits.mean()), float(field.mean()),
        float(chosen.mean()) if len(chosen) else float("nan"),
    )  # fmt: skip


def load_heads(folder: Path, width: int) -> Heads | None:
    """Return the training heads of a run's selected checkpoint, where it kept them."""
    path = folder / "best" / "heads.safetensors"
    if not path.exists():
        return None
    heads = Heads(width, 0)
    heads.load_state_dict(read_tensors(path))
    return heads


def law_of(folder: Path, **options: Any) -> Law:
    """Return the deployable law of an exported folder, with its heads gone."""
    from waggle.laws.shipped import of_folder

    return of_folder(folder, **options)
