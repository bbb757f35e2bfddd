"""The Triton kernels compute what they must, on rows of every kind, in Triton's interpreter."""

import itertools
import os
from importlib.util import find_spec
from random import Random

import pytest
import torch
from torch import Tensor

from tests.engine.helpers import rotation
from waggle.engine.cuda import kernels, selfcheck
from waggle.engine.cuda.greedy_loop import propose
from waggle.engine.cuda.kernels import FEW, Kernels
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_rows import Spans

CPU = torch.device("cpu")
CAPACITY = 160
SIZES = [(9, 3, 64), (4, 4, 16), (16, 2, 16), (8, 2, 128)]
"""Heads, key heads and their width."""

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(
        find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs triton and its interpreter (TRITON_INTERPRET=1)",
    ),
]


def cached(rows: int, prefix: int, kv: int, width: int) -> Tensor:
    """Return caches of rows that begin alike."""
    found = torch.randn((rows, CAPACITY, 2 * kv, width), generator=torch.Generator().manual_seed(1))
    found[:, :prefix] = found[:1, :prefix].clone()
    return found.flatten(0, 1)


@pytest.mark.parametrize(("prefix", "few"), [(0, FEW), (64, 0), (80, FEW)])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_of_any_number_of_tokens(
    sizes: tuple[int, int, int], prefix: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer tokens than a tile has, as many, and one more; rows without any."""
    monkeypatch.setattr(kernels, "FEW", few)
    random, (heads, kv, width) = Random(prefix), sizes
    tile = kernels.QUERIES * kv // heads
    counts = [*random.sample((0, 2, tile - 1, tile, tile + 1), 3), 1]
    starts = [0, *itertools.accumulate(counts)]
    used = [min(CAPACITY, c + random.randrange(prefix + 1, 150)) if c else 1 for c in counts]
    rows = range(len(counts))
    places = starts, [r * CAPACITY for r in (*rows, 0)], used, [0 for _ in rows]
    seen = [torch.tensor(part, dtype=torch.int32) for part in (*places, [prefix for _ in rows])]
    q = selfcheck.wave((starts[-1], heads, width), 0.731, CPU, torch.float32)
    keys, values = cached(len(counts), prefix, kv, width).chunk(2, dim=1)
    found = Kernels().attend(q, keys, values, Spans(*seen), 0.2)
    longest = max(counts), CAPACITY
    wanted = selfcheck.varlen_reference(q, keys, values, *seen[:3], longest, 0.2)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("rows", "splits"), [(2, 8), (3, 4), (4, 2), (5, 1)])
def test_steps_however_their_keys_are_split(
    rows: int, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, kv, width, prefix = 6, 2, 16, 40
    monkeypatch.setattr(kernels, "SPLITS", ((4, 8), (6, 4), (8, 2)))
    assert next((parts for most, parts in kernels.SPLITS if rows * kv <= most), 1) == splits
    random = Random(rows)
    places = torch.tensor([random.randrange(prefix, CAPACITY) for _ in range(rows)])
    bases = torch.arange(rows + 1) * CAPACITY
    cache = cached(rows, prefix, kv, width)
    new = selfcheck.wave((rows, heads + 2 * kv, width), 0.7, CPU, torch.float32)
    turns = rotation(heads, kv, width, torch.float32, normed=True)
    wanted, kept = selfcheck.step_reference(new, turns, places, bases[:-1], cache.clone())
    spans = Spans(torch.arange(rows + 1), bases, places + 1, 0 * places, 0 * places + prefix)
    made = Kernels()
    for _ in range(2 if splits == 8 else 1):  # what was counted the first time is not counted again
        held = cache.clone()
        found = made.step(new, turns, places, spans, held, width**-0.5)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(held, kept, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("length", "room"), [(40, 1), (1024, 1500), (1500, 1)])
def test_one_launch_proposes_what_torch_does(length: int, room: int) -> None:
    random = torch.Generator().manual_seed(length + room)
    for letters, count in ((2, 3), (7, 15)):
        texts = torch.randint(letters, (5, length), dtype=torch.int32, generator=random)
        history = torch.randint(-1, letters, (room,), dtype=torch.int32, generator=random)
        slots = torch.randint(5, (6,), generator=random)
        places = torch.randint(length, (6,), generator=random)
        places[0], places[1] = 0, length - 1
        found = Kernels().propose(texts, slots, places, history, count)
        assert found.tolist() == propose(texts, slots, places, history, count).tolist()


@pytest.mark.parametrize(
    ("heads", "kv", "width", "normed", "dtype"),
    [
        (6, 2, 32, True, torch.float16),
        (4, 2, 16, False, torch.float32),
    ],
)
def test_the_kernels_pass_the_check_of_a_gpu(
    heads: int,
    kv: int,
    width: int,
    normed: bool,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not in bfloat16: the interpreter multiplies matrices of it by their bits (kernels without a
    # product agree in it), so a GPU's own check at load decides there.
    monkeypatch.setattr(selfcheck, "IDLE", 20)
    shape = Shape(1, 576, 1536, heads, kv, width, 1e-6)
    turns = rotation(heads, kv, width, dtype, normed)
    assert selfcheck.passed(Kernels(), turns, CPU, dtype, shape)
