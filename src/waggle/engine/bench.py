"""How fast the engine is, next to transformers' `generate`, on one workload in one run.

Same prompts in tokens, same dtype, same machine. `generate` is measured in every configuration it
offers for the device and the fastest counts. Prompts are never repeated: warming up uses others,
and every batch is new, since the engine learns drafts from the answers it has given. The engine
gets all batches as one queue (continuous batching), `generate` one after the other. Grammars and
expected answers are made while it is timed. Also reported: tokens per second (as defined in
`waggle.engine.bench_rates`), model steps per decision, where the time goes, and how far each mode
is from the arithmetic and the bandwidth this machine was measured to have in the same run. Other
libraries may be measured behind it (`waggle.engine.bench_rivals`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

from waggle.core.errors import ConfigError
from waggle.engine import bench_generate, bench_rivals
from waggle.engine.bench_modes import Decode, Mode, modes
from waggle.engine.bench_rates import Batch, by_difference, by_parts
from waggle.engine.bench_report import BenchReport, Cell, lines
from waggle.engine.bench_setup import Ask, Setup, mean, place, prepare
from waggle.engine.clock import Clocked
from waggle.engine.engine import Engine
from waggle.engine.limits import Limits, floors, measure
from waggle.engine.request import Completion

Say = Callable[[str], None]
Turns = Callable[[], AbstractContextManager[Any]]
"""Opens a time in which nobody else measures on this machine."""


def bench(
    model: str = "smollm2-135m-instruct",
    device: str = "auto",
    dtype: str = "auto",
    batch: int = 16,
    prefix_tokens: int = 400,
    tail_tokens: int = 300,
    new_tokens: int = 80,
    repeats: int = 3,
    say: Say = lambda _: None,
    fastest: bool = False,
    turns: Turns = nullcontext,
    rivals: str = "",
) -> BenchReport:
    """Measure `generate`, free and constrained decoding of some batches of decisions, and rivals.

    Raises:
        ConfigError: for sizes that make no sense, and for rivals that are unknown.
    """
    if min(batch, prefix_tokens, tail_tokens, new_tokens, repeats) < 1:
        raise ConfigError("batch, token counts and repeats must be at least 1")
    names = bench_rivals.chosen(rivals, place(device, dtype)[0])
    sizes = (batch, repeats)
    setup = prepare(model, device, dtype, sizes, prefix_tokens, tail_tokens, new_tokens)
    return compare(setup, model, place(device, dtype)[1], say, fastest, turns, names)


def compare(
    setup: Setup,
    name: str,
    dtype: str,
    say: Say,
    fastest: bool,
    turns: Turns,
    rivals: Sequence[str] = (),
) -> BenchReport:
    """Make everything ready, then measure one after the other, rivals last."""
    bench_rivals.require(setup, rivals)
    say("warming up transformers generate")
    variants = bench_generate.ready(setup, fastest, say)
    engine = Engine(setup.model, setup.tokenizer, max_rows=setup.batch)
    chosen = [mode for mode in modes(setup) if _warmed(engine, setup, mode, say)]
    engine.backend.prime(32 * setup.batch, setup.longest)
    gc.collect()
    gc.freeze()  # as laws do once they are loaded
    with turns():
        report = _report(setup, name, dtype)
        report.engine = engine.backend.describe()
        say("measuring transformers generate")
        baseline = _baseline(setup, report, variants)
        for mode in chosen:
            try:
                _relearn(engine, setup, mode)
                done = _measure(engine, setup, report, mode, baseline.seconds)
                _judge(setup, report, mode, done, baseline.answers)
            except Exception as error:  # what was measured before is not lost
                say(f"{mode.name}: failed ({type(error).__name__}: {str(error)[:300]})")
                continue
            last = report.cells[-1]
            say(f"{mode.name}: {last.decisions_per_s:.1f} decisions/s, {last.speedup:.2f}x")
        bench_rivals.measure(setup, rivals, baseline, report, fastest, say)
    return report


def _warmed(engine: Engine, setup: Setup, mode: Mode, say: Say) -> bool:
    """Decode other prompts in some way; whether that works here."""
    say(f"warming up {mode.name}")
    engine.speculate = mode.speculate
    try:
        mode.decode(engine, setup, setup.warm)
    except Exception as error:
        say(f"{mode.name}: not available here ({type(error).__name__}: {str(error)[:300]})")
        return False
    return True


def _relearn(engine: Engine, setup: Setup, mode: Mode) -> None:
    """Let an engine know what the other prompts taught in this mode, and nothing of the timed ones.

    Modes answer the same prompts: what one has found out about them must not serve the next.
    """
    engine.unlearn()
    engine.speculate = mode.speculate
    mode.decode(engine, setup, setup.warm)


def _report(setup: Setup, model: str, dtype: str) -> BenchReport:
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


def _baseline(setup: Setup, report: BenchReport, variants: list[bench_generate.Variant]) -> Batch:
    """Measure the configurations of `generate`; return the best time and its answers."""
    best = Batch((), (), float("inf"))
    for name, options in variants:
        decode = partial(bench_generate.generate_all, setup, options)
        first = _batch(setup, decode, setup.fresh, 1)
        whole = _batch(setup, decode, setup.work, setup.new_tokens)
        tokens = mean([len(answer) for answer in whole.answers])
        steps = mean(bench_generate.steps(setup, whole.answers))
        cell = _cell(report, name, whole.seconds, tokens, steps, best.seconds)
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
    cell = _cell(report, mode.name, seconds, tokens, steps, baseline)
    cell.note = "no drafts"
    if mode.drafts:
        cell.note = f"drafts of {mode.drafts}: {accepted} of {drafted} tokens kept"
    cell.spent = {name: value / report.batches for name, value in parts.items()}
    # One more batch of new prompts, with everything waited for.
    whole, said, cell.shares, ran = _watched(engine, setup, mode.decode, setup.fresh, setup.wait)
    batch = Batch(setup.fresh, [d.tokens for d in said], whole)
    cell.rates = by_parts(batch, cell.shares["prompt"] / 1e3, ran)
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
    report: BenchReport, mode: str, seconds: float, tokens: float, steps: float, baseline: float
) -> Cell:
    reuse = not mode.startswith("generate")
    prompt = report.tail_tokens + (0 if reuse else report.prefix_tokens)
    batches = report.batches
    times = floors(report.limits, report.batch, prompt + tokens, steps)
    arithmetic, reading = (batches * least for least in times)
    rate = report.batch * batches / seconds
    return Cell(mode, seconds, rate, tokens, steps, baseline / seconds, arithmetic, reading)


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
    parser.add_argument("--rivals", default="", help="other libraries, by comma, or all")
    parser.add_argument("--fastest", action="store_true", help="measure one generate only")
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
