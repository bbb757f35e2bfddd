"""A swarm as a PettingZoo `ParallelEnv`, so that external learners can play any substrate.

    from waggle.compat.pettingzoo import SwarmEnv
    env = SwarmEnv("silo/III-26", n=16)
    observations, infos = env.reset(seed=0)

Every node is an agent and every round a step. An observation is a view as numbers with the mask of
its legal choices; an action is the five choices of `waggle.compat.slots`, or a `Decision` or its
text for the view in the agent's info. The reward is shared: the round's change of the headline
score. The runtime carries out decisions as it does for a law, so only traces travel between agents,
and no view contains the name of an agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from waggle import plugins
from waggle.compat import slots
from waggle.core.canon import encode_view
from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.core.protocols import Case, Decode, Request, World
from waggle.core.record import RoundRecord
from waggle.core.schema import WAIT, Decision
from waggle.extras import missing
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Sink
from waggle.runtime.sync import Engine, Episode

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise ConfigError(missing("pettingzoo") or str(error)) from error


class _Learner:
    """A placeholder law for the runtime; the environment itself supplies the decisions."""

    name = "pettingzoo"

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        raise NotImplementedError


class SwarmEnv(ParallelEnv):  # type: ignore[misc]
    """One task of a substrate, played on the synchronous engine."""

    metadata: ClassVar[dict[str, Any]] = {"name": "waggle", "render_modes": ["ansi"]}

    def __init__(
        self,
        task: str,
        n: int = 16,
        *,
        seed: int = 0,
        rounds: int | None = None,
        shock: bool = False,
        order: Order = "canonical",
        perturbation: Perturbation | None = None,
        sinks: Sequence[Sink] = (),
        options: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Open a task.

        Args:
            task: a name listed by `waggle list tasks`.
            n: number of agents in the swarm.
            seed: seed of the first episode; each reset without a seed uses the next one. Use only 0
                to 9,999 for training.
            rounds: steps per episode; the task's horizon if None.
            shock: whether late counterevidence is injected, if the task supports it.
            order: the order in which a view lists its records.
            perturbation: perturbation of the execution, or None.
            sinks: receivers of the records, such as a `Memory` for metrics.
            options: options of the substrate.
            render_mode: `ansi`, or None.
        """
        found = plugins.find_task(task)
        self._substrate = plugins.get_substrate(found.substrate)
        self._case = (found.substrate, found.task, n, rounds, shock, dict(options or {}))
        self._order, self._perturbation, self._sinks = order, perturbation, list(sinks)
        self.render_mode = render_mode
        self._next_seed = seed
        self.possible_agents = [f"agent_{node}" for node in range(n)]
        self.agents: list[str] = []
        self._menus: dict[str, slots.Menu] = {}
        self._episode: Episode | None = None
        masks = spaces.Tuple([spaces.MultiBinary(size) for size in slots.PARTS])
        box = spaces.Box(-1.0, 1.0, (slots.WIDTH,), np.float32)
        self._views: dict[str, spaces.Space[Any]] = {
            agent: spaces.Dict({"observation": box, "action_mask": masks})
            for agent in self.possible_agents
        }
        self._choices = {
            agent: spaces.MultiDiscrete(list(slots.PARTS)) for agent in self.possible_agents
        }

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of an agent."""
        return self._views[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of an agent."""
        return self._choices[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the episode of a seed; without one, the seed after that of the previous episode."""
        substrate, task, n, rounds, shock, own = self._case
        seed = self._next_seed if seed is None else int(seed)
        self._next_seed = seed + 1
        case = Case(substrate, task, n, seed, rounds, shock, own)
        self._engine = Engine(
            self._substrate.open(case), _Learner(), case, order=self._order, sinks=self._sinks,
            perturbation=self._perturbation, watch=self._watch,
        )  # fmt: skip
        self._entry: RoundRecord | None = None
        self._score = 0.0
        self._numbers = dict.fromkeys(self.possible_agents, np.zeros(slots.WIDTH, np.float32))
        self._episode = self._engine.episode()
        self.agents = list(self.possible_agents)
        try:
            self._show(next(self._episode))
        except StopIteration:  # a world that is done before its first round
            self.agents = []
        return self._seen_by(self.possible_agents), self._infos(self.possible_agents)

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, Any],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Play a round; an action is five choices, a `Decision` or its text; without one: wait."""
        assert self._episode is not None, "reset() begins an episode"
        agents, over = self.agents, False
        views = {id(menu.view): agent for agent, menu in self._menus.items()}
        answers = {a: self._decode(menu, actions.get(a)) for a, menu in self._menus.items()}
        batch = list(answers.values())
        try:
            requests = self._episode.send(batch)
            while requests[0].feedback:  # repeat an illegal decision; the runtime then repairs it
                requests = self._episode.send([answers[views[id(r.view)]] for r in requests])
            self._show(requests)
        except StopIteration:
            over, self._menus = True, {}
        score = 0.0 if self._entry is None else float(self._entry.score["score"])
        reward, self._score = score - self._score, score
        played = 0 if self._entry is None else self._entry.round + 1
        ended = over and played < self._engine.world.rounds
        self.agents = [] if over else agents
        return (
            self._seen_by(agents),
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, ended),
            dict.fromkeys(agents, over and not ended),
            self._infos(agents),
        )

    def render(self) -> str | None:
        """Return the world drawn as text if `render_mode` is `ansi`, else None."""
        return self._engine.world.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the episode."""
        if self._episode is not None:
            self._episode.close()

    def _watch(self, entry: RoundRecord, _: World) -> None:
        self._entry = entry

    def _show(self, requests: Sequence[Request]) -> None:
        """Store the views of a round; requests are in the order of the participating nodes."""
        world, schedule = self._engine.world, self._engine.schedule
        round = 0 if self._entry is None else self._entry.round + 1
        nodes = [i for i in world.active() if not schedule.absent(i, round)]
        self._menus = {}
        for node, request in zip(nodes, requests, strict=True):
            agent = self.possible_agents[node]
            self._menus[agent] = slots.menu(request.view)
            self._numbers[agent] = slots.numbers(self._menus[agent])

    def _seen_by(self, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return observations; an absent agent keeps its last one and has no choices."""
        masks = {a: self._menus[a].mask() if a in self._menus else slots.SILENT for a in agents}
        return {a: {"observation": self._numbers[a], "action_mask": masks[a]} for a in agents}

    def _infos(self, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
        views = {agent: menu.view for agent, menu in self._menus.items()}
        return {a: {"view": encode_view(views[a]).decode()} if a in views else {} for a in agents}

    def _decode(self, offered: slots.Menu, action: Any) -> Decode:
        if action is None:
            return Decode(Decision(WAIT, None, (), None))
        return Decode(action if isinstance(action, str | Decision) else offered.decision(action))
