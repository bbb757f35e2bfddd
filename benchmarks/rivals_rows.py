"""Other libraries on the workload of a measurement: their rows, and how the engine stands to them.

A library is measured in the configurations it offers, as `generate` is, and its fastest counts;
one in which reading alone takes longer than that is given up, and its row says so.
What warms up, what is read with one new token and what is decoded are different prompts, since
some libraries keep what they have read. Invariant: a library that is missing or fails costs its
own rows and no others.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.rates import Batch, by_difference
from benchmarks.report import BenchReport, Cell
from benchmarks.rivals import job as jobs
from benchmarks.rivals import registry
from benchmarks.rivals.job import Answers, Decode, Job, Rival, Variant
from benchmarks.rivals.registry import INSTALL, RIVALS
from benchmarks.setup import Ask, Setup, mean
from benchmarks.standing import RivalRow, Standing

Say = Callable[[str], None]
WARM_TOKENS = 4
PART = 4
"""One in so many prompts of a batch is read to see whether a configuration is hopeless."""
PATIENCE = 1.25
"""It is where reading alone would take so many times what the library's fastest takes in all."""


def chosen(names: str, device: str) -> list[str]:
    """Return the rivals of a comma-separated list, for a device.

    Raises:
        ConfigError: for a name that is none, and where rivals are not measured.
    """
    found = registry.chosen(names)
    if found:
        jobs.require_cpu(device)
    return found


def require(setup: Setup, names: Sequence[str]) -> None:
    """Refuse what rivals are not measured with, before anything is."""
    if names:
        jobs.require_llama(setup.model)


def measure(
    setup: Setup,
    names: Sequence[str],
    baseline: Batch,
    report: BenchReport,
    fastest: bool,
    folder: Path,
    say: Say,
) -> None:
    """Measure rivals and add their rows to a report; `baseline` is `generate` on the same work.

    Converted weights are kept in `folder`, and taken from there.
    """
    if not names:
        return
    job = jobs.job(setup, folder)
    for name in names:
        rival = RIVALS[name]
        if rival.missing:
            report.missing[name] = f"not installed ({rival.missing}); {INSTALL}"
            say(f"{name}: {report.missing[name]}")
            continue
        report.rivals += _rows(setup, job, name, rival, baseline, fastest, say)
        if not any(row.rival == name for row in report.rivals):
            report.missing.setdefault(name, "failed in every configuration")


def _rows(
    setup: Setup, job: Job, name: str, rival: Rival, baseline: Batch, fastest: bool, say: Say
) -> list[RivalRow]:
    found: list[RivalRow] = []
    try:
        variants = rival.variants(job)
    except Exception as error:
        say(f"{name}: not available here ({type(error).__name__}: {str(error)[:300]})")
        return []
    for variant in variants[-1:] if fastest else reversed(variants):
        title = f"{name}, {variant.precision}, {variant.configuration}"
        say(f"measuring {title}")
        best = min((row.seconds for row in found if row.complete), default=float("inf"))
        try:
            first, whole = _timed(setup, variant, PATIENCE * best)
        except Exception as error:
            say(f"{title}: failed ({type(error).__name__}: {str(error)[:300]})")
            continue
        found.append(_row(name, rival, variant, first, whole, baseline))
        bound = "" if found[-1].complete else "at most "
        say(f"{title}: {bound}{found[-1].decisions_per_s:.2f} decisions/s")
        gc.collect()
    return found


def _timed(setup: Setup, variant: Variant, most: float) -> tuple[Batch, Batch]:
    """Return a batch of one new token, and all batches with all tokens.

    Where reading a part of a batch foretells more than `most` seconds, that part is all there is,
    and there are no answers.
    """
    size = setup.batch
    with variant.open() as decode:
        # Beginnings that are kept are read here, as the engine has read them when it is timed.
        heads = {ask.prefix: ask for ask in setup.warm[:size]}
        decode(list(heads.values()), min(WARM_TOKENS, setup.new_tokens))
        part = _clocked(decode, [setup.warm[size : size + max(1, size // PART)]], 1)
        reading = part.seconds * len(setup.work) / len(part.asks)
        if reading > most:
            return part, Batch(setup.work, (), reading)
        first = _clocked(decode, [setup.fresh], 1)
        batches = [setup.work[i : i + size] for i in range(0, len(setup.work), size)]
        return first, _clocked(decode, batches, setup.new_tokens)


def _clocked(decode: Decode, batches: list[list[Ask]], count: int) -> Batch:
    found: Answers = []
    start = time.perf_counter()
    for batch in batches:
        found += decode(batch, count)
    seconds = time.perf_counter() - start
    return Batch([ask for batch in batches for ask in batch], found, seconds)


def _row(
    name: str, rival: Rival, variant: Variant, first: Batch, whole: Batch, baseline: Batch
) -> RivalRow:
    kept = sum(len(ask.prefix) for ask in whole.asks) if variant.shares else 0
    run = (whole.prompt - kept + whole.said) / len(whole.asks) - 1  # the last token is not run
    return RivalRow(
        rival=name,
        library=f"{rival.package} {rival.version}",
        precision=variant.precision,
        configuration=variant.configuration,
        seconds=whole.seconds,
        decisions_per_s=len(whole.asks) / whole.seconds,
        tokens=mean([len(answer) for answer in whole.answers]),
        speedup=baseline.seconds / whole.seconds,
        rates=by_difference(first, whole, run),
        equal=sum(a == b for a, b in zip(whole.answers, baseline.answers, strict=False)),
        answers=len(whole.answers),
    )


def standings(report: BenchReport, names: Sequence[str]) -> list[Standing]:
    """Compare the engine's free and constrained decoding with rivals in their fastest way."""
    return [standing for name in names for standing in _standings(report, name)]


def _standings(report: BenchReport, name: str) -> list[Standing]:
    rows = [row for row in report.rivals if row.rival == name and row.complete]
    if not rows:
        return []
    best = max(rows, key=lambda row: row.decisions_per_s)
    return [_standing(cell, best) for cell in report.cells if cell.mode in ("free", "constrained")]


def _standing(cell: Cell, row: RivalRow) -> Standing:
    def over(ours: float, theirs: float) -> float:
        return ours / theirs if theirs else 0.0

    return Standing(
        row.rival,
        cell.mode,
        over(cell.decisions_per_s, row.decisions_per_s),
        over(cell.rates.prefill, row.rates.prefill),
        over(cell.rates.decode, row.rates.decode),
    )
