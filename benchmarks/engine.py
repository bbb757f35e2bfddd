"""How fast the engine is, next to transformers' `generate`, on one workload in one run.

Same prompts in tokens, same dtype, same machine. `generate` is measured in every configuration it
offers for the device and the fastest counts. Prompts are never repeated: warming up uses others,
and every batch is new, since the engine learns drafts from the answers it has given. The engine
gets all batches as one queue (continuous batching), `generate` one after the other. Grammars and
expected answers are made while it is timed. Also reported: tokens per second (as defined in
`benchmarks.rates`), model steps per decision, where the time goes, and how far each mode
is from the arithmetic and the bandwidth this machine was measured to have in the same run. Other
libraries may be measured behind it (`benchmarks.rivals_rows`). On a machine that others use
too all of it can be measured in several rounds, of which each row's fastest counts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import generate as bench_generate
from benchmarks import rivals_rows as bench_rivals
from benchmarks.best import best_of
from benchmarks.modes import Mode, modes
from benchmarks.report import BenchReport, lines
from benchmarks.rivals_rows import Say
from benchmarks.round import Field, limits_of, play
from benchmarks.setup import Setup, place, prepare
from waggle.core.errors import ConfigError
from waggle.engine.engine import Engine

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
    rounds: int = 1,
) -> BenchReport:
    """Measure `generate`, free and constrained decoding of some batches of decisions, and rivals.

    Raises:
        ConfigError: for sizes that make no sense, and for rivals that are unknown.
    """
    if min(batch, prefix_tokens, tail_tokens, new_tokens, repeats, rounds) < 1:
        raise ConfigError("batch, token counts, repeats and rounds must be at least 1")
    names = bench_rivals.chosen(rivals, place(device, dtype)[0])
    sizes = (batch, repeats)
    setup = prepare(model, device, dtype, sizes, prefix_tokens, tail_tokens, new_tokens)
    return compare(setup, model, place(device, dtype)[1], say, fastest, turns, names, rounds)


def compare(
    setup: Setup,
    name: str,
    dtype: str,
    say: Say,
    fastest: bool,
    turns: Turns,
    rivals: Sequence[str] = (),
    rounds: int = 1,
) -> BenchReport:
    """Make everything ready, then measure one after the other, rivals last, and so once a round."""
    bench_rivals.require(setup, rivals)
    say("warming up transformers generate")
    variants = bench_generate.ready(setup, fastest, say)
    engine = Engine(setup.model, setup.tokenizer, max_rows=setup.batch)
    chosen = [mode for mode in modes(setup) if _warmed(engine, setup, mode, say)]
    engine.backend.prime(32 * setup.batch, setup.longest)
    gc.collect()
    gc.freeze()  # as laws do once they are loaded
    with turns(), TemporaryDirectory(prefix="waggle-rivals-") as folder:
        limits = limits_of(setup)
        field = Field(variants, engine, chosen, rivals, fastest, Path(folder), limits)
        found = [play(setup, name, dtype, field, say) for _ in range(rounds)]
    report = best_of(found)
    report.standings = bench_rivals.standings(report, rivals)
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


def main() -> None:
    """Run from the command line with nothing but the engine's own dependencies."""
    import argparse
    import json
    import sys

    from benchmarks.host import bench_host, host_lines

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
                        ("new-tokens", 80), ("repeats", 3), ("rounds", 1)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = vars(parser.parse_args())
    as_json, host_only = chosen.pop("json"), chosen.pop("host_only")
    if chosen.pop("trace"):
        from benchmarks.trace import trace

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
