"""One SwarmBench episode as a `World`: views, transport and compiler around a task's behaviour.

Contacts are agents within the window's half width; a pulse written in a round reaches whoever of
them is still that near after the update. The compiler is deterministic: WAIT stays, FIELD or a held
commitment follows the field, everything else is the action itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal

from waggle.core.protocols import Act, Case, Local, Sensed, Shock, Suggestion, Write
from waggle.core.schema import WAIT, Json
from waggle.core.world import WorldBase
from waggle.substrates.swarmbench.agent.compass import reach
from waggle.substrates.swarmbench.contracts import CONTRACTS
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.answer import render_map
from waggle.substrates.swarmbench.sim.world import GridWorld
from waggle.substrates.swarmbench.tasks.base import Behaviour, Plan
from waggle.substrates.swarmbench.tasks.foraging import ForagingSites
from waggle.substrates.swarmbench.tasks.pursuit import PursuitSites
from waggle.substrates.swarmbench.tasks.shapes import Flock, Haul
from waggle.substrates.swarmbench.tasks.synchronization import Lights

BEHAVIOURS: Mapping[str, Callable[[Scene], Behaviour]] = {
    "pursuit": PursuitSites,
    "foraging": ForagingSites,
    "synchronization": Lights,
    "flocking": Flock,
    "transport": Haul,
}


class SwarmEpisode(WorldBase):
    """One episode of one task."""

    readiness: Literal["gate", "native"] = "gate"
    handle_life: Literal["episode", "contact"] = "contact"

    def __init__(self, case: Case, grid: GridWorld, keys: Sequence[int]) -> None:
        self.n = case.n
        self.keys = tuple(keys)
        self.contract = CONTRACTS[case.task]
        self.rounds = grid.config.max_round
        self._shocking = case.shock
        self.scene = Scene(grid, self.keys, case.seed)
        self.behaviour = BEHAVIOURS[case.task](self.scene)
        self.refresh = self.behaviour.refresh
        self._plans: list[Plan] = []
        self._plan()

    def _plan(self) -> None:
        self._plans = [
            self.behaviour.look(node) if self.scene.is_active(node) else Plan("STAY", False)
            for node in range(self.n)
        ]

    def active(self) -> Sequence[int]:
        """Everyone still on the map."""
        return [node for node in range(self.n) if self.scene.is_active(node)]

    def neighbours(self, node: int) -> Sequence[int]:
        """Agents in the window."""
        return self.scene.neighbours(node)

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the window, the private move, own evidence and what is known of each claim."""
        window: list[Json] = list(self.scene.windows[node])
        return Sensed(
            observation={"window": window, **self.behaviour.observation(node)},
            proposal=Suggestion(self._plans[node].move),
            evidence=self.behaviour.evidence(node, local),
            ports=self.behaviour.ports(node),
            claims=self.behaviour.facts(node, local),
        )

    def withhold(self, write: Write) -> str | None:
        """Silence relays of a forager that follows a route of its own (route protection)."""
        protected = self.contract.task == "swarmbench/foraging"
        if protected and not write.fresh and self._plans[write.sender].route:
            return "route"
        return None

    def fingerprint(self, write: Write) -> Hashable:
        """Two writes to one receiver are the same if they say the same of a claim.

        Moving evidence says something else once its direction has changed; a site that stays put
        is told once.
        """
        says = self.behaviour.says(write)
        return (write.receiver, write.claim, write.conflict > 0, says)

    def payload(self, write: Write) -> object:
        """Capture what the task sends along."""
        return self.behaviour.payload(write)

    def receive(self, write: Write, payload: object) -> Write | None:
        """Deliver to receivers still in reach after the update, in their own frame."""
        cells = self.scene.cells
        if reach(cells[write.sender], cells[write.receiver]) > self.scene.half:
            return None
        return self.behaviour.receive(write, payload)

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Compile every act, play one native round, and let everyone look and plan."""
        native = {node: self._compile(node, act) for node, act in acts.items()}
        self.scene.play(native)
        self._plan()
        return native

    def _compile(self, node: int, act: Act) -> str:
        if act.action == WAIT or act.intent == WAIT:
            return "STAY"
        committed = act.intent is None and act.local.commitment is not None
        if act.intent == "FIELD" or committed:
            return self.behaviour.follow(node, act.local) or act.action
        return act.action

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Move the target (Pursuit, Foraging); it is seen by whoever looks there."""
        if not self._shocking:
            return None
        shock = self.behaviour.shock(round, committed)
        if shock is not None:
            self.scene.look_again()
            self._plan()
        return shock

    def score(self) -> Mapping[str, float]:
        """The native score."""
        return {"score": self.scene.world.score}

    def done(self) -> bool:
        """Flocking in shape, or everyone out."""
        return self.scene.world.finished

    def render(self) -> str:
        """Draw the map."""
        return render_map(self.scene.world.grid())
