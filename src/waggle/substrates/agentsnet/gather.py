"""Full-information reference: gather the whole graph, then solve it the same way everywhere.

R >= D+1 holds on every budget, so each node learns all priorities and rows of the graph and all
run one greedy solver on it. This is the ceiling of spec section 10; its messages are unbounded,
so it is no organisation a bounded law could imitate.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.substrates.agentsnet.protocols import Inbox, Program

Map = Mapping[int, frozenset[int]]
"""The graph as neighbour priorities by priority."""


class FullGather(Program):
    """Flood rows (priority, neighbour priorities) on change; greedy on the gathered graph."""

    def setup(self) -> None:
        """Only the own priority is known."""
        self.rank: dict[int, int] = {}
        self.rows: dict[int, frozenset[int]] = {}
        self.changed = False

    def send(self, step: int) -> Inbox:
        """Send the priority first, then every row known, when one is new."""
        if step == 0:
            return self.to_all(self.seat.priority)
        changed, self.changed = self.changed, False
        return self.to_all(dict(self.rows)) if changed else {}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Learn the neighbours' priorities first, then merge rows."""
        known = len(self.rows)
        if step == 0:
            self.rank = dict(inbox)
            self.rows[self.seat.priority] = frozenset(inbox.values())
        else:
            for rows in inbox.values():
                self.rows |= rows
        self.changed = len(self.rows) > known

    def answer(self) -> str | int:
        """Solve the gathered graph greedily, smallest priority first."""
        own = self.seat.priority
        if self.seat.task == "coloring":
            return f"Group {_greedy_colours(self.rows)[own]}"
        if self.seat.task == "vertex_cover":
            return "No" if own in _greedy_independent(self.rows) else "Yes"
        partner = _greedy_matching(self.rows).get(own)
        return next((port for port, rank in self.rank.items() if rank == partner), "None")


def _greedy_colours(rows: Map) -> dict[int, int]:
    """Return the smallest colour no smaller neighbour has, by priority."""
    colours: dict[int, int] = {}
    for node in sorted(rows):
        used = {colours[v] for v in rows[node] if v in colours}
        colours[node] = next(c for c in range(1, len(used) + 2) if c not in used)
    return colours


def _greedy_independent(rows: Map) -> set[int]:
    """Return the maximal independent set that takes smaller priorities first."""
    chosen: set[int] = set()
    for node in sorted(rows):
        if not rows[node] & chosen:
            chosen.add(node)
    return chosen


def _greedy_matching(rows: Map) -> dict[int, int]:
    """Return the maximal matching that takes edges in order of (smaller, larger) priority."""
    partner: dict[int, int] = {}
    for node in sorted(rows):
        if node in partner:
            continue
        free = [v for v in rows[node] if v not in partner]
        if free:
            partner[node], partner[min(free)] = min(free), node
    return partner
