"""G-Designer (arXiv 2410.11782): a graph autoencoder that designs a communication graph for a task.

From the paper: agents are nodes with an embedded profile, the task is a virtual node linked to all
of them. A variational graph encoder maps both to latent vectors around an anchor topology, a
decoder predicts the probability of every edge from the two agents and the task, and the policy
gradient of the score trains both, with penalties for leaving the anchor and for density.
The released code differs: it has no variational part, no such decoder and no penalties, and it
samples again at test time. This module follows the paper, not that code.
Our changes: the anchor is the contact graph, so only contacts can become edges. Penalties on the
mean edge probability and on the distance from the anchor replace the low-rank refinement. Profiles
are hashed words (degree, distance from a random root, a random trait that distinguishes similar
nodes); the task node has the words of the task. The first convolution also sees a node's own
profile separately. The baseline of the gradient is the mean over the samples of a case. Widths and
rates are ours. Graphs are acyclic: topological execution is the gated schedule of `dag`, and no
information flows back along an edge of one design. If contacts move, every sweep gets a new design.
In evaluation, edges above one half are kept, from the latent means.
A centralised designer: it sees the whole contact graph. One set of weights serves every N.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from waggle.baselines.peers import nets, training
from waggle.baselines.peers.conductor import Peer
from waggle.baselines.peers.dag import Contacts, Edge, Sweeps, distances, draw
from waggle.baselines.peers.encoder import WIDTH, Vector, encode
from waggle.baselines.peers.nets import Weights, linear
from waggle.baselines.peers.organiser import NodeView, Opening, Outcome, RoundPlan
from waggle.baselines.peers.training import Parameters, Play
from waggle.core.protocols import Case
from waggle.core.schema import Contract
from waggle.core.seeds import derive

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = 32
LATENT = 16
SHAPES = {
    "encode": (WIDTH, HIDDEN),
    "own": (WIDTH, HIDDEN),
    "mean": (HIDDEN, LATENT),
    "spread": (HIDDEN, LATENT),
    "decode": (3 * LATENT, HIDDEN),
    "decode bias": (HIDDEN,),
    "edge": (HIDDEN, 1),
    "edge bias": (1,),
}
TRAITS = 4
"""Number of values of the random trait that distinguishes nodes with similar profiles."""
NARROW = 2.0
"""An untrained encoder has a spread of exp(-NARROW), so that means stand out from the noise."""
DIVERGENCE = 1e-3
SPARSITY = 1e-2
ANCHOR = 1e-2


class Latent(NamedTuple):
    """The encoder's output for every node; the task is the last row."""

    mean: Tensor
    log_spread: Tensor


class Loss(NamedTuple):
    """The training terms of a sampled graph."""

    log_chance: Tensor
    """Log-probability of the graph under the decoder."""
    penalty: Tensor
    """Penalty for density, distance from the anchor, and divergence from the standard normal."""


class Design:
    """The graph of one episode, or of the current sweep."""

    def __init__(self, weights: Weights, opening: Opening, sampled: bool) -> None:
        self._weights, self._contract = weights, opening.contract
        rng = Random(opening.seed)
        self._rng = rng if sampled else None
        self._traits = {node: rng.randrange(TRAITS) for node in opening.contacts}
        self.losses: list[Loss] = []
        """Training terms of every graph built, in training only."""
        self.sweeps = Sweeps(opening, self._lay)

    def _lay(self, contacts: Contacts) -> Contacts:
        """Encode task and contacts, decode edge probabilities, and threshold or sample edges."""
        import torch

        nodes = list(contacts)
        place = {node: k for k, node in enumerate(nodes)}
        pairs = [(u, v) for u, own in contacts.items() for v in own if v in place]
        if not pairs:
            return {node: [] for node in nodes}
        with torch.set_grad_enabled(self._rng is not None):
            places = [(place[u], place[v]) for u, v in pairs]
            features = profiles(self._contract, contacts, self._traits)
            latent = encoded(self._weights, features, places)
            logits = decoded(self._weights, self._point(latent), places)
            chance = dict(zip(pairs, logits.sigmoid().tolist(), strict=True))
            drawn = draw(nodes, chance, self._rng)
            if self._rng is not None:
                taken = [drawn.considered.get(pair) for pair in pairs]
                self.losses.append(losses(latent, logits, taken))
        return drawn.successors

    def _point(self, latent: Latent) -> Tensor:
        """Return the mean latent vectors, or a sample around them in training."""
        import torch

        if self._rng is None:
            return latent.mean
        noise = torch.Generator().manual_seed(self._rng.getrandbits(63))
        drawn = torch.randn(latent.mean.shape, generator=noise)
        return latent.mean + latent.log_spread.exp() * drawn


