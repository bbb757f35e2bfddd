"""ARG-Designer (arXiv 2507.18224): a crew assembled member by member, roles and links in turn.

From the paper and the authors' code: a recurrent network over members emits a role or the end,
another emits the links of a new member to earlier ones; the task gates the history of roles. Both
are trained to repeat graphs that worked: first dense graphs with random roles, then pruned samples
of the designer and sparse graphs, mixed with some of the first. A member without a link gets a
random one. The released sampler reads the "no link" channel as the link channel; here links have
the meaning used in training, which a test checks.
Our changes: members are nodes in breadth-first order from a random root and link only to contacts
(`crews`), the network also sees the share of the swarm that is recruited, and graphs of all
populations train it, so a crew is not limited to the four agents of the released recipe. The
content of a frame is the same for all methods, so roles differ in when a member sends: relays send
once a frame has reached them, verifiers on a contradiction, all others in every turn. Whether
members send to earlier or to later ones is chosen on development cases. Graphs are kept if they
score at least the median of their case and more than its worst, since few score fully. Widths,
rates and epochs are smaller. Nodes outside the crew answer from what they hold. Topological
execution is the gated schedule of `dag`; if contacts move, every sweep gets a new crew.
A centralised designer: it sees the whole contact graph. One set of weights serves every N.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypedDict, get_args

import numpy as np

from waggle.baselines.peers import crews, nets, training
from waggle.baselines.peers.conductor import Peer
from waggle.baselines.peers.crews import Crew, Direction, Site
from waggle.baselines.peers.dag import Contacts, Sweeps
from waggle.baselines.peers.encoder import WIDTH, encode
from waggle.baselines.peers.nets import Weights, gru, linear
from waggle.baselines.peers.organiser import NodeView, Opening, Outcome, RoundPlan
from waggle.baselines.peers.training import WORKING, Parameters, Play
from waggle.core.protocols import Case
from waggle.core.seeds import derive

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = 32
END = len(crews.ROLES)
START = END + 1
NONE, LINK, FIRST = range(3)
"""The decision on the previous candidate: no link, a link, or not made yet."""
SHAPES = {
    "task": (WIDTH, HIDDEN),
    "task out": (HIDDEN, HIDDEN),
    "role": (WIDTH, HIDDEN),
    "role bias": (HIDDEN,),
    **nets.gru_shapes("history", HIDDEN, HIDDEN),
    "member": (HIDDEN + crews.WINDOW + 1, HIDDEN),
    "member bias": (HIDDEN,),
    **nets.gru_shapes("members", HIDDEN, HIDDEN),
    "choice": (HIDDEN, HIDDEN),
    "linking": (HIDDEN, HIDDEN),
    **nets.gru_shapes("links", 3, HIDDEN),
    "link": (HIDDEN, 1),
    "link bias": (1,),
}
ALPHA = 0.2
"""The weight of the roles in the loss; the links have the rest."""
REPLAY = 0.3
"""The share of explored graphs that is mixed in when the designer learns efficient crews."""
LAID = 4
"""Most crews kept from one episode, as every sweep may have a new one."""

Assemble: TypeAlias = Callable[[Sequence[str], Site, Random], Crew]
"""Builds a crew from the words of a task, a site and a random generator."""


class Example(NamedTuple):
    """A crew as a training example."""

    words: Sequence[str]
    nodes: int
    roles: Sequence[int]
    links: Sequence[Sequence[bool]]


class Design:
    """The crew of one episode, or of the current sweep."""

    def __init__(self, opening: Opening, assemble: Assemble, direction: Direction) -> None:
        contract = opening.contract
        self._words = (contract.task, *contract.actions, *contract.goal.split())
        self._assemble, self._direction = assemble, direction
        self._rng = Random(opening.seed)
        self.roles: dict[int, int] = {}
        self.reached: set[int] = set()
        """Members that a frame has reached in this sweep; relays send only then."""
        self.laid: list[Example] = []
        self.sweeps = Sweeps(opening, self._lay)

    def _lay(self, contacts: Contacts) -> Contacts:
        where = crews.site(contacts)
        crew = self._assemble(self._words, where, self._rng)
        self.roles = dict(zip(where.order, crew.roles, strict=False))
        self.reached = set()
        if len(self.laid) < LAID:
            self.laid.append(Example(self._words, len(where.order), crew.roles, crew.links))
        return crews.successors(crew, where, self._direction)

    def sends(self, node: int, view: NodeView) -> bool:
        """Return whether the role of a member lets it send in its turn."""
        self.reached |= {node} if view.inbox else set()
        role = self.roles[node]
        if role == crews.RELAY:
            return node in self.reached
        if role == crews.VERIFY:
            return any(evidence.conflict for evidence in view.view.private.evidence)
        return True


class ARGDesigner:
    """Assemble a crew member by member for the task, and send along its links.

    Args:
        weights: weights of the generator.
        direction: whether members send to earlier or to later ones.
        assemble: builds crews in place of the generator, to explore which ones work.
    """

    name: ClassVar[str] = "arg-designer"
    centralised: ClassVar[bool] = True

    def __init__(
        self, weights: Weights, direction: Direction, assemble: Assemble | None = None
    ) -> None:
        self._weights, self._direction = weights, direction
        self._assemble = assemble or partial(generate, weights)
        self.last: Design | None = None
        """The design of the most recent episode."""

    def begin(self, opening: Opening) -> Design:
        """Assemble the crew of an episode."""
        self.last = Design(opening, self._assemble, self._direction)
        return self.last

    def plan(self, state: Design, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Return the sends of the members that are due and whose role lets them send."""
        due = state.sweeps.plan(round, views).sends
        return RoundPlan(tuple(s for s in due if state.sends(s.node, views[s.node])))

    def feedback(self, state: Design, round: int, outcomes: Sequence[Outcome]) -> None:
        """Ignore the outcomes: weights are frozen within an episode."""


