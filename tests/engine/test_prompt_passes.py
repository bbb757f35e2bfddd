"""Parts of the forward pass that CPUs compute in their own way: same numbers as the plain one."""

import pytest
import torch
from torch import Tensor

from waggle.engine.cuda import flash
from waggle.engine.model import attention, linear, pairs, pointwise
from waggle.engine.model.attention import BAND, attend_row
from waggle.engine.model.kv_cache import round_up
from waggle.engine.model.linear import GateUp, Linear


def wave(*shape: int, step: float = 0.37) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()) * step).sin().view(shape)


def test_pairs_turn_as_halves_do() -> None:
    """Reordered weights, complex turns: the products of queries and keys are what they were."""
    heads, kv, width, count = 6, 2, 16, 11
    x, weight = wave(count, 24), wave((heads + 2 * kv) * width, 24, step=0.73)
    angles = torch.arange(count)[:, None] * (100.0 ** (-torch.arange(0, width, 2) / width))
    both = torch.cat((angles, angles), -1).unsqueeze(1)
    cos, sin = both.cos(), both.sin()
    sin[..., : width // 2].neg_()

    spun = (heads + kv) * width
    ordered = torch.cat((pairs.paired(weight[:spun], width), weight[spun:]))
    plain, other = ((x @ w.T).view(count, -1, width) for w in (weight, ordered))
    q, keys = pointwise.rotate(plain, cos, sin, heads, kv)
    p, others = pairs.rotate(other, pairs.table(cos, sin), heads, kv)
    assert not torch.allclose(q, p), "nothing was reordered"
    for one, two in ((q[:, :kv], keys[:, :kv]), (q[:, kv : 2 * kv], keys[:, :kv])):
        start = 0 if one.data_ptr() == q.data_ptr() else kv
        want = torch.einsum("ahd,bhd->hab", one, two)
        found = torch.einsum("ahd,bhd->hab", p[:, start : start + kv], others[:, :kv])
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(others[:, kv:], keys[:, kv:])


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
    torch.testing.assert_close(out, flash.reference(q, *flat, *starts, (count, total), 0.3))
    logits = torch.einsum("qhd,hkd->qhk", q, keys.repeat_interleave(heads // kv, 0)[:, :total])
    ahead = torch.ones(count, total, dtype=torch.bool).triu(first + 1)
    want = (logits * 0.3).masked_fill(ahead[:, None], -torch.inf).logsumexp(-1)
    torch.testing.assert_close(lse, want)


@pytest.mark.parametrize("rows", [1, 40, 300], ids=["few", "packed", "many"])
@pytest.mark.parametrize("fuses", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_and_what_follows_them(
    rows: int, fuses: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a product is computed, gating and adding give what they give by themselves."""
    if not fuses:
        monkeypatch.setattr(linear, "_fuses", lambda _: False)
    x, residual = wave(rows, 32).to(dtype), wave(rows, 48, step=0.9).to(dtype)
    gate, up = (wave(48, 32, step=step).to(dtype) for step in (0.2, 0.6))
    bias = wave(48, step=0.3).to(dtype)
    left, right = (x.float() @ part.float().T for part in (gate, up))
    want = torch.nn.functional.silu(left) * right
    close = {"rtol": 0.02, "atol": 0.2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(GateUp(gate, up)(x, pointwise.gate).float(), want, **close)
    for given in (None, bias):
        added = 0.0 if given is None else given.float()
        want = residual.float() + left + added
        found = Linear(gate, given).add(x, residual.clone())
        torch.testing.assert_close(found.float(), want, **close)
