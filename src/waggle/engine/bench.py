"""How fast the engine is, next to transformers' `generate`, on one workload in one run.

Same prompts, same dtype, same machine. `generate` is measured in every configuration it offers for
the device and the fastest counts. Also reported: model steps per decision, and how far each mode
is from the arithmetic and the bandwidth this machine was measured to have in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from waggle.core.errors import ConfigError
from waggle.engine import workload
from waggle.engine.engine import Engine
from waggle.engine.limits import Limits, floor_seconds, measure
from waggle.engine.request import Completion, Prompt
from waggle.engine.shapes import SHAPES, shaped


@dataclass(slots=True)
class Cell:
    """One way of decoding, measured."""

    mode: str
    seconds: float
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


@dataclass(slots=True)
class BenchReport:
    """What was measured and on what."""

    model: str
    device: str
    dtype: str
    threads: int
    batch: int
    prefix_tokens: int
    tail_tokens: float
    answer_tokens: int
    limits: Limits
    cells: list[Cell] = field(default_factory=list)
    identical: int = 0
    """Free answers that are token for token those of `generate`."""
    flips: int = 0
    """Free answers that part from `generate` somewhere (near-ties, in bfloat16)."""
    example: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Setup:
    model: Any
    tokenizer: Any
    prefix: tuple[int, ...]
    tails: list[tuple[int, ...]]
    tasks: list[workload.Task]
    new_tokens: int
    device: str


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
    """Measure `generate`, free and constrained decoding of one batch of decisions.

    Raises:
        ConfigError: for sizes that make no sense.
    """
    if min(batch, prefix_tokens, tail_tokens, new_tokens, repeats) < 1:
        raise ConfigError("batch, token counts and repeats must be at least 1")
    setup, kind = _prepare(model, device, dtype, batch, prefix_tokens, tail_tokens, new_tokens)
    report = _report(setup, model, kind, batch)
    say("measuring transformers generate")
    baseline, answers = _baseline(setup, repeats, report, say)
    engine = Engine(setup.model, setup.tokenizer, max_rows=batch)
    for mode, speculate in (("free, no drafts", False), ("free", True)):
        say(f"measuring {mode}")
        engine.speculate = speculate
        done = _measure_free(engine, setup, repeats, report, mode, baseline)
        if speculate:
            report.identical = sum(d.tokens == a for d, a in zip(done, answers, strict=True))
            report.flips = batch - report.identical
    say("measuring constrained")
    _measure_constrained(engine, setup, repeats, report, baseline)
    return report


def _prepare(
    name: str, device: str, dtype: str, batch: int, prefix: int, tail: int, new_tokens: int
) -> tuple[_Setup, str]:
    from waggle.engine import weights

    where = weights.pick_device(device)
    kind = weights.pick_dtype(dtype, where)
    if name in SHAPES:
        model, tokenizer = shaped(name, where, kind)
    else:
        model, tokenizer = weights.load(name, where, dtype)
    chosen = workload.tasks(batch, workload.fit_records(tokenizer, tail))
    tails = [workload.encode(tokenizer, task.tail) for task in chosen]
    shared = workload.shared_prefix(tokenizer, prefix)
    setup = _Setup(model, tokenizer, shared, tails, chosen, new_tokens, where)
    return setup, str(kind).removeprefix("torch.")


def _report(setup: _Setup, model: str, dtype: str, batch: int) -> BenchReport:
    torch: Any = import_module("torch")
    where = setup.device
    if where.startswith("cuda"):
        where = f"{where} ({torch.cuda.get_device_name()})"
    return BenchReport(
        model=model,
        device=where,
        dtype=dtype,
        threads=torch.get_num_threads(),
        batch=batch,
        prefix_tokens=len(setup.prefix),
        tail_tokens=sum(map(len, setup.tails)) / batch,
        answer_tokens=setup.new_tokens,
        limits=_limits(setup),
    )


def _limits(setup: _Setup) -> Limits:
    limits = measure(setup.device, setup.model.dtype)
    blocks = [weight for weight in setup.model.model.layers.parameters() if weight.dim() > 1]
    limits.weights = sum(weight.numel() for weight in blocks)
    limits.weight_bytes = sum(weight.numel() * weight.element_size() for weight in blocks)
    return limits


def _clock(setup: _Setup, work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the best wall time of some repeats after a warm-up, and the last result."""
    torch: Any = import_module("torch")
    work()
    best, result = float("inf"), None
    for _ in range(repeats):
        if setup.device.startswith("cuda"):
            torch.cuda.synchronize()
        start = time.perf_counter()
        result = work()
        if setup.device.startswith("cuda"):
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best, result


def _baseline(
    setup: _Setup, repeats: int, report: BenchReport, say: Callable[[str], None]
) -> tuple[float, list[tuple[int, ...]]]:
    """Measure every configuration of `generate`; return the best time and its answers."""
    variants: list[tuple[str, dict[str, Any]]] = [("generate, dynamic cache", {})]
    if setup.device.startswith("cuda"):
        variants.append(("generate, static cache, compiled", {"cache_implementation": "static"}))
    best = float("inf")
    answers: list[tuple[int, ...]] = []
    for mode, options in variants:
        try:
            seconds, found = _clock(setup, partial(_generate, setup, options), repeats)
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


