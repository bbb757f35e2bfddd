"""DMoA (arXiv 2605.15706): a recurrent router that activates a few agents in every step.

From the abstract and summaries: the context of a step is embedded and fed to a recurrent router
that carries the history. Its logits over the agents activate a sparse set whose size adapts from
step to step. The agents' predictive entropy ranks their confidence, and a pairwise ranking loss
aligns the logits with that ranking. Nothing is learned from scores.
Reconstructed: neither code nor full text was available. The rule for the number of agents, its cap,
the form of the loss and all widths and rates below are ours.
Our changes: a pointer over embedded views replaces one output per agent, so that one router serves
every N. The entropy of the deterministic solver is one minus its confidence, since views have no
graded candidates; on Silo it is the share of the pieces that a node lacks. An activated node makes
one more call and sends one frame, to the contact that last reported the least confidence; all
others refresh their proposals with one call and send nothing. The router is trained while it
routes, and is frozen afterwards: no training at test time. Every node's own answer replaces the
summariser, and no node is activated when all can answer. Ties of equal views are broken at random.
A centralised designer: it reads the views of all nodes in every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, sqrt
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from waggle.baselines.peers import nets, training
from waggle.baselines.peers.conductor import Peer
from waggle.baselines.peers.encoder import WIDTH, Vector, encode
from waggle.baselines.peers.nets import Weights, gru, linear
from waggle.baselines.peers.organiser import (
    NodeView,
    Opening,
    Outcome,
    RoundPlan,
    Send,
    held_bins,
)
from waggle.baselines.peers.training import Parameters, Play
from waggle.core.protocols import Case
from waggle.core.schema import MAX_BIN
from waggle.core.seeds import derive

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = 32
SHAPES = {
    **nets.gru_shapes("router", 3 * WIDTH + 2, HIDDEN),
    "query": (HIDDEN, HIDDEN),
    "key": (WIDTH, HIDDEN),
}
TEMPERATURE = 0.1
MASS = 0.9
"""The smallest set of agents with this share of the probability is activated."""
SHARE = 0.4
"""The largest share of the nodes that is activated in a step."""
MARGIN = 0.05
"""Pairs whose entropies differ by no more than this are not ranked."""
_NOBODY = (0.0,) * WIDTH
_DECIMALS = 4
"""Decimals kept of a logit, so that rounding noise does not order equal views."""


class Step(NamedTuple):
    """The inputs of the router and the confidence of the nodes in one step."""

    context: Vector
    """Mean view, contract, time, mean confidence, and mean of the views activated before."""
    views: Sequence[Vector]
    confidence: Sequence[float]


@dataclass
class Routing:
    """The state of one episode."""

    contract: Vector
    rounds: int
    rng: Random
    hidden: Tensor
    activated: Vector = _NOBODY
    heard: dict[tuple[int, int], int] = field(default_factory=dict)
    """By node and contact: the confidence that the contact last reported, in bins."""
    steps: list[Step] = field(default_factory=list)
    """All steps so far, kept only in training."""


class DMoA:
    """Activate the nodes whose views a recurrent router points to.

    Args:
        weights: weights of the router.
        learning: record the router's inputs, for training.
    """

    name: ClassVar[str] = "dmoa"
    centralised: ClassVar[bool] = True

    def __init__(self, weights: Weights, learning: bool = False) -> None:
        self._weights = weights
        self._learning = learning
        self.last: Routing | None = None
        """The routing of the most recent episode."""

    def begin(self, opening: Opening) -> Routing:
        """Return the state of an episode, without history."""
        import torch

        contract = opening.contract
        task = encode((contract.task, *contract.actions, *contract.goal.split()))
        rng = Random(opening.seed)
        self.last = Routing(task, opening.rounds, rng, torch.zeros(1, HIDDEN))
        return self.last

    def plan(self, state: Routing, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Activate some nodes; each sends to the contact that last reported least confidence."""
        for node, view in views.items():
            for sender, memo in view.inbox:
                state.heard[node, sender] = int(memo[0]) if memo else 0
        if all(view.solution.ready for view in views.values()):
            return RoundPlan()
        active = self._activate(state, round / state.rounds, views)
        sends = [
            Send(node, _least(state, node, views[node]), (held_bins(views[node]),))
            for node in active
            if views[node].ports
        ]
        return RoundPlan(tuple(sends), frozenset(views), dict.fromkeys(active, 1))

    def _activate(
        self, state: Routing, time: float, views: Mapping[int, NodeView]
    ) -> Sequence[int]:
        """Return the nodes with the highest logits; ties are in random order."""
        import torch

        seen = {node: summary(view) for node, view in views.items()}
        sure = [view.solution.confidence for view in views.values()]
        rows = list(seen.values())
        context = (*_mean(rows), *state.contract, time, fmean(sure), *state.activated)
        step = Step(context, rows, sure)
        if self._learning:
            state.steps.append(step)
        with torch.no_grad():
            state.hidden, logits = route(self._weights, step, state.hidden)
            chances = (logits / TEMPERATURE).softmax(0).tolist()
        score = dict(zip(seen, logits.tolist(), strict=True))
        nodes = list(seen)
        state.rng.shuffle(nodes)
        nodes.sort(key=lambda node: -round(score[node], _DECIMALS))
        active = nodes[: adaptive(chances, ceil(SHARE * len(nodes)))]
        state.activated = _mean([seen[node] for node in active])
        return active

    def feedback(self, state: Routing, round: int, outcomes: Sequence[Outcome]) -> None:
        """Ignore the outcomes: the router is frozen within an episode."""