class FixedInputs(NamedTuple):
    """Tensors that stay the same while crews are assembled."""

    goal: Tensor
    """The embedded tasks, one row per crew."""
    table: Tensor
    """The embedded roles, end token and start token."""


States: TypeAlias = "tuple[Tensor, Tensor]"
"""Hidden states of the role history and of the members."""


def known(weights: Weights, tasks: Sequence[Sequence[str]]) -> FixedInputs:
    """Embed tasks and roles; the end and start tokens have no words."""
    words = nets.rows([encode(tuple(task)) for task in tasks])
    goal = linear(weights, "task out", linear(weights, "task", words).relu())[:, None]
    described = [encode(tuple(role.split())) for role in crews.ROLES]
    table = linear(weights, "role", nets.rows([*described, *[(0.0,) * WIDTH] * 2]))
    return FixedInputs(goal, table)


def advance(
    weights: Weights, to: FixedInputs, before: Tensor, links: Tensor, share: Tensor, states: States
) -> tuple[Tensor, States]:
    """Run the network over members.

    Args:
        weights: weights of the generator.
        to: tasks and roles.
        before: the role of the previous member, by crew and member.
        links: the links of the previous member.
        share: the share of the nodes recruited so far.
        states: the hidden states before the first member.

    Returns:
        The output for each member, and the hidden states after the last.
    """
    import torch

    history, roles = gru(weights, "history", to.table[before], states[0])
    gate = ((history * to.goal).sum(-1, keepdim=True) / HIDDEN).sigmoid()
    mixed = (1 - gate) * history + gate * to.goal
    given = linear(weights, "member", torch.cat([mixed, links, share], -1)).relu()
    made, members = gru(weights, "members", given, states[1])
    return made, (roles, members)


def role_logits(weights: Weights, to: FixedInputs, made: Tensor) -> Tensor:
    """Return the logits of every role and of the end token."""
    return linear(weights, "choice", made) @ to.table[:START].T


def link_logits(weights: Weights, made: Tensor, said: Tensor) -> Tensor:
    """Return the logit of a link to each candidate, given the decision on the previous one."""
    import torch

    given = torch.nn.functional.one_hot(said, 3).float()
    states, _ = gru(weights, "links", given, linear(weights, "linking", made))
    return linear(weights, "link", states).squeeze(-1)


def generate(weights: Weights, words: Sequence[str], where: Site, rng: Random) -> Crew:
    """Sample a crew member by member; a member without a link gets a random one."""
    import torch

    states = _blank(1)
    roles: list[int] = []
    links: list[list[bool]] = []
    with torch.no_grad():
        to = known(weights, [words])
        for place, near in enumerate(where.candidates):
            before = torch.tensor([[roles[-1] if roles else START]])
            bits = nets.rows([_bits(links[-1] if links else [])])[None]
            share = torch.full((1, 1, 1), place / len(where.order))
            made, states = advance(weights, to, before, bits, share, states)
            chances = role_logits(weights, to, made)[0, 0].softmax(0).tolist()
            if place < crews.MEMBERS:
                chances[END] = 0.0
            (role,) = rng.choices(range(START), chances)
            if role == END:
                break
            roles.append(role)
            links.append(_drawn(weights, made[:, 0], len(near), rng))
    return Crew(roles, links)


def _drawn(weights: Weights, made: Tensor, count: int, rng: Random) -> list[bool]:
    import torch

    found: list[bool] = []
    for _ in range(count):
        said = torch.tensor([[FIRST, *(LINK if link else NONE for link in found)]])
        chance = link_logits(weights, made, said)[0, -1].sigmoid()
        found.append(rng.random() < float(chance))
    if found and not any(found):
        found[rng.randrange(count)] = True
    return found