class GDesigner:
    """Decode an acyclic graph over the contacts from the task and the profiles of nodes.

    Args:
        weights: weights of encoder and decoder.
        sampled: sample latent vectors and edges, as in training.
    """

    name: ClassVar[str] = "g-designer"
    centralised: ClassVar[bool] = True

    def __init__(self, weights: Weights, sampled: bool = False) -> None:
        self._weights = weights
        self._sampled = sampled
        self.last: Design | None = None
        """The design of the most recent episode."""

    def begin(self, opening: Opening) -> Design:
        """Design the graph of an episode."""
        self.last = Design(self._weights, opening, self._sampled)
        return self.last

    def plan(self, state: Design, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Send along the edges that are due and still join contacts."""
        return state.sweeps.plan(round, views)

    def feedback(self, state: Design, round: int, outcomes: Sequence[Outcome]) -> None:
        """Ignore the outcomes: weights are frozen within an episode."""


def profiles(contract: Contract, contacts: Contacts, traits: Mapping[int, int]) -> list[Vector]:
    """Return the vector of every node in drawn order, followed by the vector of the task."""
    away = distances(contacts)
    found = [
        encode(
            (
                f"degree {len(own)}",
                f"distance {away.get(node, 'none')}",
                f"trait {traits.get(node, 0)}",
            )
        )
        for node, own in contacts.items()
    ]
    return [*found, encode((contract.task, *contract.actions, *contract.goal.split()))]


def encoded(weights: Weights, features: Sequence[Vector], places: Sequence[Edge]) -> Latent:
    """Run two graph convolutions over the anchor; the task node is linked to all nodes."""
    import torch

    tails, heads = torch.tensor(places).T
    near = torch.eye(len(features))
    near[tails, heads] = near[heads, tails] = 1.0
    near[-1] = near[:, -1] = 1.0
    scale = near.sum(1).rsqrt()
    near = scale[:, None] * near * scale
    given = nets.rows(features) * sqrt(WIDTH)
    hidden = (near @ linear(weights, "encode", given) + linear(weights, "own", given)).relu()
    around = near @ hidden
    spread = (linear(weights, "spread", around) - NARROW).clamp(-10, 10)
    return Latent(linear(weights, "mean", around), spread)


def decoded(weights: Weights, point: Tensor, places: Sequence[Edge]) -> Tensor:
    """Return the logit of every ordered pair, from its two nodes and the task."""
    import torch

    tails, heads = torch.tensor(places).T
    task = point[-1].expand(len(places), LATENT)
    joined = torch.cat([point[tails], point[heads], task], dim=1)
    return linear(weights, "edge", linear(weights, "decode", joined).relu()).squeeze(1)


def losses(latent: Latent, logits: Tensor, taken: Sequence[bool | None]) -> Loss:
    """Return the training terms of a graph; in `taken`, edges not considered are None."""
    import torch

    considered = torch.tensor([each is not None for each in taken])
    against = torch.where(torch.tensor([bool(each) for each in taken]), -logits, logits)
    log_chance = -torch.nn.functional.softplus(against)[considered].sum()
    chances = logits.sigmoid()
    variance = (2 * latent.log_spread).exp()
    divergence = 0.5 * (latent.mean.square() + variance - 1 - 2 * latent.log_spread).mean()
    anchored = SPARSITY * chances.mean() + ANCHOR * (1 - chances).square().mean()
    return Loss(log_chance, anchored + DIVERGENCE * divergence)


@dataclass(frozen=True)
class Fit:
    """Training by policy gradient over encoder and decoder, all populations together."""

    name: ClassVar[str] = GDesigner.name
    per_size: ClassVar[bool] = False
    steps: int = 40
    batch: int = 2
    samples: int = 10
    """Sampled graphs per case."""
    rate: float = 3e-3

    def plays(self, step: int) -> int:
        """Return how many episodes a step plays: `samples` graphs per case."""
        return self.batch * self.samples

    def start(self) -> Parameters:
        """Return randomly initialised parameters."""
        return nets.start(self.name, SHAPES)

    def step(self, found: Parameters, step: int, cases: Sequence[Case], play: Play) -> Parameters:
        """Play the graphs sampled for each case; make those that score above its mean likelier."""
        import torch

        weights = nets.weights_of(found, learning=True)
        terms = []
        for place, case in enumerate(cases):
            played = []
            for sample in range(self.samples):
                organiser = GDesigner(weights, sampled=True)
                utility = play(organiser, case, derive(step, "g-designer-graph", place, sample))
                assert organiser.last is not None
                played.append((utility, organiser.last.losses))
            baseline = fmean(utility for utility, _ in played)
            terms += [
                each.penalty - (utility - baseline) * each.log_chance
                for utility, laid in played
                for each in laid
            ]
        if not terms:
            return found
        return nets.improve(found, weights, torch.stack(terms).mean(), self.rate)


def g_designer(parameters: str) -> Peer:
    """Send along a graph designed for the task and contacts (G-Designer, centralised designer).

    Args:
        parameters: file written by `waggle fit g-designer`.
    """
    found, digest = training.read(Path(parameters), GDesigner.name)
    return Peer(GDesigner(nets.weights_of(found)), digest)
