"""`waggle check rows DIR`: do rows of rules still hold?"""

from __future__ import annotations

from pathlib import Path

from waggle.cli import console
from waggle.cli.flags import Chosen, Flag, words
from waggle.cli.measure.evaluate import recipe_of
from waggle.core.errors import ConfigError
from waggle.evaluate import executors, plan
from waggle.evaluate.recheck import Checked, drawn, recheck, rules
from waggle.evaluate.rows import succeeded
from waggle.evaluate.selection import select

SHOWN = 20
"""Episodes that are listed; how many differ is told of all."""


def rows(
    folder: Path, /, *, methods: Chosen = "", cells: int = 50, workers: int | None = None,
    json: Flag = False,
) -> int:  # fmt: skip
    """Play some episodes of a run or an archive again and compare them with their rows.

    Rows outlive the code that played them. This plays cells of laws without weights, drawn evenly
    over methods, substrates and populations, and compares every score, metric and counter. The exit
    code is 1 if any came out differently: play that method again (`waggle eval RECIPE --methods
    METHOD --again`). Example:

    `waggle check rows results/anchors --cells 20`

    Args:
        folder: A run directory of `waggle eval`, or an archive of one.
        methods: Check these methods only, e.g. `expert,nocomm`.
        cells: How many episodes to play.
        workers: Worker processes, one per core if unset.
        json: Print one JSON object instead of text.
    """
    if cells < 1:
        raise ConfigError("--cells must be at least 1")
    planned = plan.cells(recipe_of(folder))
    here = succeeded(folder)
    if not any((cell.method, cell.id) in here for cell in planned):
        raise ConfigError(f"{folder} has no row of its own recipe; play it with `waggle eval`")
    chosen = drawn(rules(select(planned, methods=words(methods)), here), cells)
    if not chosen:
        raise ConfigError(f"{folder} has no row of a law without weights; name other --methods")
    asked = list(recheck(chosen, here, executors.make("process", workers)))
    return _tell(folder, [each for each in asked if each.differs], len(asked), json)


def _tell(folder: Path, differing: list[Checked], played: int, json: bool) -> int:
    if json:
        found = [
            {"cell": a.cell.id, "method": a.cell.method, "differs": a.differs} for a in differing
        ]
        console.dump({"ok": not differing, "played": played, "differing": found})
        return 1 if differing else 0
    for cell, differs in differing[:SHOWN]:
        case = cell.case
        name = f"{cell.method} {case.substrate}/{case.task} N={case.n} seed {case.seed}"
        more = f" and {len(differs) - 1} more" if len(differs) > 1 else ""
        console.say(f"differs: {name}: {differs[0]}{more}")
    console.say(
        f"{played - len(differing)} of {played} episodes of {folder} came out as their rows say"
    )
    return 1 if differing else 0
