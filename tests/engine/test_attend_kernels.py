"""The kernels that attend, on rows of every kind, in Triton's interpreter."""

import itertools
import os
from importlib.util import find_spec
from random import Random

import pytest
import torch

from tests.engine.test_mixing import spin
from waggle.engine.cuda import flash, fused
from waggle.engine.cuda import selfcheck as fused_trial
from waggle.engine.model.mixing import Spans

CAPACITY = 250
COUNTS = (0, 1, 2, 20, 21, 22, 63, 64, 65, 100)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(
        find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs triton and its interpreter (TRITON_INTERPRET=1)",
    ),
]
SIZES = [(9, 3, 64), (4, 4, 16), (16, 2, 16), (32, 8, 128)]


def cached(rows: int, prefix: int, kv: int, width: int) -> torch.Tensor:
    """Return caches of rows that begin alike."""
    found = torch.randn((rows, CAPACITY, 2 * kv, width), generator=torch.Generator().manual_seed(1))
    found[:, :prefix] = found[:1, :prefix].clone()
    return found.flatten(0, 1)


@pytest.mark.parametrize("few", [0, fused.FEW])
@pytest.mark.parametrize("prefix", [0, 64, 100])
@pytest.mark.parametrize("sizes", SIZES)
def test_rows_of_any_number_of_tokens(
    sizes: tuple[int, int, int], prefix: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "FEW", few)
    random, (heads, kv, width) = Random(prefix), sizes
    counts = [*random.sample(COUNTS, 6), 1]
    starts = [0, *itertools.accumulate(counts)]
    used = [c + random.randrange(prefix + 1, CAPACITY - 100) if c else 1 for c in counts]
    rows = range(len(counts))
    places = starts, [r * CAPACITY for r in (*rows, 0)], used, [0 for _ in rows]
    seen = [torch.tensor(part, dtype=torch.int32) for part in (*places, [prefix for _ in rows])]
    q = flash.wave((starts[-1], heads, width), 0.731, torch.device("cpu"), torch.float32)
    keys, values = cached(len(counts), prefix, kv, width).chunk(2, dim=1)
    found = fused.Kernels().attend(q, keys, values, Spans(*seen), 0.2)
    wanted = flash.reference(q, keys, values, *seen[:3], (max(counts), CAPACITY), 0.2)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("rows", "splits"), [(2, 8), (30, 4), (90, 2)])
def test_steps_however_their_keys_are_split(rows: int, splits: int) -> None:
    heads, kv, width, prefix = 9, 3, 16, 40
    assert next(parts for most, parts in fused.SPLITS if rows * kv <= most) == splits
    random = Random(rows)
    places = torch.tensor([random.randrange(prefix, CAPACITY) for _ in range(rows)])
    bases = torch.arange(rows + 1) * CAPACITY
    cache = cached(rows, prefix, kv, width)
    new = flash.wave((rows, heads + 2 * kv, width), 0.7, torch.device("cpu"), torch.float32)
    turns = spin(heads, kv, width, torch.float32, normed=True)
    given = new, turns, places, bases[:-1], cache.clone()
    wanted, kept = fused_trial._reference(*given)
    spans = Spans(torch.arange(rows + 1), bases, places + 1, 0 * places, 0 * places + prefix)
    made = fused.Kernels()
    for _ in range(2):  # what was counted the first time is not counted again
        held = cache.clone()
        found = made.step(new, turns, places, spans, held, width**-0.5)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(held, kept, atol=1e-5, rtol=1e-4)
