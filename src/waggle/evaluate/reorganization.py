"""The course of an episode around its late counterevidence (App. "Mechanism Measurements").

`course` is a pure function of a record and goes into the row of every shocked episode, so that
figures and process tables are drawn from rows as well as from records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from waggle.core.record import EpisodeRecord, RoundRecord
from waggle.evaluate.shocks import activity, committed_before, reopened_after, shares

Course: TypeAlias = dict[str, list[float]]

_DIGITS = 4
"""Digits a row keeps of a series; a hundred rounds then take a few kilobytes."""


def course(episode: EpisodeRecord) -> Course:
    """Return the episode round by round: shares, activity, field mass and traffic per agent.

    `injection` holds the one round of the counterevidence, `holders` the share of agents that held
    a refuted claim then, `cleared` the share of those among all agents that reopened through
    verified conflict. Empty without an injection.
    """
    shock, n = episode.shock, episode.header.case.n
    if shock is None:
        return {}
    held = shares(episode)
    busy = activity(episode)
    refuted = frozenset(shock.old_claims)
    masses = [
        (
            sum(m.novelty + m.support for m in entry.field.values()),
            sum(m.novelty + m.support for c, m in entry.field.items() if c in refuted),
            sum(m.conflict for m in entry.field.values()),
        )
        for entry in episode.rounds
    ]
    columns: dict[str, Iterable[float]] = {
        "old": [s.old for s in held],
        "new": [s.new for s in held],
        "none": [s.none for s in held],
        "challenge": [b[1] / n for b in busy],
        "synthesize": [b[2] / n for b in busy],
        "reopened": [_reopened(entry) / n for entry in episode.rounds],
        "mass": [m[0] / n for m in masses],
        "stale": [m[1] / n for m in masses],
        "conflict": [m[2] / n for m in masses],
        "attempted": [entry.attempted / n for entry in episode.rounds],
        "delivered": [entry.delivered / n for entry in episode.rounds],
    }
    made = {name: [round(v, _DIGITS) for v in column] for name, column in columns.items()}
    holders = committed_before(episode)
    cleared = holders & reopened_after(episode)
    return {
        "injection": [float(shock.round)],
        "holders": [round(len(holders) / n, _DIGITS)],
        "cleared": [round(len(cleared) / n, _DIGITS)],
        **made,
    }


_SERIES = ("old", "new", "none", "challenge", "synthesize", "reopened", "mass", "stale", "conflict",
           "attempted", "delivered")  # fmt: skip


def sound(course: Mapping[str, Sequence[float]]) -> bool:
    """Whether a course that was read has everything that tables and figures take from one."""
    single = [course.get(name, ()) for name in ("injection", "holders", "cleared")]
    series = [course.get(name, ()) for name in _SERIES]
    rounds = len(series[0])
    fits = all(len(one) == 1 for one in single) and all(len(one) == rounds for one in series)
    return fits and single[0][0] in range(rounds)


def _reopened(entry: RoundRecord) -> int:
    return sum(update.reopened is not None for update in entry.updates)


def after(course: Mapping[str, Sequence[float]], name: str) -> float | None:
    """Return the sum of a series from the injection on, None where there was none."""
    if name not in course:
        return None
    return float(sum(course[name][int(course["injection"][0]) :]))


def takeover(course: Mapping[str, Sequence[float]]) -> float | None:
    """Return the rounds from the injection until the new claim first leads; None if it never does.

    Unlike the first replacement, it waits for the swarm, so it feels how long the old field lasts.
    """
    if "injection" not in course:
        return None
    start = int(course["injection"][0])
    pairs = zip(course["old"][start:], course["new"][start:], strict=True)
    return next((float(k) for k, (old, new) in enumerate(pairs) if new > old), None)


def remaining(course: Mapping[str, Sequence[float]], rounds: int) -> float | None:
    """Return the old claim's share so many rounds after the injection, or at the end before."""
    if "injection" not in course:
        return None
    old = course["old"]
    return float(old[min(int(course["injection"][0]) + rounds, len(old) - 1)])


def around(
    courses: Iterable[Mapping[str, Sequence[float]]], name: str, first: int, last: int
) -> list[float | None]:
    """Return the mean of a series at rounds relative to the injection, over those that have it."""
    sums: dict[int, list[float]] = defaultdict(list)
    for each in courses:
        if name in each:
            start = int(each["injection"][0])
            for place, value in enumerate(each[name]):
                if first <= place - start <= last:
                    sums[place - start].append(value)
    return [
        sum(sums[k]) / len(sums[k]) if sums.get(k) else None for k in range(first, last + 1)
    ]  # fmt: skip
