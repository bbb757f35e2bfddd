"""What the host alone costs: the engine's own work with a model that answers at once.

Grammars are bound, walked and drafted, rows are queued, packed and closed as in a real run; the
oracle's own time is taken off. The rate is an upper bound on decisions per second of one process,
however fast the device is. Beside it stands what a decision would take with a device about as slow
as one H200 with SmolLM2-135M (`benchmarks.delayed`): the nearer to the larger of host and
device, and the farther from their sum, the more of the host's work is hidden.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple

from benchmarks import modes as bench_modes
from benchmarks import workload
from benchmarks.delayed import Delayed
from benchmarks.oracle import Oracle, recite
from benchmarks.setup import Ask, Setup
from waggle.core.errors import ConfigError
from waggle.engine.backends.base import Pace
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.engine import Engine
from waggle.engine.request import Completion, Prompt

HABIT = 0.7
"""Chance that a script takes the usual option of a choice."""
PACE = Pace(18.0, 4, 31)
"""Drafts as on a GPU with 64 rows."""


@dataclass(slots=True)
class HostCell:
    """One way of decoding, the model's time left out."""

    mode: str
    microseconds: float
    """Processor time of one core per decision."""
    decisions_per_s: float
    steps: float
    """Model passes per decision with these scripts."""
    device: float
    """Microseconds of a made-up device per decision."""
    wall: float
    """Microseconds per decision with that device."""


class Spent(NamedTuple):
    """Seconds that answers took: of the host, of a made-up device, and from begin to end."""

    host: float
    device: float
    wall: float


@dataclass(slots=True)
class HostReport:
    """What was measured and on what."""

    tokenizer: str
    batch: int
    batches: int
    cells: list[HostCell] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def bench_host(
    model: str = "smollm2-135m-instruct",
    batch: int = 64,
    tail_tokens: int = 300,
    repeats: int = 3,
) -> HostReport:
    """Measure the host's work per decision with the tokenizer of a model.

    Raises:
        ConfigError: for sizes that make no sense.
    """
    if min(batch, tail_tokens, repeats) < 1:
        raise ConfigError("batch, token counts and repeats must be at least 1")
    tiny, tokenizer = _tokenizer(model)
    records = workload.fit_records(tokenizer, tail_tokens)
    warm = _Scripts(tokenizer, 2 * batch, records, 1)
    timed = _Scripts(tokenizer, repeats * batch, records, 2)
    report = HostReport(model, batch, repeats)
    for mode, (decode, drafts) in MODES.items():
        engine = Engine(tiny, tokenizer, max_rows=batch)
        warm.decode(engine, decode, drafts)
        report.cells.append(_cell(mode, *timed.decode(engine, decode, drafts)))
    return report


def _cell(mode: str, spent: Spent, done: list[Completion]) -> HostCell:
    steps = sum(d.usage.model_steps for d in done) / len(done)
    host, device, wall = (1e6 * seconds / len(done) for seconds in spent)
    return HostCell(mode, host, 1e6 / host, steps, device, wall)


