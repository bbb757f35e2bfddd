"""One round of a measurement: `generate`, then the engine in every mode, then other libraries.

Nothing of a round serves the next: engines unlearn what the timed prompts have taught them, and
other libraries are opened anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import generate as bench_generate
from benchmarks import rivals_rows as bench_rivals
from benchmarks.clock import Clocked
from benchmarks.limits import Limits, floors, measure
from benchmarks.modes import Decode, Mode
from benchmarks.rates import Batch, by_difference, by_parts
from benchmarks.report import BenchReport, Cell
from benchmarks.rivals_rows import Say
from benchmarks.setup import Ask, Setup, mean
from waggle.engine.engine import Engine
from waggle.engine.request import Completion


class Field(NamedTuple):
    """Who takes part, made ready."""

    variants: list[bench_generate.Variant]
    engine: Engine
    modes: list[Mode]
    rivals: Sequence[str]
    fastest: bool
    folder: Path
    """Where weights that rivals have converted stay from round to round."""
    limits: Limits
    """Of this machine."""


def play(setup: Setup, name: str, dtype: str, field: Field, say: Say) -> BenchReport:
    """Measure one after the other, rivals last."""
    report = _report(setup, name, dtype, field.limits)
    engine = field.engine
    say("measuring transformers generate")
    baseline = _baseline(setup, report, field.variants)
    for mode in field.modes:
        try:
            _relearn(engine, setup, mode)
            done = _measure(engine, setup, report, mode, baseline.seconds)
            _judge(setup, report, mode, done, baseline.answers)
        except Exception as error:  # what was measured before is not lost
            say(f"{mode.name}: failed ({type(error).__name__}: {str(error)[:300]})")
            continue
        last = report.cells[-1]
        say(f"{mode.name}: {last.decisions_per_s:.1f} decisions/s, {last.speedup:.2f}x")
    report.engine = engine.backend.describe()
    bench_rivals.measure(setup, field.rivals, baseline, report, field.fastest, field.folder, say)
    return report


def _relearn(engine: Engine, setup: Setup, mode: Mode) -> None:
    """Let an engine know what the other prompts taught in this mode, and nothing of the timed ones.

    Modes answer the same prompts: what one has found out about them must not serve the next.
    """
    engine.unlearn()
    engine.speculate = mode.speculate
    mode.decode(engine, setup, setup.warm)


def _report(setup: Setup, model: str, dtype: str, limits: Limits) -> BenchReport:
    torch: Any = import_module("torch")
    where = setup.device
    if where.startswith("cuda"):
        where = f"{where} ({torch.cuda.get_device_name()})"
    return BenchReport(
        model=model,
        device=where,
        dtype=dtype,
        threads=torch.get_num_threads(),
        batch=setup.batch,
        batches=len(setup.work) // setup.batch,
        prefix_tokens=mean([len(ask.prefix) for ask in setup.work]),
        tail_tokens=mean([len(ask.tail) for ask in setup.work]),
        answer_tokens=setup.new_tokens,
        forced=setup.forced,
        limits=limits,
    )


def limits_of(setup: Setup) -> Limits:
    """Return what the machine was measured to have, and the model's weights."""
    limits = measure(setup.device, setup.model.dtype)
    blocks = [weight for weight in setup.model.model.layers.parameters() if weight.dim() > 1]
    limits.weights = sum(weight.numel() for weight in blocks)
    limits.weight_bytes = sum(weight.numel() * weight.element_size() for weight in blocks)
    return limits


