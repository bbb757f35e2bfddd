"""Passes: how the records of an update are run, and the loss each pass contributes (Eq. scd).

Records are grouped by length up to a token budget; every pass is divided by the number of records
of the whole update, so any grouping gives the gradient of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from waggle.scd import losses
from waggle.scd.data import Move, Pair
from waggle.scd.forward import Passed, run
from waggle.scd.heads import FIELD_WIDTHS, Heads
from waggle.scd.model import Student
from waggle.scd.packing import common_prefix

Record: TypeAlias = Pair | Move
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


def grouped(records: Sequence[Record], budget: int) -> list[list[Record]]:
    """Group records of similar length into passes of at most so many tokens.

    Decision and transition records share passes: fewer and larger ones keep a GPU busy.
    """
    every = [s.fed for record in records for s in record.sequences]
    shared = common_prefix(every, min(len(s) for s in every) - 1) if every else 0
    groups: list[list[Record]] = []
    filled = 0
    for record in sorted(records, key=lambda r: max(len(s) for s in r.sequences)):
        cost = sum(len(s) - shared for s in record.sequences)
        if not groups or filled + cost > budget:
            groups.append([])
            filled = shared
        groups[-1].append(record)
        filled += cost
    return groups


class Totals(NamedTuple):
    """How many records of each kind a whole update has."""

    pairs: int
    moves: int


def scd_pass(
    student: Student, heads: Heads | None, group: Sequence[Record], totals: Totals, w: Weights
) -> Result:
    """Run some records together and return their part of Eq. scd."""
    pairs = [record for record in group if isinstance(record, Pair)]
    moves = [record for record in group if isinstance(record, Move)]
    sequences = [s for pair in pairs for s in pair.sequences] + [m.source for m in moves]
    passed = run(student.model, sequences, student.device)
    sums: Sums = {"passes": 1.0, "tokens.read": float(sum(map(len, sequences)))}
    sums |= {"tokens.run": passed.run, "slots": passed.slots, "slots.padding": passed.padding}
    parts: list[Tensor] = []
    if pairs:
        parts.append(_decisions(student, heads, pairs, passed, w, sums) / totals.pairs)
    if moves and heads is not None:
        hidden = passed.hidden[len(sequences) - len(moves) :]
        parts.append(_field(student, heads, moves, hidden, w, sums) / totals.moves)
    return Result(torch.stack(parts).sum(), sums)


def _decisions(
    student: Student, heads: Heads | None, pairs: Sequence[Pair], passed: Passed, w: Weights,
    sums: Sums,
) -> Tensor:  # fmt: skip
    """Sum decision and weighted orbit loss of some pairs (Eq. token-loss, orbit-loss)."""
    step = len(pairs[0].sequences)
    rows = step * len(pairs)
    token = losses.record_loss(passed.nll, passed.record, rows, mean=w.mean)
    own, image = token[0::step], token[step - 1 :: step]
    source = (passed.record % step == 0).detach()
    sums |= {
        "pairs": len(pairs),
        "decision": own.detach().sum(),
        "nll": (passed.nll.detach() * source).sum(),
        "nll.tokens": source.sum(),
    }
    if heads is None:
        return own.sum()
    labels = torch.tensor([pair.labels for pair in pairs], device=student.device)
    one = heads.orbit(passed.hidden[0:rows:step])
    other = heads.orbit(passed.hidden[step - 1 : rows : step])
    head = losses.orbit_head_loss(one, other, labels, w.beta)
    sums["orbit"] = head.detach().sum()
    sums["orbit.hits"] = losses.orbit_accuracy(one, labels).sum()
    return (own + w.orbit * (image + head)).sum()


def _field(
    student: Student, heads: Heads, moves: Sequence[Move], hidden: Tensor, w: Weights, sums: Sums
) -> Tensor:
    """Sum the weighted field loss of some transitions (Eq. field-loss-components)."""
    labels = torch.tensor([move.labels for move in moves], device=student.device)
    targets = field_targets(moves, student.device)
    each = losses.field_loss(heads.field(hidden, labels), targets, w.state)
    eventful = torch.tensor([move.eventful for move in moves], device=student.device)
    sums |= {
        "field": each.detach().sum(),
        "moves": len(moves),
        "field.eventful": (each.detach() * eventful).sum(),
        "moves.eventful": eventful.sum(),
    }
    return w.field * each.sum()


def field_targets(group: Sequence[Move], device: str) -> dict[str, Tensor]:
    """Stack the targets m(next view) of some transitions."""
    return {
        name: torch.tensor([getattr(move.target, name) for move in group], device=device)
        for name in FIELD_WIDTHS
    }
