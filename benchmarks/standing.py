"""What a measurement says of other libraries, and how the engine stands to them: data and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.rates import Rates, told


@dataclass(slots=True)
class RivalRow:
    """One library in one configuration, measured."""

    rival: str
    library: str
    """Its package and version."""
    precision: str
    configuration: str
    seconds: float
    """Of all batches."""
    decisions_per_s: float
    tokens: float
    """Mean answer length in tokens."""
    speedup: float
    """Against the fastest `generate`."""
    rates: Rates
    equal: int
    """Answers that are token for token those of `generate`."""
    answers: int
    """Answers there are; none where it was given up."""

    @property
    def complete(self) -> bool:
        """Whether it was measured to the end; if not, its decisions per second are a bound."""
        return self.answers > 0


@dataclass(slots=True)
class Standing:
    """The engine against a rival at its fastest: ratios, above 1 where the engine is ahead."""

    rival: str
    mode: str
    decisions: float
    prefill: float
    decode: float


def rival_lines(rows: Sequence[RivalRow]) -> list[str]:
    """Return rows of rivals as text."""
    return [
        f"{row.rival + ', ' + row.precision:34s} {row.decisions_per_s:9.2f} decisions/s "
        f"{row.speedup:6.2f}x {row.tokens:5.1f} tokens {told(row.rates)}  {row.library}; "
        f"{row.configuration}; {_outcome(row)}"
        for row in rows
    ]


def _outcome(row: RivalRow) -> str:
    if not row.complete:
        return "given up, at most this: reading alone takes longer than its fastest in all"
    return f"{row.equal} of {row.answers} answers equal generate's"


def standing_lines(standings: Sequence[Standing]) -> list[str]:
    """Return one line per rival: the engine against its fastest configuration."""
    return [
        f"against {name} at its fastest: "
        + "; ".join(
            f"{s.mode} {s.decisions:.2f}x decisions/s, {s.prefill:.2f}x prefill, "
            f"{s.decode:.2f}x decode"
            for s in standings
            if s.rival == name
        )
        for name in dict.fromkeys(s.rival for s in standings)
    ]
