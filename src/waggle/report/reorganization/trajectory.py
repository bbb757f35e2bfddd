"""One episode described round by round (App. "Representative late-conflict trajectory").

The episode is chosen by a fixed rule: among the reference method's recovered Pursuit settings at
the smallest population, the one with the median latency.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.core.errors import ConfigError
from waggle.evaluate.plan import Recipe
from waggle.evaluate.reorganization import Course, takeover
from waggle.evaluate.rows import Row
from waggle.report.provenance import provenance
from waggle.report.reorganization.tables import NEW
from waggle.report.rows import Rows, cell_of, label, of, reference
from waggle.report.tables import Table

_BEFORE = 3
"""Rounds shown before the injection; all rounds after it are shown, since the end decides."""


def representative(rows: Rows, recipe: Recipe) -> Row:
    """Return the representative episode with late counterevidence; raise if there are none."""
    late = [row for row in rows if row.course]
    if not late:
        raise ConfigError("no episode with late counterevidence to tell; set `shock = true`")
    own = of(late, reference(late, recipe))
    own = [row for row in own if row.task == "pursuit"] or own
    own = [row for row in own if row.n == min(r.n for r in own)]
    good = [row for row in own if row.metrics.get("recovery") == 1.0] or own
    ranked = sorted(good, key=lambda row: (row.metrics.get("resynthesis_latency") or 0.0, row.seed))
    return ranked[(len(ranked) - 1) // 2]


def trajectory(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate the representative episode, one row per round, with a description in words."""
    row = representative(rows, recipe)
    course, start = row.course, int(row.course["injection"][0])
    rounds = range(max(0, start - _BEFORE), len(course["old"]))
    columns = (
        "round", "old claim", "new claim", "none", "challenges", "reopened", "syntheses",
        "field mass", "stale mass", "messages",
    )  # fmt: skip
    who = label(recipe, row.method)
    notes = (
        " ".join(sentences(row)),
        "chosen by rule: of the recovered settings at the smallest population (Pursuit where there "
        "is some), the one of median latency",
        "rounds from the injection; shares of agents; challenges, reopened and syntheses: how many "
        "agents, whatever the claim; field and stale mass and delivered messages: per agent",
        NEW,
        *provenance([row], recipe),
    )
    return Table(
        f"A representative reorganization: {who}, {cell_of(row)}, seed {row.seed}",
        columns,
        tuple(_line(course, k, start, row.n) for k in rounds),
        notes,
    )


def _line(course: Course, k: int, start: int, n: int) -> tuple[str, ...]:
    shares = (f"{100 * course[name][k]:.0f} %" for name in ("old", "new", "none"))
    counts = (f"{course[name][k] * n:.0f}" for name in ("challenge", "reopened", "synthesize"))
    masses = (f"{course[name][k]:.2f}" for name in ("mass", "stale", "delivered"))
    return (f"{k - start:+d}", *shares, *counts, *masses)


def sentences(row: Row) -> list[str]:
    """Describe the course of an episode in sentences, with rounds relative to the injection."""
    course, start = row.course, int(row.course["injection"][0])
    old, new = course["old"], course["new"]
    before = old[start - 1] if start else 0.0
    busiest, lead = _peak(course["challenge"], start), takeover(course)
    latency = row.metrics.get("resynthesis_latency")
    both = [a + b for a, b in zip(course["challenge"], course["synthesize"], strict=True)]
    peaks = (("Field mass", _peak(course["mass"], start)),
             ("Activity of both kinds", _peak(both, start)))  # fmt: skip
    verdict = "recovered" if row.metrics.get("recovery") == 1.0 else "did not recover"
    return [
        f"At round {start} the counterevidence comes; {100 * before:.0f} % hold the old claim.",
        "Nobody challenges it." if busiest is None else f"Challenge peaks at {busiest:+d}.",
        "The new claim never leads." if lead is None
        else f"The new claim first leads at {int(lead):+d}{_lost(old, new, int(lead), start)}.",
        *([] if latency is None
          else [f"The first replacement takes {latency:.1f} round-equivalents."]),
        *(f"{name} peaks at {top:+d}." for name, top in peaks if top is not None),
        f"At the end {100 * old[-1]:.0f} % hold the old claim, {100 * new[-1]:.0f} % the new one.",
        f"The swarm {verdict}.",
    ]  # fmt: skip


def _lost(old: Sequence[float], new: Sequence[float], lead: int, start: int) -> str:
    """Describe when a lead is lost again, and whether it is regained for good."""
    behind = [k for k in range(start + lead, len(old)) if new[k] <= old[k]]
    if not behind:
        return " and keeps the lead"
    back = behind[-1] + 1
    text = f", loses the lead at {behind[0] - start:+d}"
    return text if back == len(old) else f"{text} and has it for good from {back - start:+d}"


def _peak(series: Sequence[float], start: int) -> int | None:
    """Return the rounds from the injection to a series' maximum; None if it is zero throughout."""
    later = list(series[start:])
    return later.index(max(later)) if later and max(later) > 0 else None
