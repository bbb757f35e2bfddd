"""Planted bugs: each breaks one rule of the anonymous contract, and the kit must catch it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import msgspec

from waggle.core.protocols import (
    Act,
    Case,
    Decode,
    Local,
    Request,
    Sensed,
    Suggestion,
    Usage,
    Write,
)
from waggle.core.schema import Contract, Decision, Trace, View
from waggle.laws import heuristic, moves
from waggle.substrates.beacon import Beacon, BeaconWorld


class PlantedLaw:
    """A law that is the heuristic but for one bug."""

    name = "planted"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        return [Decode(self.one(request.view)) for request in requests]

    def one(self, view: View) -> Decision:
        return heuristic.decide(view)


class NameReader(PlantedLaw):
    """Sends to the channel whose name sorts last."""

    def one(self, view: View) -> Decision:
        decision = heuristic.decide(view)
        if not decision.deposits:
            return decision
        last = max(port.channel for port in view.private.channels)
        moved = msgspec.structs.replace(decision.deposits[0], channel=last)
        return msgspec.structs.replace(decision, deposits=(moved,))


class ClaimReader(PlantedLaw):
    """Works alone where the alias of the claim it would write has an even sum of letters."""

    def one(self, view: View) -> Decision:
        decision = heuristic.decide(view)
        even = any(sum(map(ord, deposit.claim)) % 2 == 0 for deposit in decision.deposits)
        return moves.act(view) if even else decision


class Amplifier(PlantedLaw):
    """Relays a trace louder than it heard it."""

    def one(self, view: View) -> Decision:
        for trace in view.traces:
            if trace.ttl > 1 and trace.support < 4 and view.private.channels:
                channel = view.private.channels[0].channel
                louder = Trace(
                    channel, trace.claim, trace.novelty, trace.support + 1, 0, trace.ttl - 1
                )
                return moves.act(view, louder)
        return heuristic.decide(view)


class LongLiver(Amplifier):
    """Relays a trace without losing a TTL step."""

    def one(self, view: View) -> Decision:
        decision = heuristic.relay(view)
        if decision is None:
            return heuristic.decide(view)
        deposit = decision.deposits[0]
        longer = msgspec.structs.replace(deposit, ttl=deposit.ttl + 1)
        return msgspec.structs.replace(decision, deposits=(longer,))


class BatchReader(PlantedLaw):
    """Lets the place in the batch decide."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        return [
            Decode(heuristic.decide(r.view) if k % 2 else moves.act(r.view))
            for k, r in enumerate(requests)
        ]


class Metered(PlantedLaw):
    """Reports as one of its costs, which may be the model's steps, what depends on the batch."""

    def __init__(self, cost: str) -> None:
        self._cost = cost

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        costs = (k * len(r.view.traces) for k, r in enumerate(requests))
        return [
            msgspec.structs.replace(decode, usage=Usage(**{"calls": 1, self._cost: cost}))
            for decode, cost in zip(super().decide(requests), costs, strict=True)
        ]


class Moody(PlantedLaw):
    """Answers every other batch by itself."""

    def __init__(self) -> None:
        self._batches = count()

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        if next(self._batches) % 2:
            return super().decide(requests)
        return [Decode(moves.act(request.view)) for request in requests]


class Dropper(PlantedLaw):
    """Loses the last request of a batch."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        return super().decide(requests)[:-1]


class PlantedWorld(BeaconWorld):
    """beacon, with room for one bug."""


class PlantedSubstrate(Beacon):
    """A substrate around a planted world."""

    name = "beacon"
    world: type[PlantedWorld] = PlantedWorld

    def open(self, case: Case, keys: Sequence[int] | None = None) -> PlantedWorld:
        options = self.options.model_validate(dict(case.options))
        return self.world(case, options, range(case.n) if keys is None else keys)


class LeakingWorld(PlantedWorld):
    """Shows each node its own index under a harmless key."""

    def sense(self, node: int, local: Local) -> Sensed:
        sensed = super().sense(node, local)
        return msgspec.structs.replace(sensed, observation={"mood": node})


class NamingWorld(PlantedWorld):
    """Shows the roster under a key that says so, deep down and in disguise."""

    def sense(self, node: int, local: Local) -> Sensed:
        sensed = super().sense(node, local)
        nested = {"a": {"b": [{"Node-IDs": "..."}]}}
        return msgspec.structs.replace(sensed, observation=nested)


class EchoWorld(PlantedWorld):
    """Lets every node hear itself."""

    def neighbours(self, node: int) -> Sequence[int]:
        return [node, *super().neighbours(node)]


class SlotWorld(PlantedWorld):
    """Lets the smallest node index decide who is forgotten."""

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        native = super().step(acts)
        self._sees.discard(min(self._scouts))
        return native


class QueueWorld(PlantedWorld):
    """Lets the order in which messages of different senders arrive decide what is heard."""

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        self._served: set[int] = set()
        return super().step(acts)

    def receive(self, write: Write, payload: object) -> Write:
        late = write.receiver in self._served
        self._served.add(write.receiver)
        return super().receive(
            msgspec.structs.replace(write, support=0) if late else write, payload
        )


class RestlessWorld(PlantedWorld):
    """Changes its state whenever it is looked at."""

    def sense(self, node: int, local: Local) -> Sensed:
        sensed = super().sense(node, local)
        self._sees ^= {node}
        return sensed


class TiringWorld(PlantedWorld):
    """Changes its state whenever a node with traces is looked at, which is never at the start."""

    def sense(self, node: int, local: Local) -> Sensed:
        sensed = super().sense(node, local)
        if local.traces:
            self._sees ^= {node}
        return sensed


class DeafWorld(PlantedWorld):
    """Opens the same world for every seed."""

    def __init__(self, case: Case, options: object, keys: Sequence[int]) -> None:
        super().__init__(msgspec.structs.replace(case, seed=1), options, keys)  # type: ignore[arg-type]


class UnseededWorld(PlantedWorld):
    """Draws from a counter that outlives the episode."""

    episodes = count()

    def __init__(self, case: Case, options: object, keys: Sequence[int]) -> None:
        drawn = msgspec.structs.replace(case, seed=case.seed + next(self.episodes))
        super().__init__(drawn, options, keys)  # type: ignore[arg-type]


class BossyWorld(PlantedWorld):
    """Proposes what its contract does not allow."""

    contract = Contract("beacon", "Watch.", ("WATCH", "WAIT"))

    def sense(self, node: int, local: Local) -> Sensed:
        return msgspec.structs.replace(super().sense(node, local), proposal=Suggestion("SHOUT"))


class GenerousWorld(PlantedWorld):
    """Shares out more than its score, from the second round on."""

    def share(self, node: int) -> float:
        return max(super().share(node), float(bool(self._heard[node] >= 0)))


class MisdirectedWorld(PlantedWorld):
    """Gives a node's share to the body whose number it has."""

    def share(self, node: int) -> float:
        return super().share(self.keys[node])


class PartlyWorld(PlantedWorld):
    """Shares out to scouts alone."""

    def share(self, node: int) -> float:
        return super().share(node) if node in self._scouts else None  # type: ignore[return-value]


class MuteWorld(PlantedWorld):
    """Forgets to say what an actor did."""

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        super().step(acts)
        return {}


def planted(world: type[PlantedWorld]) -> PlantedSubstrate:
    """Return a substrate that opens the given world."""
    substrate = PlantedSubstrate()
    substrate.world = world
    return substrate
