"""Reorganization after late counterevidence: metrics of a record, and its course round by round.

The metrics (App. "Primary Factorial") are pure functions of a record and None without an injection.
Recovery requires the whole loop: nodes committed to the refuted claim reopen through verified
conflict, a replacement is synthesized, and the new claim ends ahead of the old one. Event recovery
follows the paper's wording (at least one node reopens). Outcome recovery depends on shares alone,
so that no ablation fails it by definition.

`course` goes into the row of every episode with an injection, so that process tables and figures
(App. "Mechanism Measurements") need no record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import NamedTuple, TypeAlias

from waggle.core.record import EpisodeRecord, RoundRecord, UpdateRecord
from waggle.plugins import metric

Course: TypeAlias = Mapping[str, Sequence[float]]
_DIGITS = 4
"""Decimal digits of a series in a row; a hundred rounds then take a few kilobytes."""
_SINGLE = ("injection", "holders", "cleared")
_SERIES = ("old", "new", "none", "challenge", "synthesize", "reopened", "mass", "stale", "conflict",
           "attempted", "delivered")  # fmt: skip


class Shares(NamedTuple):
    """Shares of the swarm that hold a refuted, a new and no claim after one round."""

    round: int
    old: float
    new: float
    none: float


def _is_new(episode: EpisodeRecord, claim: str | None) -> bool:
    """Return whether a claim is listed as new or, if none is listed, is not refuted."""
    shock = episode.shock
    if shock is None or claim is None or claim in shock.old_claims:
        return False
    return claim in shock.new_claims if shock.new_claims else True


def shares(episode: EpisodeRecord) -> list[Shares]:
    """Return the commitment shares of refuted, new and no claim, round by round."""
    shock, n = episode.shock, episode.header.case.n
    if shock is None:
        return []
    held: dict[int, str | None] = {}
    rows = []
    for entry in episode.rounds:
        held.update({u.node: u.claim for u in entry.updates})
        claims = [claim for claim in held.values() if claim is not None]
        old = sum(claim in shock.old_claims for claim in claims)
        new = sum(_is_new(episode, claim) for claim in claims)
        rows.append(Shares(entry.round, old / n, new / n, 1 - len(claims) / n))
    return rows


def _after(episode: EpisodeRecord) -> tuple[RoundRecord, ...]:
    """Return the rounds from the injection on; empty without an injection."""
    return () if episode.shock is None else episode.rounds[episode.shock.round :]


def committed_before(episode: EpisodeRecord) -> set[int]:
    """Return the nodes that hold a refuted claim when the counterevidence comes."""
    shock = episode.shock
    if shock is None:
        return set()
    held: dict[int, str | None] = {}
    for entry in episode.rounds[: shock.round]:
        held.update({u.node: u.claim for u in entry.updates})
    return {node for node, claim in held.items() if claim in shock.old_claims}


def reopened_after(episode: EpisodeRecord) -> set[int]:
    """Return the nodes whose verified conflict clears a refuted claim after the injection."""
    old = () if episode.shock is None else episode.shock.old_claims
    return {u.node for entry in _after(episode) for u in entry.updates if u.reopened in old}


def _synthesized(episode: EpisodeRecord, update: UpdateRecord) -> bool:
    """Return whether an update takes effect and commits to a claim of the new evidence."""
    effective = update.bottom is None and update.decision.commit is not None
    return effective and _is_new(episode, update.claim)


def _replaced(episode: EpisodeRecord) -> bool:
    return any(_synthesized(episode, u) for entry in _after(episode) for u in entry.updates)


def _new_ahead(episode: EpisodeRecord) -> bool:
    last = shares(episode)[-1]
    return last.new > last.old


@metric("recovery", unit="0 or 1")
def recovery(episode: EpisodeRecord) -> float | None:
    """Return 1 if half of the old claim's holders reopen and a replacement forms and ends ahead."""
    if episode.shock is None:
        return None
    before = committed_before(episode)
    enough = bool(before) and 2 * len(reopened_after(episode) & before) >= len(before)
    return float(enough and _replaced(episode) and _new_ahead(episode))


@metric("event_recovery", unit="0 or 1")
def event_recovery(episode: EpisodeRecord) -> float | None:
    """Return 1 if a node reopens through verified conflict and a replacement is synthesized."""
    if episode.shock is None:
        return None
    return float(bool(reopened_after(episode)) and _replaced(episode))


@metric("outcome_recovery", unit="0 or 1")
def outcome_recovery(episode: EpisodeRecord) -> float | None:
    """Return 1 if the new claim's share ends above the old one's, for any reason."""
    return None if episode.shock is None else float(_new_ahead(episode))


@metric("resynthesis_latency", better="lower", unit="round-equivalents")
def resynthesis_latency(episode: EpisodeRecord) -> float | None:
    """Return the completed local updates from injection to the first replacement, divided by N."""
    done = 0
    for entry in _after(episode):
        done += sum(update.bottom is None for update in entry.updates)
        if any(_synthesized(episode, update) for update in entry.updates):
            return done / episode.header.case.n
    return None


