"""What rows will say next, if they go on as they or earlier answers did: found on the device.

An answer that quotes its prompt, repeats itself or is like another one is foretold by the place in
those texts that its last tokens resemble most. Looking for it is recorded with the step that tries
what was found; `cuda.fused` does it in one launch, where there are kernels of our own.
Invariant: drafts alone come from here; they change speed and never output.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ORDER = 8
"""Last tokens that are looked for: the last one counts more than all before it, and so on."""


Recalled = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
"""As `recalled`."""


def recalled(texts: Tensor, slots: Tensor, places: Tensor, answers: Tensor, count: int) -> Tensor:
    """Return the tokens that followed what is most like each row's last ones ([rows, count]).

    Args:
        texts: the tokens of all slots, [slots, L].
        slots: which of them each row has.
        places: where the last known token of each row is.
        answers: one text for all rows; of places that are equally alike the latest counts, and
            those of this text count as later than the row's own.
        count: tokens that are wanted; a row that has fewer behind the place repeats them.
    """
    texts, own = texts[slots], texts.shape[1]
    whole = torch.cat((texts, answers.expand(len(texts), -1)), 1)
    columns = torch.arange(ORDER - 1, whole.shape[1], device=texts.device)
    alike = torch.zeros((len(texts), len(columns)), dtype=torch.int64, device=texts.device)
    for back in range(ORDER):
        last = texts.gather(1, (places - back).clamp_min(0).unsqueeze(1))
        here = whole[:, ORDER - 1 - back : whole.shape[1] - back]
        alike.add_(here == last, alpha=1 << (ORDER - 1 - back))
    known = (columns < places.unsqueeze(1)) | (columns >= own)
    latest = torch.where(known, alike * whole.shape[1] + columns, -1)
    found = latest.argmax(1) + ORDER - 1
    # Behind the last own token comes what came behind the place: a loop goes on.
    period = torch.where(found < own, places - found, whole.shape[1]).unsqueeze(1)
    ahead = torch.arange(count, device=texts.device) % period
    at = (found.unsqueeze(1) + 1 + ahead).clamp_max(whole.shape[1] - 1)
    return whole.gather(1, at).clamp_min(0)
