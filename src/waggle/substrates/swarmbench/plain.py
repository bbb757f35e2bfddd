"""What the tasks without sites share: claims that name a kind and perhaps a direction.

Evidence is what the window shows now, so nothing is remembered of a message beyond its trace. A
claim is refuted where the window shows its opposite.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from waggle.core.protocols import Local, Shock, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench.scene import Scene


class Plain:
    """A task whose claims are read off the window."""

    refresh: int | None = 12

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def shown(self, node: int) -> str | None:
        """Return the claim that the node's window supports now."""
        raise NotImplementedError

    def opposes(self, shown: str, claim: str) -> bool:
        """Whether a window that supports one claim refutes another."""
        return shown != claim

    def observation(self, node: int) -> Mapping[str, Json]:
        """Nothing beyond the window."""
        return {}

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Nothing about contacts."""
        return {}

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """The claim in sight, and verified conflict with claims that reached the node."""
        shown = self.shown(node)
        if shown is None:
            return ()
        rows = [Evidence(shown, MAX_BIN, MAX_BIN, 0, direction_of(shown))]
        claims = dict.fromkeys(trace.claim for trace in local.traces)
        if local.commitment is not None:
            claims[local.commitment] = None
        rows += [Evidence(c, MAX_BIN, 0, MAX_BIN) for c in claims if self.opposes(shown, c)]
        return tuple(rows)

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """The kind of every claim in reach."""
        claims = dict.fromkeys(trace.claim for trace in local.traces)
        shown = self.shown(node)
        for claim in (shown, local.commitment):
            if claim is not None:
                claims[claim] = None
        return {claim: {"kind": claim.replace(":", " ")} for claim in claims}

    def says(self, write: Write) -> Hashable:
        """A claim says one thing only."""
        return None

    def payload(self, write: Write) -> object:
        """Nothing travels along."""
        return None

    def receive(self, write: Write, payload: object) -> Write:
        """Directions of these claims are the same for writer and reader."""
        return write

    def followed(self, local: Local) -> str | None:
        """Return the committed claim, else the one that incident traces support most."""
        if local.commitment is not None:
            return local.commitment
        total: dict[str, int] = {}
        for trace in local.traces:
            total[trace.claim] = total.get(trace.claim, 0) + trace.support - trace.conflict
        return max(total, key=lambda claim: (total[claim], claim), default=None)

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Late counterevidence is defined for Pursuit and Foraging only."""
        return None


def direction_of(claim: str) -> str | None:
    """Return the compass point a claim names, or None."""
    point = claim.partition(":")[2]
    return point if point and point.isupper() else None
