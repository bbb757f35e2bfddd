"""The updates of a run: policy gradient on sampled decisions, with imitation beside it.

Every update is computed in passes of bounded size and, in a group of processes, by all of them; the
gradient is that of the whole update either way. Decisions are drawn in proportion to their credit.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from waggle.core.seeds import generator
from waggle.learn import imitation
from waggle.learn.config import Settings
from waggle.learn.credit import sample_decisions
from waggle.learn.decisions import Decisions
from waggle.learn.losses import lay_out_choices, log_policy, policy_terms
from waggle.scd.config import Stage
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import groups
from waggle.scd.files import TrainError
from waggle.scd.forward.prefix_tree import sorted_by_tokens
from waggle.scd.forward.ragged import Ragged, lay_out
from waggle.scd.forward.run import final_states, output_of, run
from waggle.scd.model import Student
from waggle.scd.train.cuda_graph import Scalars
from waggle.scd.train.distributed import Processes
from waggle.scd.train.optimizer import Optimizer


class Updates:
    """Changes the weights of a student."""

    def __init__(
        self, student: Student, settings: Settings, seed: int, processes: Processes
    ) -> None:
        self.student, self.settings, self.seed, self.processes = student, settings, seed, processes
        self.optimizer = self._open_optimizer(
            Stage(
                updates=1_000_000, rate=settings.rate, rate_warm_up=settings.rate_warm_up,
                weight_decay=0.0,
            )
        )  # fmt: skip
        self.reference: Student | None = None
        """The starting law, which the divergence is measured from; None if it has no weight."""
        self.rehearsal: Rows | None = None
        """Records of the starting law that are imitated beside."""

    def _open_optimizer(self, stage: Stage) -> Optimizer:
        trained = self.student.trainable()
        return Optimizer(trained, None, stage, Scalars(self.student.device, replayed=False))

    def learn_format(self, rows: Rows) -> None:
        """Imitate random legal records, with an optimizer of their own."""
        stage = Stage(
            updates=self.settings.grammar_updates, rate=1e-3, rate_warm_up=20, decay="cosine"
        )
        optimizer = self._open_optimizer(stage)
        self.student.model.train()
        for update in range(stage.updates):
            optimizer.set_rates(update, 0.0)
            optimizer.clear()
            drawn = imitation.draw_rows(rows, imitation.BATCH, self.seed, update)
            self.imitate(drawn, 1 / int((drawn.lengths - drawn.prompts).sum()))
            optimizer.step(self.processes)

    def learn(
        self, decisions: Decisions, advantage: NDArray[np.float64], number: int
    ) -> dict[str, float]:
        """Run the updates of a batch, each on its share of the decisions that got credit."""
        draws = generator(self.seed, "updates", number)
        order, advantage = sample_decisions(advantage, self.settings.trained, draws)
        updates = self.settings.updates
        norm = 0.0
        own_sums: dict[str, float] = {}  # of this process's choices: loss terms, and their number
        self.student.model.train()
        for place, chosen in enumerate(np.array_split(order, updates)):
            if len(chosen):
                update = number * updates + place
                norm += self._update(decisions.take(chosen), advantage[chosen], update, own_sums)
        sums = self.processes.add(own_sums)
        choices = max(1.0, sums.pop("choices", 0.0))
        if self.reference is None:  # zero, since it was not measured
            sums.pop("divergence", None)
        return {
            "gradient": norm / updates, "trained": float(max(1, len(order))),
            **{f"choice.{name}": value / choices for name, value in sums.items()},
        }  # fmt: skip

    def _update(
        self, decisions: Decisions, advantage: NDArray[np.float64], update: int,
        sums: dict[str, float],
    ) -> float:  # fmt: skip
        """Run one update on this process's share of the decisions; return the gradient norm."""
        settings, count = self.settings, len(decisions)
        self.optimizer.set_rates(update, 0.0)
        self.optimizer.clear()
        # Put prompts of one task side by side, so that their common prefix is computed once.
        starts = np.cumsum(decisions.lengths) - decisions.lengths
        by_tokens = sorted_by_tokens(decisions.ids, starts, decisions.prompts)
        own = np.array_split(by_tokens, self.processes.count)[self.processes.rank]
        decisions, advantage = decisions.take(own), advantage[own]
        for rows in groups(decisions.lengths, settings.machine.tokens_per_pass):
            self._pass(decisions.take(rows), advantage[rows], count, sums)
        if self.rehearsal is not None and settings.rehearsed:
            rehearsed = max(1, round(count * settings.rehearsed / (1 - settings.rehearsed)))
            records = imitation.draw_rows(self.rehearsal, rehearsed, self.seed, update)
            self.imitate(records, settings.rehearsed / rehearsed)  # decisions weigh one in all
        norms = self.optimizer.step(self.processes)
        norm = float(norms["gradient.backbone"])
        if not np.isfinite(norm):
            raise TrainError("the loss is not finite; lower the rate of the recipe")
        return norm

    def _pass(
        self, decisions: Decisions, advantage: NDArray[np.float64], count: int,
        sums: dict[str, float],
    ) -> None:  # fmt: skip
        """Accumulate the gradient of one pass of an update of `count` decisions; add to `sums`."""
        settings, device = self.settings, self.student.device
        ragged = lay_out(decisions.ids, decisions.lengths, decisions.prompts, device=device)
        choices = lay_out_choices(decisions, advantage, device)
        start = None
        if self.reference is not None:
            with torch.no_grad(), self.reference.arithmetic():
                logits = logits_of(self.reference, ragged)
                start = log_policy(logits, choices, settings.temperature)
        with self.student.arithmetic():
            terms = policy_terms(
                logits_of(self.student, ragged), ragged.targets, choices, start,
                temperature=settings.temperature, clip=settings.clip, most=settings.entropy_most,
            )  # fmt: skip
        loss = (
            terms.policy + settings.kl * terms.divergence - settings.entropy * terms.entropy
            + settings.legality * terms.legality
        )  # fmt: skip
        torch.autograd.backward(loss / count)
        values = torch.stack([term.detach().float() for term in terms]).tolist()
        for name, value in zip(terms._fields, values, strict=True):
            sums[name] = sums.get(name, 0.0) + value
        sums["choices"] = sums.get("choices", 0.0) + len(choices.row)

    def imitate(self, rows: Rows, weight: float) -> None:
        """Accumulate the gradient of imitating this process's share of the records."""
        rows = rows.take(np.arange(self.processes.rank, len(rows), self.processes.count))
        for chosen in groups(rows.inputs, self.settings.machine.tokens_per_pass):
            part = rows.take(chosen)
            ragged = lay_out(part.ids, part.lengths, part.prompts, device=self.student.device)
            with self.student.arithmetic():
                nll = run(self.student.model, ragged).nll.sum()
            torch.autograd.backward(weight * nll)


def logits_of(student: Student, ragged: Ragged) -> torch.Tensor:
    """Return the logits of all predicted tokens of a pass."""
    states = final_states(student.model, ragged)
    logits: torch.Tensor = output_of(student.model)(states.index_select(0, ragged.where))
    return logits
