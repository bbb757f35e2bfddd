"""How fast the engine is, next to transformers' `generate`, on one workload in one run.

Same prompts, same dtype, same machine. `generate` is measured in every configuration it offers for
the device and the fastest counts. Prompts are never repeated: warming up uses others, and every
batch is new, since the engine learns drafts from the answers it has given. The engine gets all
batches as one queue (continuous batching), `generate` one after the other. Also reported: model
steps per decision, where the time goes, and how far each mode is from the arithmetic and the
bandwidth this machine was measured to have in the same run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from waggle.core.errors import ConfigError
from waggle.engine import rivals
from waggle.engine.bench_setup import Setup, Work, prepare
from waggle.engine.clock import Clocked
from waggle.engine.engine import Engine
from waggle.engine.limits import Limits, floor_seconds, measure
from waggle.engine.request import Completion, Prompt


@dataclass(slots=True)
class Cell:
    """One way of decoding, measured."""

    mode: str
    seconds: float
    """Of all batches."""
    decisions_per_s: float
    tokens: float
    """Mean answer length in tokens."""
    steps: float
    """Model passes per decision."""
    speedup: float
    """Against the fastest `generate`."""
    floor: float
    """Seconds this mode would take at the measured machine limits."""
    note: str = ""
    shares: dict[str, float] = field(default_factory=dict)
    """Milliseconds of one more batch by kind of work, with the device waited for."""


@dataclass(slots=True)
class BenchReport:
    """What was measured and on what."""

    model: str
    device: str
    dtype: str
    threads: int
    batch: int
    batches: int
    prefix_tokens: int
    tail_tokens: float
    answer_tokens: int
    limits: Limits
    engine: str = ""
    """How the engine computes here."""
    cells: list[Cell] = field(default_factory=list)
    identical: int = 0
    """Free answers that are token for token those of `generate`."""
    flips: int = 0
    """Free answers that part from `generate` somewhere (near-ties, in bfloat16)."""
    example: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def bench(
    model: str = "smollm2-135m-instruct",
    device: str = "auto",
    dtype: str = "auto",
    batch: int = 16,
    prefix_tokens: int = 400,
    tail_tokens: int = 300,
    new_tokens: int = 80,
    repeats: int = 3,
    say: Callable[[str], None] = lambda _: None,
) -> BenchReport:
    """Measure `generate`, free and constrained decoding of some batches of decisions.

    Raises:
        ConfigError: for sizes that make no sense.
    """
    if min(batch, prefix_tokens, tail_tokens, new_tokens, repeats) < 1:
        raise ConfigError("batch, token counts and repeats must be at least 1")
    setup, kind = prepare(
        model, device, dtype, (batch, repeats), prefix_tokens, tail_tokens, new_tokens
    )
    report = _report(setup, model, kind, repeats)
    say("measuring transformers generate")
    baseline, answers = _baseline(setup, report, say)
    engine = Engine(setup.model, setup.tokenizer, max_rows=batch)
    report.engine = engine.backend.describe()
    for mode, speculate in (("free, no drafts", False), ("free", True)):
        say(f"measuring {mode}")
        engine.speculate = speculate
        done = _measure(engine, setup, report, mode, baseline, free)
        if speculate:
            report.identical = sum(d.tokens == a for d, a in zip(done, answers, strict=True))
            report.flips = len(done) - report.identical
    say("measuring constrained")
    done = _measure(engine, setup, report, "constrained", baseline, constrained)
    good = sum(task.grammar.accepts(d.text) for task, d in zip(setup.work.tasks, done, strict=True))
    report.cells[-1].note += f"; {good} of {len(done)} answers in the grammar"
    report.example = done[0].text
    return report


def _report(setup: Setup, model: str, dtype: str, batches: int) -> BenchReport:
    torch: Any = import_module("torch")
    where = setup.device
    if where.startswith("cuda"):
        where = f"{where} ({torch.cuda.get_device_name()})"
    tails = setup.work.tails
    return BenchReport(
        model=model,
        device=where,
        dtype=dtype,
        threads=torch.get_num_threads(),
        batch=setup.batch,
        batches=batches,
        prefix_tokens=len(setup.prefix),
        tail_tokens=sum(map(len, tails)) / len(tails),
        answer_tokens=setup.new_tokens,
        limits=_limits(setup),
    )


def _limits(setup: Setup) -> Limits:
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


def _baseline(
    setup: Setup, report: BenchReport, say: Callable[[str], None]
) -> tuple[float, list[tuple[int, ...]]]:
    """Measure every configuration of `generate`; return the best time and its answers."""
    best = float("inf")
    answers: list[tuple[int, ...]] = []
    for mode, options in rivals.variants(setup.device):
        try:
            rivals.warm_up(setup, options)
            seconds, found = _clock(setup, partial(rivals.generate_all, setup, options))
        except Exception as error:
            say(f"{mode}: not available here ({type(error).__name__})")
            continue
        report.cells.append(_cell(report, mode, seconds, setup.new_tokens, setup.new_tokens, best))
        if not answers:
            answers = found
        best = min(best, seconds)
    for cell in report.cells:
        cell.speedup = best / cell.seconds
    return best, answers


Decode = Callable[[Engine, Setup, Work], list[Completion]]


def free(engine: Engine, setup: Setup, work: Work) -> list[Completion]:
    """Decode freely to the forced length, the grammars' forced tokens as drafts."""
    return engine.generate(
        [
            Prompt(
                tail=tail,
                prefix=setup.prefix,
                skeleton=engine.constraint(task.grammar),
                max_new_tokens=setup.new_tokens,
                ignore_end=True,
            )
            for tail, task in zip(work.tails, work.tasks, strict=True)
        ]
    )


