"""The host works while a device does, on a clock of its own, and admission never shows."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from benchmarks import workload
from benchmarks.host import Oracle, recite
from tests.engine.helpers import prompts, row_engine
from tests.engine.late_device import Costs, Delayed
from waggle.engine import scheduler
from waggle.engine.backends.base import MultiStepOutput, MultiStepRow, RowInput, Text
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt
from waggle.engine.sequence import ConstrainedSequence

PREPARE, READ = 0.5e-3, 0.1e-3
"""Seconds that a host takes to prepare a sequence and to read it after a pass."""


class Hands:
    """A clock that only the work on sequences moves."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.time = 0.0
        for name, seconds in (("prepare", PREPARE), ("read", READ)):
            work = getattr(ConstrainedSequence, name)
            patch.setattr(ConstrainedSequence, name, self._slow(work, seconds))

    def __call__(self) -> float:
        return self.time

    def _slow(self, work: Callable[..., None], seconds: float) -> Callable[..., None]:
        def call(*args: Any) -> None:
            self.time += seconds
            work(*args)

        return call


def recited(
    tiny: Any, patch: pytest.MonkeyPatch, rows: int, batches: int, costs: Costs
) -> tuple[Delayed, float]:
    """Decode batches of choices with a device that is late; return it and the time it took."""
    hands = Hands(patch)
    engine = Engine(*tiny, max_rows=rows)
    tasks = workload.tasks(rows * batches, 4, 7)
    tails = [workload.encode(tiny[1], task.tail) for task in tasks]
    random, answers = Random(3), {}
    for tail, task in zip(tails, tasks, strict=True):
        answers[tail] = recite(
            engine.matcher(workload.named(task.handles, task.claims)), random, 0.9
        )
    device = Delayed(Oracle(answers), costs, hands)
    engine.backend = device
    engine.context = 1 << 20
    asked = [
        Prompt(
            tail,
            grammar=engine.matcher(workload.named(task.handles, task.claims)),
            max_new_tokens=workload.LONGEST,
        )
        for tail, task in zip(tails, tasks, strict=True)
    ]
    done = engine.generate(asked)
    assert [each.tokens for each in done] == [tuple(answers[tail]) for tail in tails]
    return device, device.now()


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_a_batch_takes_as_long_as_the_longer_of_both(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, speed: float
) -> None:
    costs = Costs(step=1e-3 / speed, token=0.8e-6 / speed, launch=0.2e-3)
    device, wall = recited(tiny, monkeypatch, 128, 3, costs)
    host = wall - device.waited
    assert wall < 1.25 * max(host, device.busy)
    assert wall < 0.8 * (host + device.busy)


def test_waiting_sequences_are_prepared_while_others_are_run(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device stands still before its first pass only while one portion is prepared."""
    device, wall = recited(tiny, monkeypatch, 64, 1, Costs(launch=0.0))
    first = scheduler.MIN_BATCH * PREPARE
    assert wall - device.busy < first + 64 * 4 * READ


def test_portions_never_show_in_answers(
    tiny: Any, record_grammar: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Engine(*tiny, max_rows=1)
    free = prompts(tiny[1], 7)
    bound = prompts(tiny[1], 7, grammar=alone.matcher(record_grammar))
    batch = [prompt for pair in zip(free, bound, strict=True) for prompt in pair]
    want = [alone.generate([prompt])[0].tokens for prompt in batch]
    monkeypatch.setattr(scheduler, "MIN_BATCH", 2)
    for multi_step in (True, False):
        for rows in (3, 13):
            engine = row_engine(tiny, rows, multi_step=multi_step)
            assert engine._scheduler._portion(engine.backend) < rows or rows < 4
            assert [done.tokens for done in engine.generate(batch)] == want
            assert engine._scheduler.free == rows


def test_passes_are_done_one_after_the_other() -> None:
    device = Delayed(Oracle({(1,): [2, 3], (4,): [5]}), Costs(1.0, 0, 0, 0.25), float)
    first = device.argmax(device.run([RowInput(0, [1], 0, [0], ())]))
    second = device.argmax(device.run([RowInput(1, [4], 0, [0], ())]))
    assert device.now() == 0.5, "sending takes the host's time"
    assert second() == [5] and device.now() == 2.0
    assert first() == [2] and device.now() == 2.0, "what is done is not waited for"
    assert device.busy == 2.0 and device.waited == 1.5


@pytest.mark.parametrize("rows", [48, 100, 256])
def test_no_slot_stays_empty_while_others_wait(tiny: Any, rows: int) -> None:
    """Sequences enter in portions, and the last portion may be a small one."""
    tails = [(number // 200 + 1, number % 200 + 1, 7, 8) for number in range(3 * rows)]
    engine = Engine(*tiny, max_rows=rows, speculate=False)

    sizes: list[int] = []

    class Counted(Oracle):
        def decode_steps(
            self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
        ) -> list[MultiStepOutput]:
            sizes.append(len(rows))
            return super().decode_steps(rows, ends, history)

    engine.backend = Counted({tail: [9] * 40 for tail in tails}, drafts=False)
    engine.generate([Prompt(tail, max_new_tokens=40, ignore_end=True) for tail in tails])
    assert set(sizes) == {rows}


@pytest.mark.parametrize(("rows", "count"), [(64, 400), (256, 1000), (64, 30)])
def test_constrained_sequences_keep_two_batches_in_flight(tiny: Any, rows: int, count: int) -> None:
    """Neither takes the sequences of the other, however they leave; few are one batch."""
    engine = Engine(*tiny, max_rows=rows)
    tasks = workload.tasks(count, 2, 1)
    tails = [(number // 200 + 1, number % 200 + 1, 7) for number in range(count)]
    bound = [engine.matcher(workload.named(task.handles, task.claims)) for task in tasks]
    scripts = {
        tail: recite(constraint, Random(number), 0.7)
        for number, (tail, constraint) in enumerate(zip(tails, bound, strict=True))
    }
    sizes: list[int] = []

    class Counted(Oracle):
        def run(self, rows: Sequence[RowInput]) -> Any:
            sizes.append(len(rows))
            return super().run(rows)

    engine.backend = Counted(scripts)
    done = engine.generate(
        [
            Prompt(tail, grammar=constraint, max_new_tokens=workload.LONGEST)
            for tail, constraint in zip(tails, bound, strict=True)
        ]
    )
    assert [each.tokens for each in done] == [tuple(scripts[tail]) for tail in tails]
    if count < scheduler.MIN_BATCH:
        assert sizes[0] == count
        return
    assert max(sizes) == rows // 2
    steady = sizes[len(sizes) // 4 : len(sizes) // 2]
    assert min(steady) > 0.8 * rows / 2
