"""Attention in bands gives what attention over all keys at once gives."""

import pytest
import torch
from torch import Tensor

from waggle.engine.cuda.selfcheck import varlen_reference
from waggle.engine.model import attention
from waggle.engine.model.attention import BAND, attend_row
from waggle.engine.model.kv_cache import round_up


def wave(*shape: int, step: float = 0.37) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()) * step).sin().view(shape)


@pytest.mark.parametrize("first", [0, 3, BAND - 1, BAND, 3 * BAND + 5])
@pytest.mark.parametrize("count", [1, 17, BAND, 2 * BAND + 9])
def test_bands_see_what_comes_before_them(first: int, count: int) -> None:
    heads, kv, width = 6, 2, 8
    total = first + count
    room = round_up(total, attention.WIDTH) + 16
    q, cache = wave(count, heads, width), wave(2, kv, room, width, step=0.51)
    keys, values = cache
    out, lse = torch.full_like(q, torch.nan), torch.full((count, heads), torch.nan)
    attend_row(q, keys, values, 0.3, first, (out, lse))
    starts = torch.tensor([0, count]), torch.tensor([0, room]), torch.tensor([total])
    flat = (part[:, :total].transpose(0, 1) for part in cache)
    torch.testing.assert_close(out, varlen_reference(q, *flat, *starts, (count, total), 0.3))
    logits = torch.einsum("qhd,hkd->qhk", q, keys.repeat_interleave(heads // kv, 0)[:, :total])
    ahead = torch.ones(count, total, dtype=torch.bool).triu(first + 1)
    want = (logits * 0.3).masked_fill(ahead[:, None], -torch.inf).logsumexp(-1)
    torch.testing.assert_close(lse, want)