def constrained(engine: Engine, setup: Setup, work: Work) -> list[Completion]:
    """Decode within the grammars."""
    return engine.generate(
        [
            Prompt(
                tail=tail,
                prefix=setup.prefix,
                grammar=engine.constraint(task.grammar),
                max_new_tokens=task.grammar.longest(),
            )
            for tail, task in zip(work.tails, work.tasks, strict=True)
        ]
    )


def _measure(
    engine: Engine,
    setup: Setup,
    report: BenchReport,
    mode: str,
    baseline: float,
    decode: Decode,
) -> list[Completion]:
    decode(engine, setup, setup.warm)
    engine.backend.prime(32 * setup.batch)
    gc.collect()
    gc.freeze()  # as laws do once they are loaded
    seconds, done = _clock(setup, partial(decode, engine, setup, setup.work))
    steps = sum(d.usage.model_steps for d in done) / len(done)
    tokens = sum(d.usage.completion_tokens for d in done) / len(done)
    drafted = sum(d.usage.drafted_tokens for d in done)
    accepted = sum(d.usage.accepted_tokens for d in done)
    cell = _cell(report, mode, seconds, tokens, steps, baseline)
    cell.note = f"{accepted} of {drafted} drafted tokens kept"
    cell.shares = _shares(engine, setup, decode)
    report.cells.append(cell)
    return list(done)


def _shares(engine: Engine, setup: Setup, decode: Decode) -> dict[str, float]:
    """Decode one more batch of new prompts with a watched backend."""
    watched = Clocked(engine.backend, setup.wait)
    engine.backend = watched
    try:
        seconds, _ = _clock(setup, partial(decode, engine, setup, setup.fresh))
    finally:
        engine.backend = watched.backend
    parts = dict(watched.seconds)
    parts["host"] = seconds - sum(parts.values())
    shares = {name: 1e3 * value for name, value in parts.items()}
    return {**shares, "passes": float(watched.passes)}


def _cell(
    report: BenchReport, mode: str, seconds: float, tokens: float, steps: float, baseline: float
) -> Cell:
    reuse = not mode.startswith("generate")
    prompt = report.tail_tokens + (0 if reuse else report.prefix_tokens)
    batches = report.batches
    floor = batches * floor_seconds(report.limits, report.batch, prompt + tokens, steps)
    rate = report.batch * batches / seconds
    return Cell(mode, seconds, rate, tokens, steps, baseline / seconds, floor)


def lines(report: BenchReport) -> list[str]:
    """Return the report as text."""
    limits = report.limits
    out = [
        f"{report.model} on {report.device}, {report.dtype}, {report.threads} threads, "
        f"{report.batches} batches of {report.batch}",
        f"prompt: {report.prefix_tokens} shared + {report.tail_tokens:.0f} own tokens; "
        f"answer: {report.answer_tokens} tokens forced; engine: {report.engine}",
        f"machine: {limits.flops / 1e12:.2f} TFLOP/s, {limits.bandwidth / 1e9:.0f} GB/s measured",
    ]
    for cell in report.cells:
        out.append(
            f"{cell.mode:34s} {cell.decisions_per_s:9.2f} decisions/s {cell.speedup:6.2f}x "
            f"{cell.tokens:5.1f} tokens {cell.steps:5.1f} steps "
            f"{100 * cell.floor / cell.seconds:5.1f} % of the limit  {cell.note}"
        )
        if cell.shares:
            parts = ", ".join(f"{name} {value:.1f}" for name, value in cell.shares.items())
            out.append(f"    one batch, waited for, in ms: {parts}")
    total = report.identical + report.flips
    out.append(f"free equals generate in {report.identical} of {total} answers")
    out.append(f"example: {report.example}")
    return out


def main() -> None:
    """Run from the command line with nothing but the engine's own dependencies."""
    import argparse
    import json
    import sys

    from waggle.engine.bench_host import bench_host, host_lines

    parser = argparse.ArgumentParser(description=bench.__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--host-only", action="store_true")
    parser.add_argument("--trace", action="store_true", help="list the dearest kernels instead")
    for name, value in (("batch", 16), ("prefix-tokens", 400), ("tail-tokens", 300),
                        ("new-tokens", 80), ("repeats", 3)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = vars(parser.parse_args())
    as_json, host_only = chosen.pop("json"), chosen.pop("host_only")
    if chosen.pop("trace"):
        from waggle.engine.bench_trace import trace

        names = ("model", "device", "dtype", "batch", "new_tokens")
        shown = trace(*(chosen[name] for name in names))
    elif host_only:
        found = bench_host(*(chosen[key] for key in ("model", "batch", "tail_tokens", "repeats")))
        shown = [json.dumps(found.as_dict())] if as_json else host_lines(found)
    else:
        report = bench(say=lambda line: print(line, file=sys.stderr), **chosen)  # noqa: T201
        shown = [json.dumps(report.as_dict())] if as_json else lines(report)
    sys.stdout.write("\n".join(shown) + "\n")


if __name__ == "__main__":
    main()