def _clock(setup: Setup, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of some work, and its result."""
    setup.wait()
    start = time.perf_counter()
    result = work()
    setup.wait()
    return time.perf_counter() - start, result


def _baseline(setup: Setup, report: BenchReport, variants: list[bench_generate.Variant]) -> Batch:
    """Measure the configurations of `generate`; return the best time and its answers."""
    best = Batch((), (), float("inf"))
    for name, options in variants:
        decode = partial(bench_generate.generate_all, setup, options)
        first = _batch(setup, decode, setup.fresh, 1)
        whole = _batch(setup, decode, setup.work, setup.new_tokens)
        tokens = mean([len(answer) for answer in whole.answers])
        steps = mean(bench_generate.steps(setup, whole.answers))
        cell = _cell(report, name, whole.seconds, tokens, steps, best.seconds, 0)
        cell.rates = by_difference(first, whole, bench_generate.padded(setup) + steps - 1)
        report.cells.append(cell)
        best = min(best, whole, key=lambda batch: batch.seconds)
    for cell in report.cells:
        cell.speedup = best.seconds / cell.seconds
    return best


def _batch(setup: Setup, decode: bench_generate.Decode, work: list[Ask], count: int) -> Batch:
    seconds, answers = _clock(setup, partial(decode, work, count))
    return Batch(work, answers, seconds)


def _judge(
    setup: Setup,
    report: BenchReport,
    mode: Mode,
    done: list[Completion],
    answers: Sequence[tuple[int, ...]],
) -> None:
    """Note whether answers are what they must be."""
    if mode.name.startswith("free"):
        same = sum(d.tokens == a for d, a in zip(done, answers, strict=False))
        report.equal[mode.name] = f"{same} of {len(answers)} answers"
        return
    good = sum(ask.grammar(None).accepts(d.text) for ask, d in zip(setup.work, done, strict=True))
    report.cells[-1].note += f"; {good} of {len(done)} answers in the grammar"
    report.example = done[0].text


def _measure(
    engine: Engine, setup: Setup, report: BenchReport, mode: Mode, baseline: float
) -> list[Completion]:
    seconds, done, parts, _ = _watched(engine, setup, mode.decode, setup.work, None)
    steps = mean([d.usage.model_steps for d in done])
    tokens = mean([d.usage.completion_tokens for d in done])
    drafted = sum(d.usage.drafted_tokens for d in done)
    accepted = sum(d.usage.accepted_tokens for d in done)
    reused = mean([d.usage.cached_tokens for d in done])
    cell = _cell(report, mode.name, seconds, tokens, steps, baseline, reused)
    cell.note = "no drafts"
    if mode.drafts:
        cell.note = f"drafts of {mode.drafts}: {accepted} of {drafted} tokens kept"
    cell.spent = {name: value / report.batches for name, value in parts.items()}
    # One more batch of new prompts, with everything waited for.
    whole, said, cell.shares, ran = _watched(engine, setup, mode.decode, setup.fresh, setup.wait)
    batch = Batch(setup.fresh, [d.tokens for d in said], whole)
    kept = sum(d.usage.cached_tokens for d in said)
    cell.rates = by_parts(batch, kept, cell.shares["prompt"] / 1e3, ran)
    report.cells.append(cell)
    if setup.device.startswith("cuda"):
        torch: Any = import_module("torch")
        report.memory = torch.cuda.max_memory_allocated()
        report.held = torch.cuda.memory_allocated()
    return list(done)


def _watched(
    engine: Engine,
    setup: Setup,
    decode: Decode,
    work: list[Ask],
    wait: Callable[[], None] | None,
) -> tuple[float, list[Completion], dict[str, float], dict[str, int]]:
    """Decode with a watched backend; return seconds, answers, where time went, tokens run."""
    watched = Clocked(engine.backend, wait)
    engine.backend = watched
    try:
        seconds, done = _clock(setup, partial(decode, engine, setup, work))
    finally:
        engine.backend = watched.backend
    parts = {**watched.seconds, "host": seconds - sum(watched.seconds.values())}
    shares = {name: 1e3 * value for name, value in parts.items()}
    return seconds, done, {**shares, "passes": float(watched.passes)}, watched.ran


def _cell(
    report: BenchReport,
    mode: str,
    seconds: float,
    tokens: float,
    steps: float,
    baseline: float,
    reused: float,
) -> Cell:
    """Return a row; so many tokens of each prompt as are `reused` were not computed for it."""
    prompt = report.prefix_tokens + report.tail_tokens - reused
    batches = report.batches
    times = floors(report.limits, report.batch, prompt + tokens, steps)
    arithmetic, reading = (batches * least for least in times)
    rate = report.batch * batches / seconds
    return Cell(mode, seconds, rate, tokens, steps, baseline / seconds, arithmetic, reading)
