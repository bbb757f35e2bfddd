"""References that training is compared with: one plain pass per sequence, one loss per record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.scd import losses
from waggle.scd.config import StageTwo
from waggle.scd.data.arrays import Encoded, Rows
from waggle.scd.data.batches import Batch
from waggle.scd.forward import attention
from waggle.scd.heads import Heads
from waggle.scd.model import Student


def sequences(rows: Rows) -> list[Encoded]:
    """Return records as lists of tokens."""
    ends = np.cumsum(rows.lengths).tolist()
    ids = [rows.ids[start:end].tolist() for start, end in pairwise([0, *ends])]
    return [Encoded(i[:p], i[p:]) for i, p in zip(ids, rows.prompts.tolist(), strict=True)]


def alone(model: Any, one: Encoded) -> tuple[Tensor, Tensor]:
    """Run one sequence through a plain model; return its view state and its token losses."""
    ids = torch.tensor([[*one.prompt, *one.answer]])
    found = model(input_ids=ids, output_hidden_states=True)
    start = len(one.prompt) - 1
    logits = found.logits[0, start : start + len(one.answer)]
    nll = F.cross_entropy(
        logits, torch.tensor(list(one.answer), dtype=torch.long), reduction="none"
    )
    return found.hidden_states[-1][0, start], nll


def alone_loss(student: Student, one: Encoded) -> Tensor:
    """Return the token losses of one sequence, with the backbone's ordinary attention."""
    with _plain_attention(student), torch.no_grad():
        student.model.eval()
        return alone(student.model, one)[1]


@contextmanager
def _plain_attention(student: Student) -> Iterator[None]:
    causal = getattr(student.model, "get_base_model", lambda: student.model)()
    attention.uninstall(causal)
    yield
    attention.install(causal)


def scd_loss(
    student: Student, heads: Heads, batch: Batch, stage: StageTwo, weights: tuple[float, float]
) -> Tensor:
    """Return Eq. scd of a batch, record by record, with the backbone's ordinary attention."""
    with _plain_attention(student):
        decisions, images, transitions = batch
        sources = [alone(student.model, one) for one in sequences(decisions)]
        others = sources if images is None else [alone(student.model, x) for x in sequences(images)]
        states = [alone(student.model, one)[0] for one in sequences(transitions)]
    total = torch.zeros(())
    for (one, nll), (other, image), labels in zip(sources, others, decisions.labels, strict=True):
        logits = heads.orbit(torch.stack([one, other]))
        rho = torch.from_numpy(labels)[None]
        orbit = losses.orbit_head_loss(logits[:1], logits[1:], rho, stage.beta)[0]
        total = total + (nll.mean() + weights[0] * (image.mean() + orbit)) / stage.batch
    for hidden, labels, target in zip(states, transitions.labels, transitions.targets, strict=True):
        logits = heads.field(hidden[None], torch.from_numpy(labels)[None])
        field = losses.field_loss(logits, torch.from_numpy(target)[None], stage.lambda_state)[0]
        total = total + weights[1] * field / stage.transition_batch
    return total