def _blank(count: int) -> States:
    import torch

    return torch.zeros(count, HIDDEN), torch.zeros(count, HIDDEN)


def _bits(links: Sequence[bool]) -> list[float]:
    return [float(link) for link in links] + [0.0] * (crews.WINDOW - len(links))


class _Batch(NamedTuple):
    """Inputs and targets of teacher forcing, as arrays or tensors by crew, step and candidate.

    A step chooses the role of a member, or the end of the crew, and then the member's links.
    """

    previous_roles: Any
    previous_links: Any
    shares: Any
    roles: Any
    role_counts: Any
    """Whether a role enters the loss; padding does not."""
    previous_decisions: Any
    """The decision on the previous candidate."""
    links: Any
    link_counts: Any


def _arrays(examples: Sequence[Example]) -> _Batch:
    """Return crews as arrays, padded to the longest and its end."""
    steps = 1 + max(len(crew.roles) for crew in examples)
    by_step = (len(examples), steps)
    by_candidate = (*by_step, crews.WINDOW)
    batch = _Batch(
        previous_roles=np.full(by_step, START),
        previous_links=np.zeros(by_candidate, np.float32),
        shares=np.zeros((*by_step, 1), np.float32),
        roles=np.full(by_step, END),
        role_counts=np.zeros(by_step, bool),
        previous_decisions=np.full(by_candidate, FIRST),
        links=np.zeros(by_candidate, np.float32),
        link_counts=np.zeros(by_candidate, bool),
    )
    for row, crew in enumerate(examples):
        size = len(crew.roles)
        batch.roles[row, :size] = batch.previous_roles[row, 1 : size + 1] = crew.roles
        has_end = size < crew.nodes  # a crew of all nodes needs no end token
        batch.role_counts[row, : size + has_end] = True
        batch.shares[row, :, 0] = np.arange(steps) / crew.nodes
        for member, links in enumerate(crew.links):
            batch.links[row, member] = batch.previous_links[row, member + 1] = _bits(links)
            batch.link_counts[row, member, : len(links)] = True
            batch.previous_decisions[row, member, 1 : len(links)] = links[:-1]
    return batch


def loss(weights: Weights, examples: Sequence[Example]) -> Tensor:
    """Return the loss of the generator on the given crews, with teacher forcing."""
    import torch
    from torch.nn import functional

    batch = _Batch(*map(torch.from_numpy, _arrays(examples)))
    to = known(weights, [crew.words for crew in examples])
    made, _ = advance(
        weights, to, batch.previous_roles, batch.previous_links, batch.shares, _blank(len(examples))
    )
    choices = role_logits(weights, to, made)
    choices[:, : crews.MEMBERS, END] = -1e9
    role_loss = functional.cross_entropy(choices[batch.role_counts], batch.roles[batch.role_counts])
    if not batch.link_counts.any():
        return ALPHA * role_loss
    decisions = batch.previous_decisions.flatten(0, 1)
    chances = link_logits(weights, made.flatten(0, 1), decisions).view(batch.links.shape)
    link_loss = functional.binary_cross_entropy_with_logits(
        chances[batch.link_counts], batch.links[batch.link_counts]
    )
    return ALPHA * role_loss + (1 - ALPHA) * link_loss


_Phase: TypeAlias = Literal["explore", "learn dense", "refine", "learn sparse"]
_PHASES: tuple[_Phase, ...] = get_args(_Phase)
"""The phases of a fit, in order: dense crews are played, then learned, then sparse ones."""


class _Working(TypedDict):
    """What an unfinished fit has collected; `nets.improve` keeps its moments beside it."""

    explored: dict[Direction, list[Example]]
    """The better dense crews by direction; read from a file, an example is a plain list."""
    scores: dict[Direction, list[float]]
    """The mean utilities of dense crews, which decide the direction."""
    refined: list[Example]
    """The better pruned and sparse crews."""


