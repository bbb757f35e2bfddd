"""Which trained laws of a factorial stand beside each other, and what is said of the others.

Closed-loop columns compare laws on settings that all of them have played; an arm of which fewer
training seeds were measured, or fewer episodes played, than of others has a dagger and a line that
says so. Invariant: no law is left out, and no mean is of other seeds, without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from waggle.evaluate.factorial import ARMS, TRAINING_NOTES, Trained, arm_of
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.matching import DAGGER, Unit, unit

TITLES = {
    "decision": "Decision only",
    "orbit": "+ Orbit",
    "field": "+ Field",
    "scd": "Waggle (SCD)",
}
"""What tables call the arms."""


def titled(arm: str, fewer: Collection[str]) -> str:
    """Return what a table calls an arm; a dagger marks those that have less than others."""
    return f"{TITLES[arm]} {DAGGER}" if arm in fewer else TITLES[arm]


def told(found: Sequence[Trained]) -> list[str]:
    """Say how the laws were trained: alike, or in which ways."""
    lines = []
    for key in TRAINING_NOTES:
        said = sorted({each.notes[key] for each in found if key in each.notes})
        lines += [f"{key} {text}" for text in said]
    return lines


def whole(late: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of the laws that are compared, on settings that all of them have.

    Of what some law has played, the settings that give the most episodes, then the most laws; laws
    without all of them are left out, so that an unfinished law cannot be read beside finished ones.
    """
    found: dict[str, dict[Unit, Row]] = {}
    for row in late:
        found.setdefault(row.method, {})[unit(row)] = row

    def laws(settings: Collection[Unit]) -> list[str]:
        return [name for name, own in found.items() if own.keys() >= set(settings)]

    played = sorted({tuple(sorted(own)) for own in found.values()})
    best = max(played, key=lambda some: (len(some) * len(laws(some)), len(laws(some))), default=())
    return {name: [found[name][key] for key in best] for name in laws(best)} if best else {}


def of_laws(played: Mapping[str, Sequence[Row]], arm: str) -> list[Sequence[Row]]:
    """Return the rows of each law of an arm."""
    return [rows for name, rows in sorted(played.items()) if (arm_of(name) or ("",))[0] == arm]


def _planned(recipe: Recipe) -> list[str]:
    return [name for name in recipe.methods if arm_of(name)]


def undiagnosed(found: Sequence[Trained], recipe: Recipe) -> list[str]:
    """Name the laws of the recipe that are not diagnosed."""
    known = {each.method for each in found}
    gone = [name for name in _planned(recipe) if name not in known]
    return [f"not diagnosed: {', '.join(gone)}"] if gone else []


def unplayed(late: Sequence[Row], recipe: Recipe) -> list[str]:
    """Name the laws of the recipe that were not played to their end, and what the others share."""
    compared, lines = whole(late), []
    if gone := [name for name in _planned(recipe) if name not in compared]:
        lines.append(f"not in the closed-loop columns: {', '.join(gone)}")
    counts = {name: sum(row.method == name for row in late) for name in compared}
    if any(counts[name] > len(own) for name, own in compared.items()):
        shown = len(next(iter(compared.values())))
        lines.append(f"closed-loop columns: the {shown} settings that all these laws have played")
    return lines


def unmatched(late: Sequence[Row], recipe: Recipe) -> list[str]:
    """Say of paired effects which laws have no closed-loop rows, or fewer than others."""
    counts = {name: sum(row.method == name for row in late) for name in _planned(recipe)}
    lines = []
    if gone := [name for name, count in counts.items() if not count]:
        lines.append(f"no closed-loop rows of {', '.join(gone)}")
    if len({count for count in counts.values() if count}) > 1:
        lines.append(
            "laws have played different numbers of settings: closed-loop endpoints of an arm rest "
            "on those that it and Decision only of the same seed have, counted under pairs, and so "
            "does the value of Decision only beside it"
        )
    return lines


def partial(
    found: Sequence[Trained], played: Mapping[str, Sequence[Row]]
) -> tuple[set[str], list[str]]:
    """Return the arms whose means are over fewer training seeds than others', and say which."""
    kinds = {
        "structure": [(each.arm, each.seed) for each in found],
        "closed loop": [own for name in played if (own := arm_of(name)) is not None],
    }
    fewer: dict[str, None] = {}
    parts = []
    for kind, laws in kinds.items():
        for arm, seeds in _lacking(laws).items():
            fewer[arm] = None
            numbers = ", ".join(map(str, seeds))
            parts.append(f"{TITLES[arm]} {kind}: seed{'s' if len(seeds) > 1 else ''} {numbers}")
    text = "over fewer training seeds than other arms, so not to be read beside their means"
    lines = [f"{DAGGER} {text}: {'; '.join(parts)}; the paired effects compare the same seeds"]
    return set(fewer), lines if parts else []


def _lacking(laws: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the seeds of every arm that lacks some which others have; of absent arms nothing."""
    seeds: dict[str, set[int]] = {}
    for arm, seed in laws:
        seeds.setdefault(arm, set()).add(seed)
    every = set().union(*seeds.values())
    return {arm: sorted(seeds[arm]) for arm in ARMS if arm in seeds and seeds[arm] != every}


def short(late: Sequence[Row]) -> tuple[set[str], list[str]]:
    """Return the arms that lack episodes which others have, laws pooled, and say how many."""
    units: dict[str, set[tuple[int, Unit]]] = {}
    for row in late:
        if (own := arm_of(row.method)) is not None:
            units.setdefault(own[0], set()).add((own[1], unit(row)))
    every = set().union(*units.values())
    fewer = [arm for arm in ARMS if arm in units and units[arm] != every]
    counts = "; ".join(f"{TITLES[arm]} {len(units[arm]):,} of {len(every):,}" for arm in fewer)
    text = "pooled over fewer episodes than other arms, so not to be read beside them"
    return set(fewer), [f"{DAGGER} {text}: {counts}"] if fewer else []
