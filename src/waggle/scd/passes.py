"""Passes: how the records of an update are run, and the loss each pass contributes (Eq. scd).

Records are grouped by length up to a token budget; every pass is divided by the number of records
of the whole update, so any grouping gives the gradient of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from waggle.scd import losses
from waggle.scd.data import Move, Pair
from waggle.scd.forward import Passed, run
from waggle.scd.heads import FIELD_WIDTHS, Heads
from waggle.scd.model import Student
from waggle.scd.packing import common_prefix

_Record = TypeVar("_Record", Pair, Move)
Sums: TypeAlias = dict[str, float | Tensor]
"""Named sums over records; tensors stay on their device until an update is logged."""


class Weights(NamedTuple):
    """Factors of the losses at one update; zero computes a loss and drops it."""

    orbit: float
    field: float
    state: float
    beta: float
    mean: bool


class Result(NamedTuple):
    """The loss of a pass, ready for backward, and sums over its records for the log."""

    loss: Tensor
    sums: Sums


def add(total: Sums, more: Sums) -> None:
    """Add sums to a total, in place."""
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value


def grouped(records: Sequence[_Record], budget: int) -> list[list[_Record]]:
    """Group records of similar length into passes of at most so many tokens."""
    every = [s.fed for record in records for s in record.sequences]
    shared = common_prefix(every, min(len(s) for s in every) - 1) if every else 0
    groups: list[list[_Record]] = []
    filled = 0
    for record in sorted(records, key=lambda r: max(len(s) for s in r.sequences)):
        cost = sum(len(s) - shared for s in record.sequences)
        if not groups or filled + cost > budget:
            groups.append([])
            filled = shared
        groups[-1].append(record)
        filled += cost
    return groups


def _count(passed: Passed, group: Sequence[Pair] | Sequence[Move]) -> Sums:
    """Count what a pass cost: tokens read, tokens run, slots of the attention grid."""
    sums: Sums = {"passes": 1.0, "records": len(group)}
    sums["tokens.read"] = sum(len(s) for record in group for s in record.sequences)
    sums["tokens.run"] = passed.run
    sums["slots"] = passed.slots
    sums["slots.padding"] = passed.padding
    return sums


def decision_pass(
    student: Student, heads: Heads | None, group: Sequence[Pair], total: int, w: Weights
) -> Result:
    """Return decision and orbit loss of some pairs, over `total` records (Eq. orbit)."""
    sequences = [s for pair in group for s in pair.sequences]
    passed = run(student.model, sequences, student.device)
    token = losses.record_loss(passed.nll, passed.record, len(sequences), mean=w.mean)
    step = len(sequences) // len(group)
    own, image = token[0::step], token[step - 1 :: step]
    sums = _count(passed, group)
    source = (passed.record % step == 0).detach()
    sums["nll"] = (passed.nll.detach() * source).sum()
    sums["nll.tokens"] = source.sum()
    loss = own
    if heads is not None:
        labels = torch.tensor([pair.labels for pair in group], device=student.device)
        one = heads.orbit(passed.hidden[0::step])
        other = heads.orbit(passed.hidden[step - 1 :: step])
        head = losses.orbit_head_loss(one, other, labels, w.beta)
        loss = own + w.orbit * (image + head)
        sums["orbit"] = head.detach().sum()
        sums["orbit.hits"] = losses.orbit_accuracy(one, labels).sum()
    sums["decision"] = own.detach().sum()
    return Result(loss.sum() / total, sums)


def field_pass(
    student: Student, heads: Heads, group: Sequence[Move], total: int, w: Weights
) -> Result:
    """Return the field loss of some transitions, over `total` records (Eq. field)."""
    passed = run(student.model, [move.source for move in group], student.device)
    labels = torch.tensor([move.labels for move in group], device=student.device)
    targets = field_targets(group, student.device)
    each = losses.field_loss(heads.field(passed.hidden, labels), targets, w.state)
    sums = _count(passed, group)
    eventful = torch.tensor([move.eventful for move in group], device=student.device)
    sums["field"] = each.detach().sum()
    sums["field.records"] = len(group)
    sums["field.eventful"] = (each.detach() * eventful).sum()
    sums["field.eventful.records"] = eventful.sum()
    return Result(w.field * each.sum() / total, sums)


def field_targets(group: Sequence[Move], device: str) -> dict[str, Tensor]:
    """Stack the targets m(next view) of some transitions."""
    return {
        name: torch.tensor([getattr(move.target, name) for move in group], device=device)
        for name in FIELD_WIDTHS
    }
