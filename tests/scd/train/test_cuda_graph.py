"""Replayed updates, with a stand-in for a CUDA graph that does its work again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from waggle.scd.data.arrays import Encoded, from_encoded
from waggle.scd.data.batches import Batch, none_of
from waggle.scd.files import TrainError
from waggle.scd.train import cuda_graph
from waggle.scd.train.cuda_graph import GraphRunner, shape_of, tensors
from waggle.scd.train.objective import Pass, make_pass
from waggle.scd.train.trainer import Trainer


class Again:
    """Does its work again on what its inputs hold now, as a CUDA graph would."""

    def __init__(self, work: Any, shown: Pass) -> None:
        self._work, self._shown = work, shown
        self.found: dict[str, Any] = {}

    def replay(self) -> None:
        self.found.update(self._work(self._shown))


def by_doing(self: GraphRunner[Pass], shown: Pass) -> Any:
    again = Again(self._work, shown)
    return cuda_graph._Graph(again, list(tensors(shown)), again.found)


def pass_of(seed: int, count: int = 4) -> Pass:
    drawn = np.random.Generator(np.random.PCG64(seed))
    some = [Encoded(drawn.integers(0, 50, 9).tolist(), drawn.integers(0, 50, 3).tolist())] * count
    rows = from_encoded(some, [[0]] * count)
    return make_pass(Batch(rows, None, none_of(rows)), "cpu")


def test_replays_do_what_the_work_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphRunner, "_capture", by_doing)
    done: dict[str, list[float]] = {"plain": [], "replayed": []}
    for how in done:
        weight = torch.ones(50)

        def work(shown: Pass, weight: torch.Tensor = weight) -> dict[str, Any]:
            weight.index_add_(0, shown.ragged.targets, torch.ones(len(shown.ragged.targets)))
            return {"sum": weight[shown.ragged.tokens[0]].sum()}

        run: Any = work if how == "plain" else GraphRunner(work)
        for seed in (1, 2, 3, 4, 5):
            done[how].append(float(run(pass_of(seed, 3 if seed == 3 else 4))["sum"]))
        if how == "replayed":
            assert len(run._graphs) == 1 and len(run._met) == 2
            run.clear()
            assert not run._graphs
    assert done["plain"] == done["replayed"]


def test_the_first_pass_of_a_shape_is_done_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(GraphRunner, "_capture", lambda *_: seen.append("capture") or by_doing(*_))
    run = GraphRunner(lambda shown: seen.append("work") or {"n": len(shown.ragged.where)})
    for seed in range(3):
        run(pass_of(seed))
    assert seen == ["work", "capture", "work", "work"]


def test_once_there_are_graphs_a_pass_as_written_leaves_its_memory_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[int] = []

    def capture(self: GraphRunner[Pass], shown: Pass) -> Any:
        self._pool = (0, 1)
        return by_doing(self, shown)

    run: GraphRunner[Pass] = GraphRunner(lambda shown: {"n": len(shown.ragged.where)})
    monkeypatch.setattr(GraphRunner, "_capture", capture)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.append(len(run._met)))
    for count in (4, 4, 5, 4, 5, 6):
        run(pass_of(0, count))
    assert left == [2, 3]


def test_shapes_differ_by_sizes_and_not_by_values() -> None:
    assert shape_of(pass_of(1)) == shape_of(pass_of(2)) != shape_of(pass_of(1, 5))
    assert len(list(tensors(pass_of(1)))) == 11


@pytest.mark.parametrize("name", ["", *cuda_graph.ALLOCATOR])
def test_work_that_cannot_be_captured_is_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for each in cuda_graph.ALLOCATOR:
        monkeypatch.delenv(each, raising=False)
    if name:
        monkeypatch.setenv(name, "expandable_segments:True")
    run = GraphRunner(lambda _shown: {})
    run(pass_of(1))
    if torch.cuda.is_available():
        pytest.skip("this machine can capture")
    with pytest.raises(TrainError, match="capture = false") as error:
        run(pass_of(2))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(f"or try without {name}" if name else "in [run]")


def test_updates_that_are_never_captured_are_reported_once() -> None:
    trainer = object.__new__(Trainer)
    trainer._warned = False
    trainer._graphs = GraphRunner(lambda _shown: {})
    first, second = pass_of(1), pass_of(2, 3)
    tokens = first.ragged.read + second.ragged.read
    with pytest.warns(UserWarning, match=f"2 passes .* above its {tokens} tokens"):
        trainer._warn([first, second])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer._warn([first, second])