@metric("half_latency", better="lower", unit="rounds")
def half_latency(episode: EpisodeRecord) -> float | None:
    """Return the rounds from injection until half the swarm holds a claim of the new evidence."""
    if episode.shock is None:
        return None
    start = episode.shock.round
    found = (s.round - start for s in shares(episode) if s.round >= start and 2 * s.new >= 1)
    return next(map(float, found), None)


@metric("stale_auc", better="lower", unit="trace mass per agent x rounds")
def stale_auc(episode: EpisodeRecord) -> float | None:
    """Return the area under the trace mass that supports a refuted claim after the injection."""
    if episode.shock is None:
        return None
    return sum(_mass(entry, episode.shock.old_claims) for entry in _after(episode)) / (
        episode.header.case.n
    )


@metric("post_messages", better="lower", unit="delivered per agent")
def post_messages(episode: EpisodeRecord) -> float | None:
    """Return the messages per agent delivered from the injection on."""
    if episode.shock is None:
        return None
    return sum(entry.delivered for entry in _after(episode)) / episode.header.case.n


def _mass(entry: RoundRecord, claims: Iterable[str]) -> int:
    """Return the trace mass that supports the given claims after a round."""
    return sum(m.novelty + m.support for claim, m in entry.field.items() if claim in claims)


def activity(entry: RoundRecord, mode: str) -> int:
    """Return how many updates of a round take effect in the given mode."""
    return sum(u.bottom is None and u.mode == mode for u in entry.updates)


def course(episode: EpisodeRecord) -> Course:
    """Return the episode round by round: shares, activity, field mass and traffic per agent.

    `injection` holds the round of the counterevidence, `holders` the share of agents that hold a
    refuted claim at that time, `cleared` the share of all agents that held one and reopened through
    verified conflict. Empty without an injection.
    """
    shock, n = episode.shock, episode.header.case.n
    if shock is None:
        return {}
    rounds, held = episode.rounds, shares(episode)
    per_agent: dict[str, list[int]] = {
        "challenge": [activity(entry, "Challenge") for entry in rounds],
        "synthesize": [activity(entry, "Synthesize") for entry in rounds],
        "reopened": [sum(u.reopened is not None for u in entry.updates) for entry in rounds],
        "mass": [_mass(entry, entry.field) for entry in rounds],
        "stale": [_mass(entry, shock.old_claims) for entry in rounds],
        "conflict": [sum(m.conflict for m in entry.field.values()) for entry in rounds],
        "attempted": [entry.attempted for entry in rounds],
        "delivered": [entry.delivered for entry in rounds],
    }
    series: dict[str, list[float]] = {
        "old": [share.old for share in held],
        "new": [share.new for share in held],
        "none": [share.none for share in held],
        **{name: [count / n for count in counts] for name, counts in per_agent.items()},
    }
    holders = committed_before(episode)
    cleared = holders & reopened_after(episode)
    return {
        "injection": [float(shock.round)],
        "holders": [round(len(holders) / n, _DIGITS)],
        "cleared": [round(len(cleared) / n, _DIGITS)],
        **{name: [round(v, _DIGITS) for v in values] for name, values in series.items()},
    }


def sound(course: Course) -> bool:
    """Return whether a course has all series that tables and figures read, of matching length."""
    single = [course.get(name, ()) for name in _SINGLE]
    series = [course.get(name, ()) for name in _SERIES]
    rounds = len(series[0])
    fits = all(len(one) == 1 for one in single) and all(len(one) == rounds for one in series)
    return fits and single[0][0] in range(rounds)


def after(course: Course, name: str) -> float | None:
    """Return the sum of a series from the injection on; None if the course lacks it."""
    if name not in course:
        return None
    return fsum(course[name][int(course["injection"][0]) :])


def takeover(course: Course) -> float | None:
    """Return the rounds from the injection until the new claim first leads; None if it never does.

    Unlike the first replacement, it depends on the whole swarm and shows how long the old field
    lasts.
    """
    if "injection" not in course:
        return None
    start = int(course["injection"][0])
    pairs = zip(course["old"][start:], course["new"][start:], strict=True)
    return next((float(k) for k, (old, new) in enumerate(pairs) if new > old), None)


def remaining(course: Course, rounds: int) -> float | None:
    """Return the old claim's share after `rounds` rounds from the injection, or at the end."""
    if "injection" not in course:
        return None
    old = course["old"]
    return float(old[min(int(course["injection"][0]) + rounds, len(old) - 1)])


def around(courses: Iterable[Course], name: str, first: int, last: int) -> list[float | None]:
    """Return the mean series, over the courses that have it, by round relative to the injection."""
    values: dict[int, list[float]] = defaultdict(list)
    for each in courses:
        if name in each:
            start = int(each["injection"][0])
            for place, value in enumerate(each[name]):
                values[place - start].append(value)
    wanted = (values.get(k) for k in range(first, last + 1))
    return [fmean(found) if found else None for found in wanted]
