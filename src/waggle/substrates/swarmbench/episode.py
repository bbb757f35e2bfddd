"""One SwarmBench episode as a `World`: views, transport and compiler around a task's behaviour.

Contacts are agents within the window's half width; a write arrives if its receiver is still that
near after the update. The compiler is deterministic: WAIT stays, FOLLOW takes one step towards the
claim that it names, intent FIELD one towards the claim that the node holds, and any other decision
is executed as its action. It never chooses a claim.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

from waggle.core.protocols import Act, Case, Local, Sensed, Shock, Suggestion, Write
from waggle.core.schema import CLAIM_ARGUMENT, WAIT, Contract, Json, plain_actions
from waggle.core.worker import Work
from waggle.core.world import WorldBase
from waggle.substrates.swarmbench.agent.compass import chebyshev
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.world import GridWorld
from waggle.substrates.swarmbench.tasks.base import Behaviour, Plan
from waggle.substrates.swarmbench.tasks.flocking import FlockingBehaviour
from waggle.substrates.swarmbench.tasks.foraging import ForagingBehaviour
from waggle.substrates.swarmbench.tasks.pursuit import PursuitBehaviour
from waggle.substrates.swarmbench.tasks.synchronization import SynchronizationBehaviour
from waggle.substrates.swarmbench.tasks.transport import TransportBehaviour

BEHAVIOURS: Mapping[str, type[Behaviour]] = {
    "pursuit": PursuitBehaviour,
    "foraging": ForagingBehaviour,
    "synchronization": SynchronizationBehaviour,
    "flocking": FlockingBehaviour,
    "transport": TransportBehaviour,
}
_GOAL = (
    " You see the cells around you: Y is you, A and a are others, W is wall, * is outside. "
    "The proposal is your own best move."
)
"""Text that every contract appends to the task's goal."""
_PLACES = (
    " Claims show where they are, in bins of cells down and right of you. FOLLOW steps towards "
    "the claim it names; intent FIELD steps towards the claim you hold."
)
"""Text that a contract adds if claims have places."""
FOLLOW = "FOLLOW"


def _contract(task: str, behaviour: type[Behaviour]) -> Contract:
    goal, actions = behaviour.goal + _GOAL, behaviour.actions
    if behaviour.places:
        goal, actions = goal + _PLACES, (*actions, f"{FOLLOW}:{CLAIM_ARGUMENT}")
    return Contract(f"swarmbench/{task}", goal, (*actions, WAIT), broadcast=True)


CONTRACTS: Mapping[str, Contract] = {task: _contract(task, b) for task, b in BEHAVIOURS.items()}


