"""Work that does not fit into memory is done in halves.

Rows do not depend on what shares their pass, so a pass may be cut anywhere between them. A half
that does not fit either is halved again, down to one row, which is tried once more when all that
can be spared is given back; only then is the memory too small. Invariant: results are those of the
whole, in its order.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SAID = ("out of memory", "ALLOC_FAILED")
"""What libraries say that do not ask torch for memory."""


def is_short(error: BaseException | None) -> bool:
    """Whether something failed for want of memory, be it in the end or to begin with."""
    while error is not None:
        told = isinstance(error, RuntimeError) and any(text in str(error) for text in SAID)
        if told or isinstance(error, torch.OutOfMemoryError):
            return True
        error = error.__context__
    return False


def attempted(work: Callable[[], Tensor | None], relieve: Callable[[], None]) -> Tensor | None:
    """Do work that another way can do, too; nothing comes of it where memory is short."""
    try:
        return work()
    except RuntimeError as error:
        if not is_short(error):
            raise
    relieve()  # not before: what the failed work held hangs on the error
    return None


def halved(work: Callable[[slice], Tensor], rows: range, relieve: Callable[[], None]) -> Tensor:
    """Do work on rows at once, or in parts where that does not fit.

    Args:
        work: computes consecutive rows; doing it again must do no harm.
        rows: which rows; at least one.
        relieve: gives memory back; called after every failure.

    Raises:
        RuntimeError: where a single row does not fit (mostly torch.OutOfMemoryError).
    """
    whole = slice(rows.start, rows.stop)
    found = attempted(lambda: work(whole), relieve)
    if found is not None:
        return found
    if len(rows) == 1:
        return work(whole)
    middle = len(rows) // 2
    return torch.cat([halved(work, part, relieve) for part in (rows[:middle], rows[middle:])])