def bench_asks(model: str, tokenizer: Any, asks: list[Ask], batch: int) -> HostReport:
    """Measure the host's work on prompts, nine in ten of which are answered as expected.

    Where nothing is expected, answers are drawn from their grammars. Two batches warm up. Prompts
    are in tokens already; grammars and expectations are made in time.
    """
    from waggle.models.nano import tiny_random

    tiny, _ = tiny_random()
    tiny.config.max_position_embeddings = 1 << 20
    report = HostReport(model, batch, len(asks) // batch - 2)
    said = _said(Engine(tiny, tokenizer), asks)
    for mode, (decode, speculate) in ASKED.items():
        if mode.endswith(ALONE) and asks[0].draft is None:
            continue
        engine = Engine(tiny, tokenizer, max_rows=batch, speculate=speculate)
        setup = Setup(tiny, tokenizer, asks, [], [], batch, 96, "cpu", forced=False)
        _recited(engine, setup, asks[: 2 * batch], decode, said)
        report.cells.append(_cell(mode, *_recited(engine, setup, asks[2 * batch :], decode, said)))
    return report


Scripts = dict[tuple[int, ...], list[int]]


def _said(engine: Engine, asks: list[Ask]) -> Scripts:
    """Return what is answered, found by an engine that is not timed."""
    end = min(engine.ends)
    found = {ask.tail: [*(ask.draft().tokens() if ask.draft else ()), end] for ask in asks}
    for number, ask in enumerate(asks):
        if number % 10 == 0 or ask.draft is None:
            found[ask.tail] = [*recite(bench_modes.bind(engine, ask), Random(number), HABIT), end]
    return found


def _recited(
    engine: Engine, setup: Setup, asks: list[Ask], decode: bench_modes.Decode, said: Scripts
) -> tuple[Spent, list[Completion]]:
    """Decode prompts with an oracle; return what that took, and the answers."""
    drafts = engine.speculate
    pace = Pace(1360 / engine._rows, *((4, 31) if engine._rows <= 170 else (2, 15)))
    oracle = Oracle(said, pace, drafts)
    return _timed(engine, oracle, lambda: decode(engine, setup, asks))


def _timed(
    engine: Engine, oracle: Oracle, work: Callable[[], list[Completion]]
) -> tuple[Spent, list[Completion]]:
    """Let an engine work with an oracle that is late; processor time counts as the host's."""
    device = Delayed(oracle)
    engine.backend = device
    gc.collect()
    gc.freeze()  # as laws do once they are loaded
    start = device.now()
    done = work()
    wall = device.now() - start
    return Spent(wall - device.waited - device.sending, device.busy, wall), done


ALONE = ", no teacher"
ASKED: dict[str, tuple[bench_modes.Decode, bool]] = {
    "free, rolled": (bench_modes.free, False),
    f"free{ALONE}": (bench_modes.free, True),
    "free": (partial(bench_modes.free, expected=True), True),
    f"constrained{ALONE}": (bench_modes.constrained, True),
    "constrained": (partial(bench_modes.constrained, expected=True), True),
}
"""How views are decoded, and whether anything is drafted."""


def _tokenizer(model: str) -> tuple[Any, Any]:
    """Return a model that only gives the engine its settings, and the tokenizer asked for."""
    from waggle.models import weights
    from waggle.models.nano import byte_tokenizer, tiny_random
    from waggle.models.shapes import SHAPES

    tiny, _ = tiny_random()
    if model in SHAPES:
        return tiny, byte_tokenizer(workload.texts(), 2048)
    return tiny, weights.load_tokenizer(model)


Decode = Callable[[Engine, tuple[int, ...], workload.Task, int], Prompt]


def _bound(engine: Engine, task: workload.Task) -> Constraint:
    return engine.constraint(partial(workload.named, task.handles, task.claims))


def _constrained(engine: Engine, tail: tuple[int, ...], task: workload.Task, length: int) -> Prompt:
    return Prompt(tail, grammar=_bound(engine, task), max_new_tokens=workload.LONGEST)


def _free(engine: Engine, tail: tuple[int, ...], task: workload.Task, length: int) -> Prompt:
    return Prompt(
        tail,
        skeleton=_bound(engine, task),
        max_new_tokens=length,
        ignore_end=True,
    )


def _noise(engine: Engine, tail: tuple[int, ...], task: workload.Task, length: int) -> Prompt:
    return Prompt(tail, max_new_tokens=length, ignore_end=True)


MODES: dict[str, tuple[Decode, bool]] = {
    "constrained": (_constrained, True),
    "free, answers are records": (_free, True),
    "free, answers are noise": (_noise, True),
    "free, rolled": (_noise, False),
}
"""How prompts are made, and whether free answers are drafted."""


class _Scripts:
    """Prompts with the answers an oracle will give."""

    def __init__(self, tokenizer: Any, count: int, records: int, seed: int) -> None:
        self.tasks = tasks = workload.tasks(count, records, seed)
        self._seed = seed
        self.tails = [workload.encode(tokenizer, task.tail) for task in tasks]
        self._vocabulary = len(tokenizer)

    def _answers(self, engine: Engine, decode: Decode) -> dict[tuple[int, ...], list[int]]:
        random = Random(self._seed)
        found: dict[tuple[int, ...], list[int]] = {}
        for tail, task in zip(self.tails, self.tasks, strict=True):
            if decode is _noise:
                found[tail] = [random.randrange(self._vocabulary) for _ in range(80)]
            else:
                found[tail] = recite(_bound(engine, task), random, HABIT)
        return found

    def decode(
        self, engine: Engine, decode: Decode, drafts: bool
    ) -> tuple[Spent, list[Completion]]:
        """Decode all prompts; return what that took, and the answers."""
        answers = self._answers(engine, decode)

        def work() -> list[Completion]:
            pairs = zip(self.tails, self.tasks, strict=True)
            prompts = [decode(engine, tail, task, len(answers[tail])) for tail, task in pairs]
            return engine.generate(prompts)

        return _timed(engine, Oracle(answers, PACE, drafts), work)


def host_lines(report: HostReport) -> list[str]:
    """Return the report as text."""
    out = [f"host work alone, tokens of {report.tokenizer}, batches of {report.batch}"]
    out.extend(
        f"{cell.mode:28s} {cell.microseconds:7.0f} µs per decision "
        f"{cell.decisions_per_s:9.0f} decisions/s at most, {cell.steps:5.1f} steps; "
        f"with a device of {cell.device:.0f} µs: {cell.wall:.0f} µs"
        for cell in report.cells
    )
    return out
