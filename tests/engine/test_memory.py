"""Shares of a GPU, work in halves, and a garbage collector that pauses; the GPU is made up."""

import gc
import threading
from functools import partial
from typing import Any

import pytest
import torch

from benchmarks import workload
from tests.engine.helpers import prompts
from waggle.core.errors import ConfigError
from waggle.engine import memory
from waggle.engine.constraint.grammar import State
from waggle.engine.engine import Engine
from waggle.engine.model.kv_cache import memory_limit
from waggle.engine.request import Prompt
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
        memory.keep_to(parts)
        assert parts * gpu.fraction < 1


def test_an_engine_counts_on_its_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, device = Gpu(monkeypatch), torch.device("cuda")
    assert memory_limit(device, 8) == 4 + TOTAL // 2
    memory.keep_to(4)
    assert memory_limit(device, 0) <= TOTAL // 8
    gpu.reserved = TOTAL // 4  # its part is used up
    assert memory_limit(device, 8) == 4
    gpu.reserved, gpu.free = 0, 10
    assert memory_limit(device, 8) == 9


def test_caches_that_grow_and_grow_leave_half(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, device = Gpu(monkeypatch), torch.device("cuda")
    memory.keep_to(4)
    held = 0
    for _ in range(6):
        held = memory_limit(device, held)
        gpu.reserved = held
    assert held < TOTAL // 8


def test_without_a_gpu_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delattr(torch.cuda, "set_per_process_memory_fraction")
    memory.keep_to(2)


def test_a_command_can_be_kept_to_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, device = Gpu(monkeypatch), torch.device("cuda")
    monkeypatch.setenv(memory.SHARE, "0.25")
    assert memory_limit(device, 0) == TOTAL // 8  # an engine alone
    memory.keep_to(5)
    assert 5 * gpu.fraction < 0.25


@pytest.mark.parametrize("text", ["", "0", "1.5", "-1", "half", "nan"])
def test_a_share_that_is_none_says_so(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(memory.SHARE, text)
    with pytest.raises(ConfigError, match="WAGGLE_GPU_SHARE"):
        memory.share()


def test_a_part_of_the_processors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch)
    monkeypatch.setenv(load.PROCESSORS, "30")
    for device in ("auto", "cuda", "cuda:0"):
        with pytest.raises(ConfigError, match="CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='30'"):
            load.pick_device(device)
    assert load.pick_device("cpu") == "cpu"
    monkeypatch.setenv(load.PROCESSORS, "100")
    assert load.pick_device("auto") == "cuda"


def test_want_of_memory_is_told_from_other_failures() -> None:
    assert memory.is_out_of_memory(torch.OutOfMemoryError("CUDA"))
    assert memory.is_out_of_memory(RuntimeError("Triton Error [CUDA]: out of memory"))
    assert memory.is_out_of_memory(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling it"))
    assert not memory.is_out_of_memory(RuntimeError("illegal memory access"))
    assert not memory.is_out_of_memory(ValueError("out of memory"))
    try:
        try:
            raise torch.OutOfMemoryError("no memory left")
        finally:
            raise RuntimeError("a recording was broken off")
    except RuntimeError as error:
        assert memory.is_out_of_memory(error)


def test_halves_are_in_order_and_memory_is_given_back_between() -> None:
    relieved: list[int] = []
    rows = torch.arange(13)

    def work(part: slice) -> torch.Tensor:
        if part.stop - part.start > 3 or (part.start == 0 and len(relieved) < 4):
            raise torch.OutOfMemoryError("no memory left")
        return rows[part]

    found = memory.halved(work, range(13), lambda: relieved.append(1))
    assert found.tolist() == rows.tolist()
    assert len(relieved) > 4


def test_other_failures_are_not_tried_again() -> None:
    tried: list[slice] = []

    def work(part: slice) -> torch.Tensor:
        tried.append(part)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        memory.halved(work, range(4), lambda: None)
    assert len(tried) == 1


def test_collection_is_off_within_and_as_before_after() -> None:
    assert gc.isenabled()
    with memory.collector_paused():
        with memory.collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "somebody else still decodes"
    assert gc.isenabled()
    gc.disable()
    try:
        with memory.collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_failure_ends_the_hold(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=4)
    with pytest.raises((TypeError, ValueError)):
        engine.generate([Prompt(("no token",), max_new_tokens=2)])  # type: ignore[arg-type]
    assert gc.isenabled()


def test_callers_without_end_still_collect(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "COLLECT_EVERY", 3)
    rounds: list[bool] = []
    monkeypatch.setattr(gc, "collect", lambda: rounds.append(gc.isenabled()))
    engine = Engine(*tiny, max_rows=4)
    batch = prompts(tiny[1], 8)
    callers = [threading.Thread(target=engine.generate, args=(batch,)) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert rounds and not any(rounds)
    assert gc.isenabled()


def _states() -> int:
    return sum(type(thing) is State for thing in gc.get_objects())


def test_answers_leave_nothing_to_collect(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=3)
    batch = [
        Prompt((7, 8, index), grammar=engine.matcher(made), max_new_tokens=24)
        for index, made in enumerate(
            partial(workload.named, t.handles, t.claims) for t in workload.tasks(6, 2, 5)
        )
    ]
    gc.collect()
    before = _states()
    gc.disable()
    try:
        first = engine.generate(batch)
        assert _states() == before, "prompts are held, what was unfolded for them is not"
    finally:
        gc.enable()
    assert [done.tokens for done in engine.generate(batch)] == [done.tokens for done in first]