@dataclass(frozen=True)
class Fit:
    """Training: explore dense crews, learn them, find sparser ones that work, and learn those."""

    name: ClassVar[str] = ARGDesigner.name
    per_size: ClassVar[bool] = False
    batch: int = 4
    explore: int = 4
    """Steps that play dense crews; `first` epochs on them follow."""
    first: int = 30
    refine: int = 6
    """Steps that play pruned and sparse crews; `second` epochs on them follow."""
    second: int = 60
    samples: int = 2
    """Crews of the designer that are pruned and played, per case."""
    rows: int = 32
    rates: tuple[float, float] = (3e-3, 1e-3)

    @property
    def steps(self) -> int:
        """Number of steps in both rounds of playing and learning."""
        return self.explore + self.first + self.refine + self.second

    def plays(self, step: int) -> int:
        """Return how many episodes a step plays; only the two search phases play."""
        phase = self._phase(step)
        if phase == "explore":
            return self.batch * len(crews.DENSE) * len(crews.DIRECTIONS)
        return self.batch * (len(crews.SPARSE) + self.samples) if phase == "refine" else 0

    def _phase(self, step: int) -> _Phase:
        """Return the phase of a step; the last phase has no end."""
        for phase, steps in zip(_PHASES, (self.explore, self.first, self.refine), strict=False):
            if step < steps:
                return phase
            step -= steps
        return _PHASES[-1]

    def start(self) -> Parameters:
        """Return randomly initialised parameters."""
        working: _Working = {
            "explored": {way: [] for way in crews.DIRECTIONS},
            "scores": {way: [] for way in crews.DIRECTIONS},
            "refined": [],
        }
        return {**nets.start(self.name, SHAPES), "direction": "gather", WORKING: working}

    def step(self, found: Parameters, step: int, cases: Sequence[Case], play: Play) -> Parameters:
        """Run one step of its phase."""
        rng = Random(derive(step, "arg-designer"))
        working: _Working = found[WORKING]
        dense = working["explored"][found["direction"]]
        match self._phase(step):
            case "explore":
                return self._explore(found, cases, play, rng)
            case "learn dense":
                return self._epoch(found, dense, self.rates[0], rng)
            case "refine":
                return self._refine(found, cases, play, rng)
            case "learn sparse":
                replayed = rng.sample(dense, round(REPLAY * len(dense)))
                return self._epoch(found, working["refined"] + replayed, self.rates[1], rng)

    def _explore(
        self, found: Parameters, cases: Sequence[Case], play: Play, rng: Random
    ) -> Parameters:
        """Play dense crews in both directions; keep the better ones, and the better direction."""
        working: _Working = found[WORKING]
        explored, scores = dict(working["explored"]), dict(working["scores"])
        forms = [_of_form(*form) for form in crews.DENSE]
        for way in crews.DIRECTIONS:
            for case in cases:
                played = self._play_all(way, case, forms, play, rng)
                scores[way] = [*scores[way], fmean(utility for utility, _ in played)]
                explored[way] = explored[way] + better(played)
        best = max(crews.DIRECTIONS, key=lambda way: fmean(scores[way]))
        collected = {**working, "explored": explored, "scores": scores}
        return {**found, "direction": best, WORKING: collected}

    def _refine(
        self, found: Parameters, cases: Sequence[Case], play: Play, rng: Random
    ) -> Parameters:
        """Play sparse crews and pruned crews of the designer; keep the better ones."""
        weights = nets.weights_of(found)

        def lean(words: Sequence[str], where: Site, draws: Random) -> Crew:
            return crews.pruned(generate(weights, words, where, draws), draws)

        forms = [*(_of_form(*form) for form in crews.SPARSE), *[lean] * self.samples]
        refined = list(found[WORKING]["refined"])
        for case in cases:
            refined += better(self._play_all(found["direction"], case, forms, play, rng))
        return {**found, WORKING: {**found[WORKING], "refined": refined}}

    def _play_all(
        self, way: Direction, case: Case, forms: Sequence[Assemble], play: Play, rng: Random
    ) -> list[tuple[float, list[Example]]]:
        """Play a case with a crew of every form; return the utility and the crews of each play."""
        played = []
        for assemble in forms:
            organiser = ARGDesigner({}, way, assemble)
            utility = play(organiser, case, rng.getrandbits(60))
            assert organiser.last is not None
            played.append((utility, organiser.last.laid))
        return played

    def _epoch(
        self, found: Parameters, corpus: Sequence[Any], rate: float, rng: Random
    ) -> Parameters:
        """Train for one epoch on the crews, in random order."""
        order = [Example(*each) for each in corpus]
        rng.shuffle(order)
        for begin in range(0, len(order), self.rows):
            weights = nets.weights_of(found, learning=True)
            cost = loss(weights, order[begin : begin + self.rows])
            found = nets.improve(found, weights, cost, rate)
        return found


def _of_form(kind: str, share: float) -> Assemble:
    return lambda words, where, rng: crews.template(kind, share, where, rng)


def better(played: Sequence[tuple[float, list[Example]]]) -> list[Example]:
    """Return the crews that score at least the median of their case and more than its worst.

    If all score the same, the crew made no difference, and none is returned.
    """
    utilities = [utility for utility, _ in played]
    middle, worst = median(utilities), min(utilities)
    return [crew for utility, laid in played if worst < utility >= middle for crew in laid]


def arg_designer(parameters: str) -> Peer:
    """Send along the links of an assembled crew (ARG-Designer, centralised designer).

    Args:
        parameters: file written by `waggle fit arg-designer`.
    """
    found, digest = training.read(Path(parameters), ARGDesigner.name)
    return Peer(ARGDesigner(nets.weights_of(found), found["direction"]), digest)