class SwarmEpisode(WorldBase):
    """One episode of one task."""

    readiness: Literal["gate", "native"] = "gate"
    handle_life: Literal["episode", "contact"] = "contact"

    def __init__(self, case: Case, grid: GridWorld, keys: Sequence[int]) -> None:
        self.n = case.n
        self.keys = tuple(keys)
        self.rounds = grid.config.max_round
        self._shocking = case.shock
        self.scene = Scene(grid, self.keys, case.seed)
        self.behaviour = BEHAVIOURS[case.task](self.scene)
        self.contract = CONTRACTS[case.task]
        self._legal = tuple(plain_actions(self.contract))
        self.refresh = self.behaviour.refresh
        self._plans: list[Plan] = []
        self._moves: list[str] | None = None
        """The moves of private workers by node, or None without workers."""
        self._plan()

    def _plan(self) -> None:
        self._plans = [
            self.behaviour.look(node) if self.scene.is_active(node) else Plan("STAY", False)
            for node in range(self.n)
        ]

    def active(self) -> Sequence[int]:
        """Return the nodes that are still on the map."""
        return [node for node in range(self.n) if self.scene.is_active(node)]

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the agents in the window."""
        return self.scene.neighbours(node)

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the window, the private move, the node's evidence and the facts of each claim."""
        window: list[Json] = list(self.scene.windows[node])
        move = self._plans[node].move if self._moves is None else self._moves[node]
        return Sensed(
            observation={"window": window, **self.behaviour.observation(node)},
            proposal=Suggestion(move),
            evidence=self.behaviour.evidence(node, local),
            ports=self.behaviour.ports(node),
            claims=self.behaviour.facts(node, local),
        )

    def staff(self) -> None:
        """Take private moves from workers; a node waits until its worker first answers."""
        self._moves = [WAIT] * self.n

    def work(self, node: int, local: Local) -> Work:
        """Return the worker request for a move: own observations and reported places."""
        rows = sorted(map(dict, self.behaviour.facts(node, local).values()), key=repr)
        reported: list[Json] = [row for row in rows if row.get("source") == "told"]
        own: list[Json] = [row for row in rows if row.get("source") == "seen"]
        window: list[Json] = list(self.scene.windows[node])
        return Work(
            self.contract.task, self.behaviour.goal + _GOAL,
            {"window": window, "seen": own, **self.behaviour.observation(node)}, {"told": reported},
            actions=self._legal, native=lambda: self._plans[node].move,
        )  # fmt: skip

    def adopt(self, node: int, answer: Json) -> bool:
        """Adopt a worker's answer as the node's private move if it is a legal move."""
        if self._moves is None or answer not in self._legal:
            return False
        self._moves[node] = str(answer)
        return True

    def withhold(self, write: Write) -> str | None:
        """Withhold relays of a forager that follows its own route (route protection)."""
        protected = self.contract.task == "swarmbench/foraging"
        if protected and not write.fresh and self._plans[write.sender].route:
            return "route"
        return None

    def fingerprint(self, write: Write) -> Hashable:
        """Return what makes two writes of one sender the same: receiver, claim, sign, content."""
        content = self.behaviour.content(write)
        return (write.receiver, write.claim, write.conflict > 0, content)

    def payload(self, write: Write) -> object:
        """Return what travels with a write."""
        return self.behaviour.payload(write)

    def receive(self, write: Write, payload: object) -> Write | None:
        """Deliver a write, in the receiver's frame, if the receiver is still in reach."""
        cells = self.scene.cells
        if chebyshev(cells[write.sender], cells[write.receiver]) > self.scene.half:
            return None
        return self.behaviour.receive(write, payload)

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Compile every act, play one native round, and let every node look and plan."""
        native = {node: self._compile(node, act) for node, act in acts.items()}
        self.scene.play(native)
        self._plan()
        return native

    def _compile(self, node: int, act: Act) -> str:
        """Return the native action of an admitted decision."""
        if act.action == WAIT or act.intent == WAIT:
            return "STAY"
        if act.action == FOLLOW:
            return self._walk(node, act.claim) or "STAY"
        if act.intent == "FIELD":
            return self._walk(node, act.local.commitment) or act.action
        return act.action

    def _walk(self, node: int, claim: str | None) -> str | None:
        return None if claim is None else self.behaviour.walk(node, claim)

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Move the target (Pursuit, Foraging); agents see it in their windows."""
        if not self._shocking:
            return None
        shock = self.behaviour.shock(round, committed)
        if shock is not None:
            self.scene.look_again()
            self._plan()
        return shock

    def score(self) -> Mapping[str, float]:
        """Return the native score."""
        return {"score": self.scene.world.score}

    def standing(self, node: int) -> float | None:
        """Return a node's progress, or None if the task does not measure it."""
        return self.behaviour.standing(node)

    def done(self) -> bool:
        """Return whether the flock is in shape, all agents are out, or the rounds are used up."""
        return self.scene.world.finished

    def places(self) -> Sequence[tuple[int, int]]:
        """Return the row and column of every node on the map, for pictures."""
        return self.scene.cells

    def render(self) -> str:
        """Draw the map, one space between cells."""
        return "\n".join(" ".join(row) for row in self.scene.world.grid())
