"""The loss of an update, computed pass by pass.

Stage one minimizes the decision loss. Stage two minimizes Eq. scd, which adds the orbit and field
losses, each with the weight of its arm:

    L_SCD = L_decision + lambda_orbit L_orbit + lambda_field L_field

The loss of every pass is divided by the number of records in the whole update, so any split of a
batch into passes gives the gradient of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from waggle.scd import losses
from waggle.scd.config import Stage, StageTwo
from waggle.scd.data.arrays import spans
from waggle.scd.data.batches import Batch
from waggle.scd.forward.ragged import Ragged, lay_out, to_device
from waggle.scd.forward.run import PassOutput, run
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train.cuda_graph import Scalars

Sums: TypeAlias = dict[str, float | Tensor]
"""Named sums over records; tensors stay on their device until an update is logged."""


class Pass(NamedTuple):
    """The sequences of one pass and their targets, on the device.

    Sequences are the decisions, then the transitions. With images, every decision is two sequences:
    source, image, source, image, ...; without images it is one, which counts as its own image.
    """

    ragged: Ragged
    decisions: int
    step: int
    """Number of sequences per decision: 2, or 1 without images."""
    labels: Tensor
    """rho(d*) of every decision."""
    transitions: int
    rho: Tensor
    """rho of the admitted decision of every transition."""
    targets: Tensor
    """m(next view) of every transition."""
    eventful: Tensor

    def sources_and_images(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Split values of the decisions' sequences; without images, both parts are the sources."""
        return values[0 :: self.step], values[self.step - 1 :: self.step]

    def costs(self) -> Sums:
        """Return token counts of the pass; the replay of a CUDA graph cannot report them."""
        ragged = self.ragged
        return {
            "passes": 1.0, "tokens.read": float(ragged.read), "tokens.run": float(ragged.size),
            "padding": float(ragged.size - ragged.filled),
        }  # fmt: skip


def make_pass(batch: Batch, device: str, *, fixed: bool = False, tree: bool = False) -> Pass:
    """Lay the records of a pass out on the device; `fixed` and `tree` as in `lay_out`."""
    decisions, images, transitions = batch
    parts = [decisions, transitions] if images is None else [decisions, images, transitions]
    ids, lengths, prompts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("ids", "lengths", "prompts")
    )
    if images is not None:
        # source, image, source, image, ..., transitions
        n = len(decisions)
        order = np.arange(len(lengths))
        order[: 2 * n : 2], order[1 : 2 * n : 2] = np.arange(n), np.arange(n, 2 * n)
        starts = (np.cumsum(lengths) - lengths)[order]
        lengths, prompts = lengths[order], prompts[order]
        ids = ids[spans(starts, lengths)]
    return Pass(
        ragged=lay_out(ids, lengths, prompts, device=device, fixed=fixed, tree=tree),
        decisions=len(decisions), step=1 if images is None else 2,
        labels=to_device(decisions.labels, device),
        transitions=len(transitions), rho=to_device(transitions.labels, device),
        targets=to_device(transitions.targets, device),
        eventful=to_device(transitions.eventful, device),
    )  # fmt: skip


class Result(NamedTuple):
    """The loss of a pass, ready for backward, and sums over its records for the log."""

    loss: Tensor
    sums: Sums


