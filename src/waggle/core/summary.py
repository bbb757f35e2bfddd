"""Identifier-free summaries: rho(d) of a decision and m(view) of a local field.

"Anonymous-orbit construction" defines the twelve factors of rho, each with an explicit null class;
"Sequential transition collection" defines m: four histograms, readiness and commitment. Both are
invariant under the orbit of the view, and their width does not depend on the population.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from waggle.core.modes import Mode, mode
from waggle.core.relations import clears, is_fresh, is_verified
from waggle.core.schema import BROADCAST, MAX_BIN, MAX_TTL, WAIT, Commitment, Decision, Trace, View

_BINS = ("null", *map(str, range(MAX_BIN + 1)))
_LIVES = ("null", *map(str, range(1, MAX_TTL + 1)))

FACTORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "task_action": ("null", "proposal", "other", "channel", "answer", "wait"),
        "intent": ("null", "PRIVATE", "FIELD", "WAIT"),
        "semantic_act": ("null", *(m.value for m in Mode)),
        "communication_act": ("null", "fresh", "relay", "challenge", "unverified"),
        "claim_source": ("null", "evidence", "trace", "both", "other"),
        "channel_scope": ("null", "source", "other", "several", "all"),
        "novelty": _BINS,
        "support": _BINS,
        "conflict": _BINS,
        "ttl": _LIVES,
        "commitment_action": ("null", "form", "renew", "clear", "replace"),
        "confidence": _BINS,
    }
)
"""The classes of every factor of rho; the first one is the null class."""


class Rho(NamedTuple):
    """The identifier-free decision summary: one class of each factor."""

    task_action: str
    intent: str
    semantic_act: str
    communication_act: str
    claim_source: str
    channel_scope: str
    novelty: str
    support: str
    conflict: str
    ttl: str
    commitment_action: str
    confidence: str

    def indices(self) -> tuple[int, ...]:
        """Return the class indices, for a factorized head."""
        return tuple(FACTORS[name].index(self[i]) for i, name in enumerate(self._fields))


def rho(view: View, decision: Decision) -> Rho:
    """Summarize an admitted decision on its view, without any name.

    If there are several deposits, the summary describes the strongest, compared by numeric fields
    in schema order, so the choice does not depend on names.
    """
    deposits = decision.deposits
    deposit = max(deposits, key=_strength, default=None)
    commit = decision.commit
    return Rho(
        _action_class(view, decision),
        decision.execution_intent or "null",
        mode(view, decision).value,
        _communication(view, deposit),
        _source(view, deposit or commit),
        _scope(view, deposits),
        *_bins(deposit),
        _commitment_action(view, decision),
        "null" if commit is None else str(commit.confidence_bin),
    )


def _strength(deposit: Trace) -> tuple[int, int, int, int]:
    return (deposit.novelty, deposit.support, deposit.conflict, deposit.ttl)


def _bins(deposit: Trace | None) -> tuple[str, str, str, str]:
    if deposit is None:
        return ("null", "null", "null", "null")
    novelty, support, conflict, ttl = map(str, _strength(deposit))
    return (novelty, support, conflict, ttl)


def _action_class(view: View, decision: Decision) -> str:
    action = decision.task_action
    if action == WAIT:
        return "wait"
    if action == view.contract.response:
        return "answer"
    if action == view.proposal.action:
        return "proposal"
    return "other" if action in view.contract.actions else "channel"


def _communication(view: View, deposit: Trace | None) -> str:
    if deposit is None:
        return "null"
    if deposit.conflict > 0:
        return "challenge" if is_verified(view, deposit.claim) else "unverified"
    return "fresh" if is_fresh(view, deposit) else "relay"


def _source(view: View, record: Trace | Commitment | None) -> str:
    """Return where the view holds the claim of the deposit, or else of the commitment."""
    if record is None:
        return "null"
    claim = record.claim
    own = any(row.claim == claim for row in view.private.evidence)
    heard = any(trace.claim == claim for trace in view.traces)
    if own:
        return "both" if heard else "evidence"
    return "trace" if heard else "other"


def _scope(view: View, deposits: tuple[Trace, ...]) -> str:
    """Return whether writes go to a source of their claim, elsewhere, or to several channels."""
    if not deposits:
        return "null"
    targets = {d.channel for d in deposits}
    if BROADCAST in targets or (
        len(targets) > 1 and targets >= {port.channel for port in view.private.channels}
    ):
        return "all"
    if len(targets) > 1:
        return "several"
    first = deposits[0]
    back = any(t.channel == first.channel and t.claim == first.claim for t in view.traces)
    return "source" if back else "other"


def _commitment_action(view: View, decision: Decision) -> str:
    commit, held = decision.commit, view.commitment
    cleared = clears(view, decision)
    if commit is None:
        return "clear" if cleared else "null"
    if held is None:
        return "form"
    return "renew" if commit.claim == held.claim else "replace"


class Field(NamedTuple):
    """m(view): the identifier-free summary of the local coordination field.

    The first entry of each histogram is the null class; histograms sum to one.
    """

    novelty: tuple[float, ...]
    support: tuple[float, ...]
    conflict: tuple[float, ...]
    ttl: tuple[float, ...]
    ready: int
    """0 not ready, 1 ready."""
    commitment: int
    """0 empty, 1 to 5 for confidence 0 to 4."""


def field(view: View) -> Field:
    """Summarize the local field of a view ("Anticipating the local coordination field")."""
    traces, held = view.traces, view.commitment
    return Field(
        _histogram((t.novelty for t in traces), MAX_BIN),
        _histogram((t.support for t in traces), MAX_BIN),
        _histogram((t.conflict for t in traces), MAX_BIN),
        _histogram((t.ttl for t in traces), MAX_TTL),
        int(bool(view.private.ready)),
        0 if held is None else held.confidence_bin + 1,
    )


def _histogram(values: Iterable[int], top: int) -> tuple[float, ...]:
    """Return the normalized histogram over (null, 0..top); without values, all mass is on null."""
    counts = [0] * (top + 2)
    for value in values:
        counts[value + 1] += 1
    total = sum(counts)
    if total == 0:
        return (1.0, *([0.0] * (top + 1)))
    return tuple(count / total for count in counts)
