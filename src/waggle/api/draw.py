"""Plots of one episode and of many, for notebooks and files; needs matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waggle.core.record import EpisodeRecord
from waggle.evaluate.stats import Interval
from waggle.report.figure import PALETTE, canvas, legend, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTHING, _OTHER = "#e9ebee", "#c3c7cd"
_NAMED = 6
"""Number of claims with a separate colour: those held most often."""


@styled
def episode(record: EpisodeRecord) -> Figure:
    """Draw the claim that every agent holds, and the scores, over the rounds."""
    from matplotlib.colors import ListedColormap

    held = commitments(record)
    counts = Counter(claim for row in held for claim in row if claim is not None)
    named = [claim for claim, _ in counts.most_common(_NAMED)]
    code: dict[str | None, int] = {claim: 2 + place for place, claim in enumerate(named)}
    code[None] = 0
    colours = [_NOTHING, _OTHER, *PALETTE[: len(named)]]
    above, below = canvas(2, 1, width=6.0, height=2.0)
    cells = [[code.get(claim, 1) for claim in row] for row in held]
    last = len(colours) - 1
    above.pcolormesh(cells, cmap=ListedColormap(colours), vmin=0, vmax=last, rasterized=True)
    above.set(ylabel="agent", title=f"{record.header.case.task}, {record.header.law}")
    above.grid(visible=False)
    for place, claim in enumerate(named):
        above.plot([], [], "s", color=PALETTE[place], label=f"holds {claim:.20}")
    above.plot([], [], "s", color=_NOTHING, label="holds nothing")
    rounds = [entry.round + 0.5 for entry in record.rounds]
    for place, name in enumerate(record.footer.scores):
        values = [entry.score.get(name) for entry in record.rounds]
        below.plot(rounds, values, color=PALETTE[-1 - place % len(PALETTE)], label=name)
    below.set(xlabel="round", xlim=above.get_xlim())
    if record.shock is not None:
        for axis in (above, below):
            axis.axvline(record.shock.round, color="#b3261e", label="counterevidence")
    legend([above, below])
    return _shown(above.figure)


def commitments(record: EpisodeRecord) -> list[list[str | None]]:
    """Return the claim of every agent (row) after every round (column)."""
    rows: list[list[str | None]] = [[] for _ in range(record.header.case.n)]
    for entry in record.rounds:
        held = {update.node: update.claim for update in entry.updates}
        for node, row in enumerate(rows):
            row.append(held.get(node, row[-1] if row else None))
    return rows


Means = Mapping[str, Mapping[str, Interval]]
"""Law -> label on the x-axis -> mean with its interval."""


@styled
def compared(panels: Mapping[str, Means], places: Sequence[str]) -> Figure:
    """Draw the means of laws with their intervals, one panel for each metric."""
    width = 1.6 + 0.8 * len(places)
    axes = canvas(1, len(panels), width=max(2.9, width), height=2.6)
    for axis, (metric, laws) in zip(axes, panels.items(), strict=True):
        for number, (law, means) in enumerate(laws.items()):
            spread = 0.6 * ((number + 0.5) / len(laws) - 0.5)
            points = [(place, means[name]) for place, name in enumerate(places) if name in means]
            axis.errorbar(
                [place + spread for place, _ in points],
                [found.mean for _, found in points],
                yerr=[
                    [max(0.0, found.mean - found.low) for _, found in points],
                    [max(0.0, found.high - found.mean) for _, found in points],
                ],
                fmt="o", ms=4, capsize=2, color=PALETTE[number % len(PALETTE)], label=law,
            )  # fmt: skip
        axis.set(title=metric, xticks=range(len(places)), xlim=(-0.6, len(places) - 0.4))
        axis.set_xticklabels(places, rotation=20 if len(places) > 3 else 0)
        axis.grid(visible=False, axis="x")
    legend(axes)
    return _shown(axes[0].figure)


def _shown(sheet: Any) -> Figure:
    """Let a notebook show a figure that was created without pyplot."""

    def png() -> bytes:
        with BytesIO() as file:
            sheet.savefig(file, format="png", dpi=110)
            return file.getvalue()

    sheet._repr_png_ = png
    return sheet  # type: ignore[no-any-return]


def saved(sheet: Figure, path: str | Path | None) -> Figure:
    """Save a figure if a path is given, in the format of its suffix; return the figure."""
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        sheet.savefig(path, dpi=150)
    return sheet