def _generate(setup: _Setup, options: dict[str, Any]) -> list[tuple[int, ...]]:
    """Decode with transformers: left padding, greedy, exactly the forced length."""
    torch: Any = import_module("torch")
    rows = [[*setup.prefix, *tail] for tail in setup.tails]
    longest = max(map(len, rows))
    pad = setup.tokenizer.pad_token_id or 0
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    with torch.inference_mode():
        found = setup.model.generate(
            ids.to(setup.device),
            attention_mask=mask.to(setup.device),
            max_new_tokens=setup.new_tokens,
            min_new_tokens=setup.new_tokens,
            do_sample=False,
            **options,
        )
    return [tuple(row) for row in found[:, longest:].tolist()]


def _measure_free(
    engine: Engine, setup: _Setup, repeats: int, report: BenchReport, mode: str, baseline: float
) -> list[Completion]:
    def work() -> list[Completion]:
        return engine.generate(
            [
                Prompt(
                    tail=tail,
                    prefix=setup.prefix,
                    skeleton=engine.constraint(task.grammar),
                    max_new_tokens=setup.new_tokens,
                    ignore_end=True,
                )
                for tail, task in zip(setup.tails, setup.tasks, strict=True)
            ]
        )

    seconds, done = _clock(setup, work, repeats)
    steps = sum(d.usage.model_steps for d in done) / len(done)
    drafted = sum(d.usage.drafted_tokens for d in done)
    accepted = sum(d.usage.accepted_tokens for d in done)
    cell = _cell(report, mode, seconds, setup.new_tokens, steps, baseline)
    cell.note = f"{accepted} of {drafted} drafted tokens accepted" if drafted else ""
    report.cells.append(cell)
    return list(done)


def _measure_constrained(
    engine: Engine, setup: _Setup, repeats: int, report: BenchReport, baseline: float
) -> None:
    def work() -> list[Completion]:
        # Grammars are bound anew each time, as a new round's views would bring new ones.
        return engine.generate(
            [
                Prompt(
                    tail=tail,
                    prefix=setup.prefix,
                    grammar=engine.constraint(task.grammar),
                    max_new_tokens=task.grammar.longest(),
                )
                for tail, task in zip(setup.tails, setup.tasks, strict=True)
            ]
        )

    seconds, done = _clock(setup, work, repeats)
    steps = sum(d.usage.model_steps for d in done) / len(done)
    tokens = sum(d.usage.completion_tokens for d in done) / len(done)
    cell = _cell(report, "constrained", seconds, tokens, steps, baseline)
    good = sum(task.grammar.accepts(d.text) for task, d in zip(setup.tasks, done, strict=True))
    cell.note = f"{good} of {len(done)} answers in the grammar"
    report.cells.append(cell)
    report.example = done[0].text


def _cell(
    report: BenchReport, mode: str, seconds: float, tokens: float, steps: float, baseline: float
) -> Cell:
    reuse = not mode.startswith("generate")
    prompt = report.tail_tokens + (0 if reuse else report.prefix_tokens)
    floor = floor_seconds(report.limits, report.batch, prompt + tokens, steps)
    return Cell(mode, seconds, report.batch / seconds, tokens, steps, baseline / seconds, floor)


def lines(report: BenchReport) -> list[str]:
    """Return the report as text."""
    limits = report.limits
    out = [
        f"{report.model} on {report.device}, {report.dtype}, {report.threads} threads, "
        f"batch {report.batch}",
        f"prompt: {report.prefix_tokens} shared + {report.tail_tokens:.0f} own tokens; "
        f"answer: {report.answer_tokens} tokens forced",
        f"machine: {limits.flops / 1e12:.2f} TFLOP/s, {limits.bandwidth / 1e9:.0f} GB/s measured",
    ]
    out.extend(
        f"{cell.mode:34s} {cell.decisions_per_s:9.2f} decisions/s {cell.speedup:6.2f}x "
        f"{cell.tokens:5.1f} tokens {cell.steps:5.1f} steps "
        f"{100 * cell.floor / cell.seconds:5.1f} % of the limit  {cell.note}"
        for cell in report.cells
    )
    out.append(f"free equals generate in {report.identical} of {report.batch} answers")
    out.append(f"example: {report.example}")
    return out


def main() -> None:
    """Run from the command line with nothing but the engine's own dependencies."""
    import argparse
    import json
    import sys

    parser = argparse.ArgumentParser(description=bench.__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--json", action="store_true")
    for name, value in (("batch", 16), ("prefix-tokens", 400), ("tail-tokens", 300),
                        ("new-tokens", 80), ("repeats", 3)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = vars(parser.parse_args())
    as_json = chosen.pop("json")
    report = bench(say=lambda line: print(line, file=sys.stderr), **chosen)  # noqa: T201
    shown = [json.dumps(report.as_dict())] if as_json else lines(report)
    sys.stdout.write("\n".join(shown) + "\n")


if __name__ == "__main__":
    main()
