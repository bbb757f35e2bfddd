"""What a measurement of the engine says, as data and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.limits import Limits
from benchmarks.rates import MEANING, UNKNOWN, Rates, told
from benchmarks.standing import RivalRow, Standing, rival_lines, standing_lines


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
    arithmetic: float
    """Seconds that the products of this mode take at the machine's measured speed."""
    reading: float
    """Seconds that its steps take to read the weights at the measured bandwidth."""
    rates: Rates = UNKNOWN
    """Tokens per second."""
    note: str = ""
    shares: dict[str, float] = field(default_factory=dict)
    """Milliseconds of one more batch by kind of work, with the device waited for."""
    spent: dict[str, float] = field(default_factory=dict)
    """Milliseconds of the host for each measured batch: sending, asking, waiting, the rest."""


@dataclass(slots=True)
class BenchReport:
    """What was measured and on what."""

    model: str
    device: str
    dtype: str
    threads: int
    batch: int
    batches: int
    prefix_tokens: float
    tail_tokens: float
    answer_tokens: int
    forced: bool
    """Whether free answers have that length; otherwise it is the longest they may have."""
    limits: Limits
    engine: str = ""
    """How the engine computes here."""
    rounds: int = 1
    """How often all of it was measured; every row is its fastest."""
    cells: list[Cell] = field(default_factory=list)
    equal: dict[str, str] = field(default_factory=dict)
    """Free answers that are token for token those of `generate`, by mode (bfloat16 has ties)."""
    memory: int = 0
    """Bytes of the GPU that were taken at most by tensors, `generate` included."""
    held: int = 0
    """Bytes that tensors took at the end."""
    example: str = ""
    rivals: list[RivalRow] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Rivals that were asked for and could not be measured, and why."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def lines(report: BenchReport) -> list[str]:
    """Return the report as text."""
    limits = report.limits
    out = [
        f"{report.model} on {report.device}, {report.dtype}, {report.threads} threads, "
        f"{report.batches} batches of {report.batch}"
        + (f", each row the fastest of {report.rounds} rounds" if report.rounds > 1 else ""),
        f"prompt: {report.prefix_tokens:.0f} shared + {report.tail_tokens:.0f} own tokens; answer: "
        f"{'' if report.forced else 'to its end, at most '}{report.answer_tokens} tokens"
        f"{' forced' if report.forced else ''}; engine: {report.engine}",
        f"machine: {limits.flops / 1e12:.2f} TFLOP/s, {limits.bandwidth / 1e9:.0f} GB/s measured",
        MEANING,
    ]
    for cell in report.cells:
        out.append(
            f"{cell.mode:34s} {cell.decisions_per_s:9.2f} decisions/s {cell.speedup:6.2f}x "
            f"{cell.tokens:5.1f} tokens {told(cell.rates)} {cell.steps:5.1f} steps "
            f"{100 * cell.arithmetic / cell.seconds:5.1f} % of arithmetic "
            f"{100 * cell.reading / cell.seconds:5.1f} % of bandwidth  {cell.note}"
        )
        for head, found in (("each batch", cell.spent), ("one batch, waited for", cell.shares)):
            parts = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
            out += [f"    {head}, in ms: {parts}"] if found else []
    out += rival_lines(report.rivals)
    out += [f"{mode} equals generate in {said}" for mode, said in report.equal.items()]
    if report.memory:
        out.append(
            f"memory: {report.memory / 2**30:.1f} GiB at most, {report.held / 2**30:.1f} kept"
        )
    out.append(f"example: {report.example}")
    out += standing_lines(report.standings)
    return out + [f"{name}: {why}" for name, why in report.missing.items()]
