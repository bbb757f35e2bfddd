"""What a search of rates and ranks chooses, and what that means for the recipe it was made for.

Invariant: the least validation loss is chosen, of equal ones the smaller rank, then the smaller
rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waggle.core.errors import WaggleError
from waggle.scd.config import Recipe

Result = Mapping[str, Any]
"""The numbers of a candidate: `rank` (None where there is none), `rate`, `best` and others."""


def choose(results: Sequence[Result]) -> Result:
    """Return the result that is chosen.

    Raises:
        WaggleError: if there is none.
    """
    if not results:
        raise WaggleError("no candidate could be trained; see above what was lost, and why")
    return min(results, key=lambda found: (found["best"], found["rank"] or 0, found["rate"]))


def advice(recipe: Recipe, file: Path, chosen: Result) -> str:
    """Say in one line whether a recipe has what was chosen, and if not what to write in it."""
    wanted = [("[stage_two]", "rate", chosen["rate"], recipe.stage_two.rate)]
    if chosen["rank"] is not None:
        wanted.append(("[adaptation]", "rank", chosen["rank"], recipe.adaptation.rank))
    changes = [
        f"{key} = {value!r} in {table} (it has {own!r})"
        for table, key, value, own in wanted
        if value != own
    ]
    if changes:
        return f"{file} does not have what was chosen: write {' and '.join(changes)}"
    told = " and ".join(f"{table} {key} = {value!r}" for table, key, value, _ in wanted)
    return f"{file} has what was chosen: {told}"


def at_end(tried: Sequence[tuple[float, int | None]], chosen: Result) -> list[str]:
    """Name what of the chosen is the least or greatest of the rates and ranks that were tried."""
    ends = []
    for name, values in zip(("rate", "rank"), map(set, zip(*tried, strict=True)), strict=True):
        if len(values) > 1 and chosen[name] in (min(values), max(values)):
            ends.append(name)
    return ends
