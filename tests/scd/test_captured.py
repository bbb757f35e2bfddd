"""Replayed updates, with a record that does its work again in place of a CUDA graph."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from waggle.scd.data import flats
from waggle.scd.forward.flat import Flat
from waggle.scd.train import cuda_graph as captured
from waggle.scd.train.checkpoint import TrainError
from waggle.scd.train.cuda_graph import Captured, shape, tensors
from waggle.scd.train.sprint import Sprint


class Again:
    """Does its work again on what its inputs hold now, as a CUDA graph would."""

    def __init__(self, work: Any, shown: Flat) -> None:
        self._work, self._shown = work, shown
        self.found: dict[str, Any] = {}

    def replay(self) -> None:
        self.found.update(self._work(self._shown))


def by_doing(self: Captured[Flat], shown: Flat) -> Any:
    again = Again(self._work, shown)
    return captured._Record(again, list(tensors(shown)), again.found)


def pass_of(seed: int, count: int = 4) -> Flat:
    drawn = np.random.Generator(np.random.PCG64(seed))
    lengths, prompts = np.full(count, 12), np.full(count, 9)
    return flats.laid(drawn.integers(0, 50, 12 * count), lengths, prompts, device="cpu")


def test_replays_do_what_the_work_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Captured, "_record", by_doing)
    done: dict[str, list[float]] = {"plain": [], "replayed": []}
    for how in done:
        weight = torch.ones(50)

        def work(shown: Flat, weight: torch.Tensor = weight) -> dict[str, Any]:
            weight.index_add_(0, shown.targets, shown.weights)
            return {"sum": weight[shown.tokens[0]].sum()}

        run: Any = work if how == "plain" else Captured(work)
        for seed in (1, 2, 3, 4, 5):
            done[how].append(float(run(pass_of(seed, 3 if seed == 3 else 4))["sum"]))
        if how == "replayed":
            assert len(run._records) == 1 and len(run._met) == 2
            run.forget()
            assert not run._records
    assert done["plain"] == done["replayed"]


def test_the_first_pass_of_a_shape_is_done_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Captured, "_record", lambda *_: seen.append("record") or by_doing(*_))
    run = Captured(lambda shown: seen.append("work") or {"n": len(shown.where)})
    for seed in range(3):
        run(pass_of(seed))
    assert seen == ["work", "record", "work", "work"]


def test_once_there_are_records_a_pass_as_written_leaves_its_memory_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[int] = []

    def record(self: Captured[Flat], shown: Flat) -> Any:
        self._pool = (0, 1)
        return by_doing(self, shown)

    run: Captured[Flat] = Captured(lambda shown: {"n": len(shown.where)})
    monkeypatch.setattr(Captured, "_record", record)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.append(len(run._met)))
    for count in (4, 4, 5, 4, 5, 6):
        run(pass_of(0, count))
    assert left == [2, 3]


def test_shapes_differ_by_sizes_and_not_by_values() -> None:
    assert shape(pass_of(1)) == shape(pass_of(2)) != shape(pass_of(1, 5))
    assert len(list(tensors(pass_of(1)))) == 8


@pytest.mark.parametrize("name", ["", *captured.ALLOCATOR])
def test_work_that_cannot_be_recorded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for each in captured.ALLOCATOR:
        monkeypatch.delenv(each, raising=False)
    if name:
        monkeypatch.setenv(name, "expandable_segments:True")
    run = Captured(lambda _shown: {})
    run(pass_of(1))
    if torch.cuda.is_available():
        pytest.skip("this machine can record")
    with pytest.raises(TrainError, match="capture = false") as error:
        run(pass_of(2))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(f"or try without {name}" if name else "in [run]")


def test_updates_that_are_never_recorded_are_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Captured, "_record", by_doing)
    trainer = object.__new__(Sprint)
    trainer._warned, done = False, []
    monkeypatch.setattr(trainer, "_work", lambda batch: done.append(len(batch)) or {})
    trainer._captured = Captured(lambda shown: trainer._work([shown]))
    first, second = pass_of(1), pass_of(2, 3)
    trainer._done([first])
    with pytest.warns(
        UserWarning, match=f"2 passes .* above its {first.read + second.read} tokens"
    ):
        trainer._done([first, second])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer._done([first, second])
    assert done == [1, 2, 2]
