"""Small hand-made views, and the views of real episodes, to try laws on."""

from __future__ import annotations

from functools import cache

from waggle import plugins
from waggle.core.protocols import Case
from waggle.core.schema import (
    ClaimRow,
    Commitment,
    Contract,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.runtime.replay import view_of
from waggle.testing.episodes import play

CONTRACT = Contract("unknown/task", "Do well.", ("GO", "WAIT"))


def view(
    *,
    ports: dict[str, int] | list[Port] | None = None,
    traces: tuple[Trace, ...] = (),
    evidence: tuple[Evidence, ...] = (),
    ready: tuple[str, ...] = (),
    coverage: int | None = None,
    held: Commitment | None = None,
    proposal: Proposal | None = None,
    contract: Contract = CONTRACT,
    claims: tuple[ClaimRow, ...] = (),
) -> View:
    """Return a view; ports are given as handle -> lot, or as rows."""
    lots = {"ha": 3, "hb": 7} if ports is None else ports
    rows = [Port(h, lot) for h, lot in lots.items()] if isinstance(lots, dict) else lots
    private = Private({}, evidence, ready, coverage, tuple(rows), claims)
    return View(contract, private, proposal or Proposal("GO"), traces, held, 3)


@cache
def episode_views(substrate: str = "beacon", task: str = "beacon", n: int = 12) -> list[View]:
    """Return the views of two short episodes with late counterevidence."""
    found = []
    for law in ("heuristic", "random-legal"):
        case = Case(substrate, task, n, 10_001, rounds=16, shock=True)
        record = play(plugins.get_substrate(substrate), plugins.get_law(law), case)
        found += [view_of(record.header, u) for entry in record.rounds for u in entry.updates]
    return found
