"""A hand-made view that most single-case tests start from, and the symmetric ones that are hard."""

from __future__ import annotations

from waggle.core.schema import (
    ClaimRow,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)

CONTRACT = Contract(
    "silo/III-26", "Answer together.", ("WAIT", "GO", "MATCH:@channel", "TRACK:@claim", "ANSWER"),
    deposits=2, response="ANSWER",
)  # fmt: skip
VIEW = View(
    CONTRACT,
    Private(
        {"window": ["..P..", "..A.."], "cell": {"energy": 3}},
        (Evidence("z1", 4, 3, 0, "N"), Evidence("z3", 4, 4, 2)),
        ("z1",),
        2,
        (Port("ha", 3, {"offer": 2}), Port("hb", 7, {"offer": 1}), Port("hc", 7)),
        (ClaimRow("z1", {"here": 1}),),
    ),
    Proposal("GO", "42", "z1"),
    (
        Trace("ha", "z2", 3, 2, 0, 5, "E"),
        Trace("hb", "z2", 1, 2, 1, 1),
        Trace("hc", "z4", 2, 1, 3, 4),
    ),
    Commitment("z3", 2),
    3,
)
"""Holds z3, which its own evidence contradicts; z1 is ready; z2 and z4 are hearsay."""
GO = Decision("GO", None, (), None)
FRESH = Trace("ha", "z1", 4, 3, 0, 8, "N")
RELAY = Trace("hb", "z2", 3, 2, 0, 4, "E")
CHALLENGE = Trace("hc", "z3", 4, 4, 2, 8)
"""Deposits that are admissible on the view."""


def symmetric(handles: int, links: list[tuple[int, int]]) -> View:
    """Build a view whose rows differ in nothing but who is linked to what."""
    contract = Contract("beacon", "", ("WAIT",))
    ports = tuple(Port(f"h{i}", 0) for i in range(handles))
    traces = tuple(Trace(f"h{a}", f"z{b}", 1, 1, 0, 3) for a, b in links)
    return View(contract, Private({}, channels=ports), Proposal("WAIT"), traces, None, 2)


SYMMETRIC = {
    "24 handles": symmetric(24, []),
    "a, a, b, b": symmetric(4, [(0, 0), (1, 0), (2, 1), (3, 1)]),
    "12 pairs": symmetric(12, [(i, i) for i in range(12)]),
    "one cycle": symmetric(6, [(i, (i + k) % 6) for i in range(6) for k in (0, 1)]),
    "two cycles": symmetric(
        6, [(i, (i + k) % 3 + 3 * (i // 3)) for i in range(6) for k in (0, 1)]
    ),
    "3 by 4": symmetric(3, [(i, j) for i in range(3) for j in range(4)]),
    "cube": symmetric(4, [(i, j) for i in range(4) for j in range(4) if i != j]),
    "cycle and pairs": symmetric(
        8, [(i, (i + k) % 4) for i in range(4) for k in (0, 1)] + [(i, i) for i in range(4, 8)]
    ),
    "twins on one claim": symmetric(12, [(i, i % 2) for i in range(12)]),
}  # fmt: skip
