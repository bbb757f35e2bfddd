"""What a frozen student makes of encoded records: view states and token losses, in few passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from waggle.scd.data.arrays import Index, Rows
from waggle.scd.forward.forward import Passed, run
from waggle.scd.model import Student
from waggle.scd.train.scenes import held_out, passed, scene


class Read(NamedTuple):
    """What was read of some records, in their order, on the CPU."""

    hidden: Tensor
    """Final local-view state of each, (records, width), float32."""
    nll: Tensor
    """Sum of the token losses of each record."""
    tokens: Tensor
    """Tokens of each record."""


def read(student: Student, rows: Rows) -> Read:
    """Run a frozen student once over some records."""
    student.model.eval()
    hidden = torch.zeros(len(rows), student.width)
    nll, tokens = torch.zeros(len(rows)), torch.zeros(len(rows))
    with torch.no_grad(), student.arithmetic():
        for chosen, found in _passes(student, rows):
            where = torch.from_numpy(chosen)
            hidden[where] = found.hidden.float().cpu()
            record, each = found.record.cpu(), found.nll.float().cpu()
            nll[where] = torch.zeros(len(chosen)).index_add(0, record, each)
            tokens[where] = torch.zeros(len(chosen)).index_add(0, record, torch.ones_like(each))
    return Read(hidden, nll, tokens)


def _passes(student: Student, rows: Rows) -> Iterator[tuple[Index, Passed]]:
    """Run records of similar length together: flat passes where the recipe says so."""
    order = np.argsort(rows.fed, kind="stable")
    at = 0
    for part in held_out(rows.take(order), student.recipe.run.tokens_per_pass):
        chosen = order[at : at + len(part.sources)]
        at += len(chosen)
        if student.recipe.run.flat:
            yield chosen, passed(student, scene(part, student.device).flat)
        else:
            yield chosen, run(student.model, part.sources.encoded(), student.device)
