"""Engines that share a GPU keep to their parts of it; the GPU itself is made up here."""

from typing import Any

import pytest
import torch

from waggle.core.errors import ConfigError
from waggle.engine import memory as sharing
from waggle.engine.model.kv_cache import memory_limit
from waggle.models import load

TOTAL = 100 << 30


class Gpu:
    """The memory of one device, as torch tells of it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.free, self.reserved, self.fraction = TOTAL, 0, 1.0
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (self.told(device).free, TOTAL))
        patch.setattr(torch.cuda, "memory_reserved", lambda device: self.told(device).reserved)
        patch.setattr(
            torch.cuda, "get_per_process_memory_fraction", lambda device: self.told(device).fraction
        )
        patch.setattr(torch.cuda, "set_per_process_memory_fraction", self.take)

    def told(self, device: Any) -> "Gpu":
        """As torch has it, a device is asked for by its number."""
        assert device == 0 and isinstance(device, int)
        return self

    def take(self, fraction: float, device: Any) -> None:
        self.told(device).fraction = fraction


def test_parts_add_up_to_less_than_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    for parts in (1, 4, 12):
        sharing.keep_to(parts)
        assert parts * gpu.fraction < 1


def test_an_engine_counts_on_its_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, device = Gpu(monkeypatch), torch.device("cuda")
    assert memory_limit(device, 8) == 4 + TOTAL // 2
    sharing.keep_to(4)
    assert memory_limit(device, 0) <= TOTAL // 8
    gpu.reserved = TOTAL // 4  # its part is used up
    assert memory_limit(device, 8) == 4
    gpu.reserved, gpu.free = 0, 10
    assert memory_limit(device, 8) == 9


def test_caches_that_grow_and_grow_leave_half(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, device = Gpu(monkeypatch), torch.device("cuda")
    sharing.keep_to(4)
    held = 0
    for _ in range(6):
        held = memory_limit(device, held)
        gpu.reserved = held
    assert held < TOTAL // 8


def test_without_a_gpu_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delattr(torch.cuda, "set_per_process_memory_fraction")
    sharing.keep_to(2)


def test_a_command_can_be_kept_to_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, device = Gpu(monkeypatch), torch.device("cuda")
    monkeypatch.setenv(sharing.SHARE, "0.25")
    assert memory_limit(device, 0) == TOTAL // 8  # an engine alone
    sharing.keep_to(5)
    assert 5 * gpu.fraction < 0.25


@pytest.mark.parametrize("text", ["", "0", "1.5", "-1", "half", "nan"])
def test_a_share_that_is_none_says_so(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(sharing.SHARE, text)
    with pytest.raises(ConfigError, match="WAGGLE_GPU_SHARE"):
        sharing.share()


def test_a_part_of_the_processors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch)
    monkeypatch.setenv(load.PROCESSORS, "30")
    for device in ("auto", "cuda", "cuda:0"):
        with pytest.raises(ConfigError, match="CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='30'"):
            load.pick_device(device)
    assert load.pick_device("cpu") == "cpu"
    monkeypatch.setenv(load.PROCESSORS, "100")
    assert load.pick_device("auto") == "cuda"
