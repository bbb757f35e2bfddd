"""What a model card has to admit: failures of a law, and what was measured of other weights.

Everything comes from results; the only words written by hand are the notes among them. Invariant: a
law is held against others only on tasks of which both have all episodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from waggle.laws.digest import of_manifest
from waggle.report import belonging
from waggle.report.tables import number
from waggle.shipped import SOURCE, Manifest

EXPERT, GOAL = "expert", 0.95
"""The law to be measured against, and the share of its score below which a task is a failure."""


def most(run: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Return the episodes of the methods that have most of them, by task family and population."""
    found: dict[tuple[str, int], int] = defaultdict(int)
    for c in run["cells"]:
        found[c["task"], c["n"]] = max(found[c["task"], c["n"]], c["episodes"])
    return found


def own(law: Manifest, run: Mapping[str, Any]) -> list[str]:
    """Return the methods of a run that are this law."""
    return [method for method, name in run["laws"].items() if name == law.name]


def failures(law: Manifest, results: Mapping[str, Any]) -> list[str]:
    """Return what is known to go wrong: measured shortfalls first, then notes in words."""
    diagnosis = results.get("diagnosis", {})
    found = [*_invalid(diagnosis), *_unequal(diagnosis)]
    for run in results.get("runs", ()):
        found += [*_shortfalls(law, run), *_left_out(law, run)]
    found += [str(note) for note in results.get("notes", ())]
    return found or ["None measured yet: no diagnosis and no run is part of the results."]


def _invalid(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, values in found.items():
        for kind in ("synthetic", "native"):
            share = values.get(f"{kind} executable")
            if isinstance(share, float) and share < 1:
                views = values.get(f"{kind} views")
                yield f"{name}: {1 - share:.2%} of {views} {kind} views get no executable record."


def _unequal(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, values in found.items():
        for order in ("canonical", "shuffled"):
            share = values.get(f"equivariance {order} decoded")
            if isinstance(share, float) and share < 1:
                yield f"{name}: in {order} order, {share:.2%} of orbit pairs get one record."


def _shortfalls(law: Manifest, run: Mapping[str, Any]) -> Iterator[str]:
    """Name the tasks on which the law stays below the expert or below a simpler law.

    Means are of the same cases only where all episodes were played.
    """
    scores: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    every = most(run)
    for c in run["cells"]:
        if c["score"] is not None and c["episodes"] == every[c["task"], c["n"]]:
            scores[c["task"], c["n"]][c["method"]] = c["score"]
    for (task, n), by_method in scores.items():
        for name in own(law, run):
            mine = by_method.get(name)
            if mine is None:
                continue
            above = {
                method: score
                for method, score in by_method.items()
                if method != name
                and mine < (GOAL * score if run["laws"].get(method) == EXPERT else score)
            }
            if above:
                digits = _digits(mine, above.values())
                others = ", ".join(f"{m} {number(score, digits)}" for m, score in above.items())
                where = f"{run['title']}, {task}, N = {n}"
                yield f"{where}: {name} {number(mine, digits)}, below {others}."


def _left_out(law: Manifest, run: Mapping[str, Any]) -> Iterator[str]:
    """Say of how much nothing is said: a law that played little would look free of shortfalls."""
    every = most(run)
    for name in own(law, run):
        mine = {(c["task"], c["n"]): c["episodes"] for c in run["cells"] if c["method"] == name}
        fewer = sum(mine.get(cell, 0) < episodes for cell, episodes in every.items())
        if mine and fewer:
            yield (
                f"{run['title']}: {name} has fewer episodes than others in {fewer} of {len(every)} "
                "tasks and sizes, where it is held against nobody here."
            )


def _digits(mine: float, others: Iterable[float]) -> int:
    """Return how many digits show that a score is below others: three, or some more."""
    nearest = min(others)
    return next((d for d in (3, 4, 5) if number(mine, d) != number(nearest, d)), 6)


def strangers(law: Manifest, run: Mapping[str, Any]) -> list[str]:
    """Say which episodes of a run under this law's name are not known to be of its weights."""
    now, counts = of_manifest(law), run.get("weights", {})
    found = {name: belonging.doubts(counts.get(name, {}), now) for name in own(law, run)}
    return [f"{name}: {said}; this law has {now}" for name, said in found.items() if said]


def misplaced(law: Manifest, results: Mapping[str, Any]) -> list[str]:
    """Say in one line which diagnoses are not known to be of this law's weights.

    Nothing is said of results that were gathered before diagnoses named their weights.
    """
    now = of_manifest(law)
    same = {now, results.get(SOURCE) or now}
    parts = []
    for name, values in results.get("diagnosis", {}).items():
        if (weights := values.get("weights", now)) not in same:
            kind = f"other weights ({weights})" if weights else "weights that it does not name"
            parts.append(f"{name} by {kind}")
    said = f"diagnoses not known to be of this law, which has {now}: {', '.join(parts)}"
    return [said] if now and parts else []
