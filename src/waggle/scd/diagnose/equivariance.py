"""Deployed equivariance: whether the decoder decides alike on two renderings of one situation.

See the paper's "Deployed equivariance diagnostics". A view and a non-identity image of it are
decoded greedily, and the image's record is mapped back. Summaries and decoded records are compared
before admission, admitted records after it; a law whose output cannot be parsed agrees only after
it, on the fallback. Records are compared twice: strictly, in full, and modulo the view's
stabiliser, which treats records that the view cannot distinguish as equal. The share of views with
ties is reported with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.core import orbit
from waggle.core.admit import project, violations
from waggle.core.decode import parse
from waggle.core.naming import Renaming
from waggle.core.order import Order, canonical
from waggle.core.protocols import Decode, Law, Request
from waggle.core.schema import Decision, View
from waggle.core.seeds import derive
from waggle.core.summary import rho

BATCH = 2_048
"""Number of views per call of a law, which splits them into batches of its choice."""


class Agreement(NamedTuple):
    """The result of comparing a law's decisions on one view and its image."""

    tie: bool
    summary: bool
    decoded: bool
    admitted: bool
    decoded_strict: bool
    admitted_strict: bool


class Equivariance(NamedTuple):
    """Agreement rates over a set of views; unparsable outputs agree only after admission."""

    views: int
    ties: float
    """Share of views with a non-trivial stabiliser."""
    summary: float
    decoded: float
    """Modulo ties, like `admitted`."""
    admitted: float
    decoded_strict: float
    """On complete records, like `admitted_strict`."""
    admitted_strict: float


class _Answer(NamedTuple):
    decoded: Decision | None
    admitted: Decision


def rates(each: Sequence[Agreement]) -> Equivariance:
    """Return the agreement rates over all views."""
    size = max(1, len(each))
    return Equivariance(len(each), *(sum(column) / size for column in zip(*each, strict=True)))


def agreements(
    law: Law, views: Sequence[View], order: Order, seed: int = 0
) -> list[Agreement]:  # fmt: skip
    """Decode every view and one image of it, in a canon order; compare view by view."""
    elements = [orbit.sample(v, derive(seed, "equivariance", i)) for i, v in enumerate(views)]
    images = [g.view(v) for g, v in zip(elements, views, strict=True)]
    # One call for both: larger calls let a law batch better.
    found = answers(law, [*views, *images], order)
    pairs = zip(views, elements, found[: len(views)], found[len(views) :], strict=True)
    return [_agreement(view, g, one, other) for view, g, one, other in pairs]


def _agreement(view: View, g: orbit.Orbit, one: _Answer, other: _Answer) -> Agreement:
    back = g.inverse().decision
    summary = decoded = strict = False
    if one.decoded is not None and other.decoded is not None:
        theirs = back(other.decoded)
        summary = rho(view, one.decoded) == rho(view, theirs)
        decoded = orbit.equal_modulo_stabiliser(view, one.decoded, theirs)
        strict = one.decoded == theirs
    admitted = back(other.admitted)
    return Agreement(
        not orbit.stabiliser_trivial(view), summary, decoded,
        orbit.equal_modulo_stabiliser(view, one.admitted, admitted),
        strict, one.admitted == admitted,
    )  # fmt: skip


def answers(law: Law, views: Sequence[View], order: Order) -> list[_Answer]:
    """Decode views in a canon order; records come back in the names of the views."""
    shown: list[tuple[View, Renaming | None]] = [
        (v, None) if order == "shuffled" else canonical(v) for v in views
    ]
    found: list[_Answer] = []
    for start in range(0, len(shown), BATCH):
        some = shown[start : start + BATCH]
        decodes = law.decide([Request(view) for view, _ in some])
        found += [_answer(v, n, d) for (v, n), d in zip(some, decodes, strict=True)]
    return found


def _answer(view: View, naming: Renaming | None, decode: Decode) -> _Answer:
    """Parse a decode, and apply the admission map without a second call of the law."""
    decoded = salvaged = decode.output if isinstance(decode.output, Decision) else None
    if isinstance(decode.output, str):
        read = parse(decode.output)
        decoded, salvaged = read.decision, read.decision or read.salvage
    kept = salvaged or Decision("", None, (), None)
    admitted = project(view, kept) if violations(view, kept) else kept
    if naming is None:
        return _Answer(decoded, admitted)
    back = naming.inverse().decision
    return _Answer(None if decoded is None else back(decoded), back(admitted))