class Objective:
    """The loss of one stage of one arm."""

    def __init__(
        self, stage: Stage, heads: Heads | None = None, weights: tuple[float, float] = (0.0, 0.0),
        *, mean: bool = True,
    ) -> None:  # fmt: skip
        """Define the loss to minimize.

        Args:
            stage: the stage's settings.
            heads: the training heads; without them only the decision loss is computed.
            weights: weights of the orbit and field losses; a loss of weight zero is still computed.
            mean: average the token losses of a record instead of summing them.
        """
        self.heads, self._stage, self._weights, self._mean = heads, stage, weights, mean
        self._orbit: float | Tensor = 0.0
        self._field: float | Tensor = 0.0
        self._state, self._beta = 1.0, 0.0
        if isinstance(stage, StageTwo):
            self._state, self._beta = stage.lambda_state, stage.beta

    def set_update(self, update: int, scalars: Scalars) -> None:
        """Set the auxiliary loss weights of an update: zero during warm-up, then rising."""
        if isinstance(self._stage, StageTwo):
            rise = losses.ramp(update, self._stage.warm_up, self._stage.ramp)
            self._orbit = scalars.set(self._orbit, self._weights[0] * rise)
            self._field = scalars.set(self._field, self._weights[1] * rise)

    def __call__(self, student: Student, shown: Pass, *, validating: bool = False) -> Result:
        """Run a pass and return its part of the loss; only the decision loss if `validating`."""
        passed, heads = run(student.model, shown.ragged), None if validating else self.heads
        sums = shown.costs()
        parts: list[Tensor] = []
        if shown.decisions:
            loss = self._decisions(shown, passed, heads, sums)
            parts.append(loss / self._stage.batch)
        if shown.transitions and heads is not None and isinstance(self._stage, StageTwo):
            hidden = passed.hidden[-shown.transitions :]
            loss = self._transitions(shown, hidden, heads, sums)
            parts.append(loss / self._stage.transition_batch)
        return Result(torch.stack(parts).sum(), sums)

    def _decisions(
        self, shown: Pass, passed: PassOutput, heads: Heads | None, sums: Sums
    ) -> Tensor:
        """Sum the decision loss and the weighted orbit loss (Eq. token-loss, orbit-loss)."""
        sequence_of, sequences = shown.ragged.record, shown.step * shown.decisions
        # Transitions follow the decisions; filler tokens belong to an extra record after the last.
        records = len(passed.hidden) + 1
        loss = losses.record_loss(passed.nll, sequence_of, records, mean=self._mean)[:sequences]
        source_loss, image_loss = shown.sources_and_images(loss)
        is_source = (sequence_of % shown.step == 0) & (sequence_of < sequences)
        sums |= {
            "decisions": shown.decisions,
            "decision": source_loss.detach().sum(),
            "nll": (passed.nll.detach() * is_source).sum(),
            "nll.tokens": is_source.sum(),
        }
        if heads is None:
            return source_loss.sum()
        logits = heads.orbit(passed.hidden[:sequences])
        source, image = shown.sources_and_images(logits)
        head_loss = losses.orbit_head_loss(source, image, shown.labels, self._beta)
        sums["orbit"] = head_loss.detach().sum()
        sums["orbit.hits"] = losses.orbit_accuracy(source.detach(), shown.labels).sum()
        return (source_loss + self._orbit * (image_loss + head_loss)).sum()

    def _transitions(self, shown: Pass, hidden: Tensor, heads: Heads, sums: Sums) -> Tensor:
        """Sum the weighted field loss (Eq. field-loss-components)."""
        each = losses.field_loss(heads.field(hidden, shown.rho), shown.targets, self._state)
        sums |= {
            "field": each.detach().sum(),
            "transitions": shown.transitions,
            "field.eventful": (each.detach() * shown.eventful).sum(),
            "transitions.eventful": shown.eventful.sum(),
        }
        return self._field * each.sum()


def add(total: Sums, more: Sums) -> None:
    """Add sums to a total, in place."""
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value


def read(sums: Sums) -> dict[str, float]:
    """Read all sums from the device at once."""
    kept = {name: value for name, value in sums.items() if isinstance(value, Tensor)}
    values = torch.stack([value.detach().double() for value in kept.values()]).tolist()
    plain = {name: float(value) for name, value in sums.items() if name not in kept}
    return plain | dict(zip(kept, values, strict=True))


def metrics(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics to log from the sums of an update."""

    def mean(name: str, over: float) -> float:
        return sums.get(name, 0.0) / max(1.0, over)

    decisions, transitions = sums["decisions"], sums.get("transitions", 0.0)
    values = {
        "nll": mean("nll", sums["nll.tokens"]),
        "decision": mean("decision", decisions),
        "tokens": sums["tokens.read"],
        "tokens.run": sums["tokens.run"],
        "padding": mean("padding", sums["tokens.run"]),
        "passes": sums["passes"],
    }
    if transitions:
        values["orbit"] = mean("orbit", decisions)
        values["orbit.accuracy"] = mean("orbit.hits", decisions)
        values["field"] = mean("field", transitions)
        values["field.eventful"] = mean("field.eventful", sums["transitions.eventful"])
    return values