def summary(view: NodeView) -> Vector:
    """Embed the state of a node: its progress, and what it got in the last round."""
    return encode(
        (
            f"held {held_bins(view)}",
            f"ready {view.solution.ready}",
            f"gain {round(MAX_BIN * view.gain)}",
            f"inbox {len(view.inbox)}",
            f"degree {len(view.ports)}",
            f"action {view.view.proposal.action}",
        )
    )


def route(weights: Weights, step: Step, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Return the hidden state after a step, and the logit of every node."""
    _, hidden = gru(weights, "router", nets.rows([step.context])[None], hidden)
    query = linear(weights, "query", hidden).squeeze(0)
    return hidden, linear(weights, "key", nets.rows(step.views)) @ query / sqrt(HIDDEN)


def adaptive(chances: Sequence[float], cap: int) -> int:
    """Return how many nodes are needed to hold `MASS` of the probability, up to a cap."""
    held = accumulate(sorted(chances, reverse=True))
    return min(cap, 1 + sum(mass < MASS for mass in held))


def ranking(weights: Weights, steps: Sequence[Step]) -> Tensor | None:
    """Return the pairwise ranking loss of one episode, or None if no pair is ranked."""
    import torch

    hidden, losses = torch.zeros(1, HIDDEN), []
    for step in steps:
        hidden, logits = route(weights, step, hidden)
        sure = torch.tensor(step.confidence)
        ranked = sure[:, None] > sure[None] + MARGIN
        if ranked.any():
            above = logits[:, None] - logits[None]
            losses.append(torch.nn.functional.softplus(-above[ranked]).mean())
    return torch.stack(losses).mean() if losses else None


def _least(state: Routing, node: int, view: NodeView) -> int:
    """Return the contact that last reported the least confidence; ties are broken at random."""
    confidence = {contact: state.heard.get((node, contact), 0) for contact in view.ports}
    lowest = min(confidence.values())
    return Random(view.entropy).choice([j for j, bins in confidence.items() if bins == lowest])


def _mean(vectors: Sequence[Vector]) -> Vector:
    return tuple(fmean(column) for column in zip(*vectors, strict=True))


@dataclass(frozen=True)
class Fit:
    """Training by pairwise ranking of nodes by the entropy of their solutions, without scores."""

    name: ClassVar[str] = DMoA.name
    per_size: ClassVar[bool] = False
    steps: int = 20
    batch: int = 4
    passes: int = 20
    """Gradient steps on the episodes of one training step."""
    rate: float = 1e-3

    def plays(self, step: int) -> int:
        """Return how many episodes a step plays: one per case."""
        return self.batch

    def start(self) -> Parameters:
        """Return randomly initialised parameters."""
        return nets.start(self.name, SHAPES)

    def step(self, found: Parameters, step: int, cases: Sequence[Case], play: Play) -> Parameters:
        """Play episodes in which all nodes solve; then train on their confidence ranking."""
        import torch

        episodes = []
        for place, case in enumerate(cases):
            organiser = DMoA(nets.weights_of(found), learning=True)
            play(organiser, case, derive(step, "dmoa-episode", place))
            assert organiser.last is not None
            episodes.append(organiser.last.steps)
        for _ in range(self.passes):
            weights = nets.weights_of(found, learning=True)
            losses = [ranking(weights, steps) for steps in episodes]
            defined = [loss for loss in losses if loss is not None]
            if not defined:
                return found
            found = nets.improve(found, weights, torch.stack(defined).mean(), self.rate)
        return found


def dmoa(parameters: str) -> Peer:
    """Activate nodes by a recurrent router (DMoA, reconstruction, centralised designer).

    Args:
        parameters: file written by `waggle fit dmoa`.
    """
    found, digest = training.read(Path(parameters), DMoA.name)
    return Peer(DMoA(nets.weights_of(found)), digest)
