"""How the lean backend cuts passes, by memory and by cores, and which prefixes it keeps."""

from typing import Any

import pytest
import torch

from tests.engine.helpers import answers, ids, prompts, references
from waggle.engine.backends import lean
from waggle.engine.backends.lean import CoreThreads, LeanBackend
from waggle.engine.engine import Engine
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import Piece
from waggle.engine.request import Prompt


def test_a_pass_is_planned_for_what_is_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(30, 576, 1536, 9, 3, 64, 1e-5)
    monkeypatch.setattr(lean, "spare", lambda device: 100 << 20)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 500 << 20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 400 << 20)
    device = torch.device("cuda")
    few = lean.affordable(device, shape, 2)
    assert lean.LEAST_TOKENS < few < (200 << 20) / (2 * 3 * 1536)
    monkeypatch.setattr(lean, "spare", lambda device: 100 << 30)
    assert lean.affordable(device, shape, 2) > 1_000_000
    monkeypatch.setattr(lean, "spare", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 500 << 20)
    assert lean.affordable(device, shape, 2) == lean.LEAST_TOKENS


def test_rows_are_split_about_evenly_and_in_order() -> None:
    assert lean.split([5, 5, 5], 15) == [(0, 3)]
    assert lean.split([5, 5, 5, 5], 10) == [(0, 2), (2, 4)]
    assert lean.split([100, 1, 1], 10) == [(0, 1), (1, 3)]
    for budget in (1, 7, 40):
        spans = lean.split([3, 9, 1, 1, 20, 4, 4], budget)
        assert [row for first, last in spans for row in range(first, last)] == list(range(7))


@pytest.mark.parametrize(
    ("cores", "rows", "parts"), [(16, 64, 8), (2, 64, 2), (16, 15, 1), (16, 16, 2), (16, 4000, 16)]
)
def test_a_pass_uses_as_many_cores_as_have_work(
    tiny: Any, cores: int, rows: int, parts: int
) -> None:
    """Three tokens of each row: too few for all of sixteen cores are still enough for some."""
    backend = LeanBackend(tiny[0], rows)
    backend.cores = CoreThreads(cores)
    spans = backend._spans([Piece(slot, [1, 2, 3], 9) for slot in range(rows)])
    assert len(spans) == parts
    assert [row for first, last in spans for row in range(first, last)] == list(range(rows))


def test_a_pass_drops_no_prefix_that_it_needs(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three prefixes fit; twelve are needed in every pass, then others displace them."""
    heads = [ids(tiny[1], f"contract {number}. " * 4) for number in range(15)]
    batch = [
        Prompt(prompt.tail, head, max_new_tokens=16)
        for head, prompt in zip(heads, prompts(tiny[1], 15), strict=True)
    ]
    want = references(*tiny, batch)
    engine = Engine(*tiny, max_rows=12, speculate=False)
    backend: Any = engine.backend
    monkeypatch.setattr(lean, "PREFIX_BYTES", {"cpu": int(3.5 * backend.prefix(heads[0]).size)})
    backend.forget()
    ran: list[tuple[int, ...]] = []
    run = backend._run_prefix
    monkeypatch.setattr(backend, "_run_prefix", lambda tokens: ran.append(tokens) or run(tokens))
    assert answers(engine, batch[:12]) == want[:12]
    assert engine.passes == max(map(len, want[:12])) and ran == heads[:12]
    assert answers(engine, batch[12:]) == want[12:]
    assert ran == heads and list(backend._prefixes) == heads[12:]
