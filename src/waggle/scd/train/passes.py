"""Passes: how the records of an update are run, and the loss each pass contributes (Eq. scd).

Records are grouped by length up to a token budget; every pass is divided by the number of records
of the whole update, so any grouping gives the gradient of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from waggle.scd import losses
from waggle.scd.data.records import Move, Pair
from waggle.scd.forward.forward import Passed, run
from waggle.scd.forward.packing import common_prefix
from waggle.scd.heads import Heads
from waggle.scd.model import Student

Record: TypeAlias = Pair | Move
Sums: TypeAlias = dict[str, float | Tensor]
"""Named sums over records; tensors stay on their device until an update is logged."""


class Weights(NamedTuple):
    """Factors of the losses at one update; zero computes a loss and drops it."""

    orbit: float | Tensor
    field: float | Tensor
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


class Told(NamedTuple):
    """What the records of a pass are held against, on the device.

    Sequences of a pass are those of the pairs (source, image, source, ...), then transitions.
    """

    pairs: int
    step: int
    """Sequences of one pair: 2, or 1 without images."""
    labels: Tensor
    """rho(d*) of every pair."""
    moves: int
    rho: Tensor
    """rho of the admitted decision of every transition."""
    targets: Tensor
    """m(next view) of every transition."""
    eventful: Tensor


def scd_pass(
    student: Student, heads: Heads | None, group: Sequence[Record], totals: Totals, w: Weights
) -> Result:
    """Run some records together and return their part of Eq. scd."""
    pairs = [record for record in group if isinstance(record, Pair)]
    moves = [record for record in group if isinstance(record, Move)]
    sequences = [s for pair in pairs for s in pair.sequences] + [m.source for m in moves]
    passed = run(student.model, sequences, student.device)
    read = float(sum(map(len, sequences)))
    return scd_loss(heads, passed, told_of(pairs, moves, student.device), totals, w, read)


def told_of(pairs: Sequence[Pair], moves: Sequence[Move], device: str) -> Told:
    """Put what records are held against on the device."""
    return Told(
        len(pairs),
        len(pairs[0].sequences) if pairs else 1,
        torch.tensor([pair.labels for pair in pairs], device=device),
        len(moves),
        torch.tensor([move.labels for move in moves], device=device),
        field_targets(moves, device),
        torch.tensor([move.eventful for move in moves], device=device),
    )


def scd_loss(
    heads: Heads | None, passed: Passed, told: Told, totals: Totals, w: Weights, read: float
) -> Result:
    """Return the part of Eq. scd that a pass contributes, and its sums."""
    sums: Sums = {"passes": 1.0, "tokens.read": read, "tokens.run": passed.run}
    sums |= {"slots": passed.slots, "slots.padding": passed.padding}
    parts: list[Tensor] = []
    if told.pairs:
        parts.append(_decisions(heads, told, passed, w, sums) / totals.pairs)
    if told.moves and heads is not None:
        parts.append(_field(heads, told, passed.hidden[-told.moves :], w, sums) / totals.moves)
    return Result(torch.stack(parts).sum(), sums)


def _decisions(
    heads: Heads | None, told: Told, passed: Passed, w: Weights, sums: Sums
) -> Tensor:  # fmt: skip
    """Sum decision and weighted orbit loss of some pairs (Eq. token-loss, orbit-loss)."""
    step, rows = told.step, told.step * told.pairs
    # Filler belongs to no sequence: to the one after the last.
    every = len(passed.hidden) + 1
    token = losses.record_loss(passed.nll, passed.record, every, mean=w.mean)[:rows]
    own, image = token[0::step], token[step - 1 :: step]
    source = (passed.record % step == 0) & (passed.record < rows)
    sums |= {
        "pairs": told.pairs,
        "decision": own.detach().sum(),
        "nll": (passed.nll.detach() * source).sum(),
        "nll.tokens": source.sum(),
    }
    if heads is None:
        return own.sum()
    logits = heads.orbit(passed.hidden[:rows])
    one, other = logits[0::step], logits[step - 1 :: step]
    head = losses.orbit_head_loss(one, other, told.labels, w.beta)
    sums["orbit"] = head.detach().sum()
    sums["orbit.hits"] = losses.orbit_accuracy(one.detach(), told.labels).sum()
    return (own + w.orbit * (image + head)).sum()


def _field(heads: Heads, told: Told, hidden: Tensor, w: Weights, sums: Sums) -> Tensor:
    """Sum the weighted field loss of some transitions (Eq. field-loss-components)."""
    each = losses.field_loss(heads.field(hidden, told.rho), told.targets, w.state)
    sums |= {
        "field": each.detach().sum(),
        "moves": told.moves,
        "field.eventful": (each.detach() * told.eventful).sum(),
        "moves.eventful": told.eventful.sum(),
    }
    return w.field * each.sum()


def field_targets(group: Sequence[Move], device: str) -> Tensor:
    """Stack the targets m(next view) of some transitions."""
    return torch.tensor(np.array([move.target for move in group]), device=device)
