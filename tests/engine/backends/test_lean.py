"""How the lean backend cuts passes: by the memory of a GPU, and by the cores of a CPU."""

import pytest
import torch

from waggle.engine.backends import lean
from waggle.engine.model.config import Shape


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
