"""Templates of admissible records: every legal decision of a view, by shape and numeric ranges.

The law `random-legal` samples from the templates, and the grammar of constrained decoding contains
them all. They cover every admissible decision with at most one deposit, and the same write on every
handle if the contract allows that many deposits. Other combinations of several deposits are
admissible but not listed, which keeps the family bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from waggle.core.options import ActOption, Commit, Range, Write, acts, social, waits
from waggle.core.schema import Commitment, Decision, Trace, View
from waggle.core.seeds import mix


class Template(NamedTuple):
    """One shape of admissible decision: an act, a write to some channels, a commitment."""

    act: ActOption
    channels: tuple[str, ...] = ()
    """The channels of the write; all get the same bins."""
    write: Write | None = None
    commit: Commit | None = None

    def decision(self, entropy: int) -> Decision:
        """Draw the bins of one decision of this shape. A free response is left empty."""
        deposits: tuple[Trace, ...] = ()
        if self.write is not None:
            w = self.write
            ranges = (w.novelty, w.support, w.conflict, w.ttl)
            n, s, x, ttl = (_draw(r, mix(entropy, i)) for i, r in enumerate(ranges))
            deposits = tuple(Trace(c, w.claim, n, s, x, ttl, w.direction) for c in self.channels)
        commit = None
        if self.commit is not None:
            commit = Commitment(self.commit.claim, _draw(self.commit.confidence, mix(entropy, 4)))
        response = "" if self.act.free else self.act.response
        return Decision(self.act.action, response, deposits, commit, self.act.intent)


def _draw(bins: Range, entropy: int) -> int:
    return bins.low + entropy % (bins.high - bins.low + 1)


class _Social(NamedTuple):
    """A write with its possible channels and commitments, to accompany an act."""

    write: Write | None
    targets: tuple[tuple[str, ...], ...]
    commits: tuple[Commit | None, ...]

    def __len__(self) -> int:
        return len(self.targets) * len(self.commits)


class Templates:
    """The templates of a view, in the order of its rows; counted eagerly, built lazily."""

    def __init__(self, view: View, free: bool = True) -> None:
        """Enumerate a view; without `free`, only with responses that the view itself offers."""
        self._acts = [act for act in acts(view) if free or not act.free]
        self._waits = waits(view)
        self._social = _socials(view)
        self._ends = list(accumulate(map(len, self._social)))

    def __len__(self) -> int:
        return len(self._waits) + len(self._acts) * self._ends[-1]

    def __getitem__(self, index: int) -> Template:
        if not 0 <= index < len(self):
            raise IndexError(index)
        if index < len(self._waits):
            return Template(self._waits[index])
        which, rest = divmod(index - len(self._waits), self._ends[-1])
        at = bisect_right(self._ends, rest)
        social = self._social[at]
        target, commit = divmod(rest - (self._ends[at] - len(social)), len(social.commits))
        return Template(
            self._acts[which], social.targets[target], social.write, social.commits[commit]
        )


def _socials(view: View) -> list[_Social]:
    allowed = social(view)
    targets: tuple[tuple[str, ...], ...] = tuple((channel,) for channel in allowed.channels)
    if allowed.fan_out:
        targets = (*targets, allowed.fan_out)
    found = [_Social(None, ((),), (None, *allowed.commits))]
    found += [_Social(write, targets, (None, *commits)) for write, commits in allowed.writes]
    return found


def sample(view: View, entropy: int) -> Decision:
    """Draw an admissible decision: uniform over templates, then over their ranges.

    An answer is drawn only if the private proposal offers its text.
    """
    found = Templates(view, free=False)
    return found[mix(entropy, 0) % len(found)].decision(mix(entropy, 1))
