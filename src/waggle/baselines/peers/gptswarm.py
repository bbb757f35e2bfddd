"""GPTSwarm (arXiv 2402.16823): a graph of agents whose edge probabilities are learned.

From the paper and the authors' code: there is one logit per potential edge; a graph is sampled edge
by edge, skipping edges that would close a cycle; the logits are trained by REINFORCE with Adam at
0.1 on 200 batches of 4 graphs; edges above one half are kept for evaluation. The running mean of
the utility is the baseline, as in the authors' crossword experiment.
Our changes: every case has a new contact graph, and on SwarmBench contacts move, so an edge has no
identity across cases. Its logit belongs to a class instead: whether it leads away from a random
root or towards it, and its place among the ports. Classes ignore degrees, so that logits of Silo
apply to AgentsNet. If contacts move, a new graph is built for every sweep. Edges are considered in
shuffled order in training and by decreasing probability afterwards; in the original the lower index
always wins. Every node's own answer replaces the final-decision node, topological execution is the
gated schedule of `dag`, and the utility is the partial score. Thresholding may leave nodes without
an edge; as in the original, nothing is repaired. A centralised designer: it sees the whole contact
graph, and one set of logits belongs to one kind of contacts (fixed or moving) and one N.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean
from typing import ClassVar

from waggle.baselines.peers import training
from waggle.baselines.peers.conductor import Peer
from waggle.baselines.peers.dag import Contacts, Edge, Sweeps, distances, draw
from waggle.baselines.peers.organiser import NodeView, Opening, Outcome, RoundPlan
from waggle.baselines.peers.training import Parameters, Play
from waggle.core.protocols import Case
from waggle.core.seeds import derive

RATE = 0.1
BATCH = 4
STEPS = 200
WINDOW = 40
"""Number of recent utilities that the baseline averages."""


MOVING = "moving "
"""Prefix of the name of a population whose contacts move."""
_LAST = 2
"""Places among the ports from this one on share a class."""


class Design:
    """The graph of one episode, or of the current sweep."""

    def __init__(self, logits: Mapping[str, float], opening: Opening, sampled: bool) -> None:
        self.gradient: dict[str, float] = {}
        """By edge class: the derivative of the log-probability of all graphs built so far."""
        self._logits, self._rng = logits, Random(opening.seed) if sampled else None
        self.sweeps = Sweeps(opening, self._lay)

    def _lay(self, contacts: Contacts) -> Contacts:
        """Sample the edges of a graph, or take the likely ones."""
        found = classes(contacts)
        chance = {edge: 1 / (1 + exp(-self._logits.get(name, 0.0))) for edge, name in found.items()}
        drawn = draw(list(contacts), chance, self._rng)
        for edge, taken in drawn.considered.items():
            name = found[edge]
            self.gradient[name] = self.gradient.get(name, 0.0) + taken - chance[edge]
        return drawn.successors


class GPTSwarm:
    """Send along a learned acyclic graph over the contacts.

    Args:
        logits: by population, the logit of every edge class.
        sampled: sample the graph, as in training, instead of taking the likely edges.
    """

    name: ClassVar[str] = "gptswarm"
    centralised: ClassVar[bool] = True

    def __init__(self, logits: Mapping[str, Mapping[str, float]], sampled: bool = False) -> None:
        self._logits = logits
        self._sampled = sampled
        self.last: Design | None = None
        """The design of the most recent episode."""

    def begin(self, opening: Opening) -> Design:
        """Sample the graph of an episode, or take its likely edges."""
        logits = nearest(self._logits, len(opening.contacts), opening.moving)
        self.last = Design(logits, opening, self._sampled)
        return self.last

    def plan(self, state: Design, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Send along the edges that are due and still join contacts."""
        return state.sweeps.plan(round, views)

    def feedback(self, state: Design, round: int, outcomes: Sequence[Outcome]) -> None:
        """Ignore the outcomes: the graph is frozen within an episode."""


def population(n: int, moving: bool) -> str:
    """Return the name under which the logits of a population are stored."""
    return f"{MOVING if moving else ''}{n}"


def nearest(
    logits: Mapping[str, Mapping[str, float]], n: int, moving: bool = False
) -> Mapping[str, float]:
    """Return the logits of the trained population nearest to this one, by ratio."""
    alike = [name for name in logits if name.startswith(MOVING) == moving]
    sizes = {int(name.removeprefix(MOVING)): name for name in alike}
    if not sizes:
        return {}
    return logits[sizes[min(sizes, key=lambda size: (abs(log(size / n)), size))]]


def classes(contacts: Contacts) -> dict[Edge, str]:
    """Return the class of every directed edge between contacts, in drawn order."""
    distance = distances(contacts)
    return {
        (u, v): f"{_step(distance, u, v)} port {min(place, _LAST)}"
        for u, own in contacts.items()
        for place, v in enumerate(own)
        if v in contacts
    }


def _step(distance: Mapping[int, int], u: int, v: int) -> str:
    if u not in distance or v not in distance:
        return "apart"
    return ("inward", "level", "outward")[distance[v] - distance[u] + 1]


class Fit:
    """Training by REINFORCE on the logits of one population after another."""

    name: ClassVar[str] = GPTSwarm.name
    steps: ClassVar[int] = STEPS
    batch: ClassVar[int] = BATCH
    per_size: ClassVar[bool] = True
    """Whether every substrate and population is trained in separate steps."""

    def plays(self, step: int) -> int:
        """Return how many episodes a step plays: one graph per case."""
        return BATCH

    def start(self) -> Parameters:
        """Return empty logits: every edge has probability one half."""
        return {"logits": {}, "moments": {}, "utilities": {}}

    def step(self, found: Parameters, step: int, cases: Sequence[Case], play: Play) -> Parameters:
        """Sample and play one graph per case, and update the logits by the policy gradient."""
        size = population(cases[0].n, cases[0].substrate == "swarmbench")
        logits = dict(found["logits"].get(size, {}))
        seen = list(found["utilities"].get(size, []))
        played = []
        for place, case in enumerate(cases):
            organiser = GPTSwarm({size: logits}, sampled=True)
            utility = play(organiser, case, derive(step, "gptswarm-graph", place))
            assert organiser.last is not None
            played.append((utility, organiser.last.gradient))
        baseline = fmean(seen) if seen else fmean(utility for utility, _ in played)
        slope = {
            name: fmean(
                (utility - baseline) * gradient.get(name, 0.0) for utility, gradient in played
            )
            for name in {name for _, gradient in played for name in gradient}
        }
        moments = training.adam(logits, slope, found["moments"].get(size, {}), RATE)
        return {
            "logits": {**found["logits"], size: logits},
            "moments": {**found["moments"], size: moments},
            "utilities": {**found["utilities"], size: (seen + [u for u, _ in played])[-WINDOW:]},
        }


def gptswarm(parameters: str) -> Peer:
    """Send along a learned acyclic graph over the contacts (GPTSwarm, centralised designer).

    Args:
        parameters: file written by `waggle fit gptswarm`.
    """
    found, digest = training.read(Path(parameters), GPTSwarm.name)
    return Peer(GPTSwarm(found["logits"]), digest)
