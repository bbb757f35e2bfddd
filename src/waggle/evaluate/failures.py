"""Decide whether an episode counts as failed because calls of its law or workers failed.

A node whose call fails keeps its private proposal, so an episode with a dead endpoint still ends
with a score: that of private proposals. If the share of failed calls exceeds a limit, 20 % unless
the law sets another, the episode counts as failed. Its row has no score, every report names it, and
the next `waggle eval` plays it again.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.protocols import Law

MAX_FAILED = 0.2
"""Share of failed calls above which an episode counts as failed, unless its law sets another."""


def share_failed(counters: Mapping[str, int], whose: str = "") -> float:
    """Return the share of an episode's calls that failed: of its law, or of its workers."""
    failed = counters.get(f"{whose}failures", 0)
    return failed / max(1, failed, counters.get(f"{whose}calls", 0))


def why_failed(law: Law | None, counters: Mapping[str, int]) -> str:
    """Return in one line why an episode counts as failed; empty if it does not.

    The law that played it, if given, provides its limit and the last error.
    """
    if share_failed(counters, "worker.") > MAX_FAILED:
        return (
            f"{counters['worker.failures']:,} of {counters['worker.calls']:,} calls of private "
            f"workers failed, over the limit of {MAX_FAILED:.0%}"
        )
    limit = getattr(law, "max_failed", MAX_FAILED)
    if share_failed(counters) <= limit:
        return ""
    last = getattr(law, "trouble", "")
    return (
        f"{counters['failures']:,} of {counters.get('calls', 0):,} calls failed, over the limit of "
        f"{limit:.0%}" + (f"; the last: {last}" if last else "")
    )
