"""AgentNet (arXiv 2504.00587): tokens routed over weighted links by forward, split and execute.

From the paper: every agent is a router and an executor with bounded memories. A task token is
forwarded unchanged, split (own part done, the rest sent on) or executed. Link weights follow
success, and weak links are pruned; a visited set keeps a route free of cycles.
From the paper rather than the released code: weights move as an average, w <- 0.7 w + 0.3 S, and a
link at 0.3 or below is pruned; the released factor of 0.9 could prune nothing in nine rounds.
Our changes: a token is the snapshot that a frame carries, and every node originates one. In
continuing tasks, SwarmBench and graphs, a node originates another when its own observation or
answer has changed. A rule replaces the language model of the router. The need of a token and the
ability of a contact are spans of coverage bins, since views name no pieces. Visited nodes are
identified by nonces drawn for the episode. Success of a frame is its receiver's local gain. One
link always stays, so that every node can send. The entry agent is not chosen globally. There is no
training; state lasts for one episode, and each node is planned separately.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from waggle.baselines.peers.conductor import Peer
from waggle.baselines.peers.encoder import Vector, levels, similarity
from waggle.baselines.peers.organiser import (
    Memo,
    NodeView,
    Opening,
    Outcome,
    RoundPlan,
    Send,
    held_bins,
    offer,
)
from waggle.core.schema import MAX_BIN

Choice: TypeAlias = Literal["forward", "split", "execute"]


@dataclass(frozen=True)
class Constants:
    """The constants of the router; only `tau` may be tuned, on development seeds."""

    tau: float = 0.3
    """The score that a contact must exceed for a token to be forwarded."""
    average: float = 0.7
    prune: float = 0.3
    start: float = 0.6
    """Initial ability of a contact."""
    step: float = 0.1
    cap: float = 2.0
    load: int = 3
    hops: int = 3
    """Largest number of consecutive forwards of a token."""
    memory: int = 40
    recalled: int = 3
    alike: float = 0.7


class Token(NamedTuple):
    """A task in transit: the nodes that have handled it, and its progress."""

    visited: tuple[int, ...]
    hops: int
    held: int
    """Bins of coverage that it carries."""
    came_from: int | None


class _Experience(NamedTuple):
    need: Vector
    choice: Choice
    success: bool


@dataclass
class Link:
    """The record that a node keeps of one contact."""

    weight: float = 1.0
    success: float = 1.0
    ability: float = 0.6
    nonce: int = 0
    queue: int = 0
    held: int = 0


@dataclass
class Router:
    """The state of one node."""

    task: str
    nonce: int
    links: dict[int, Link]
    tokens: deque[Token]
    memory: deque[_Experience]
    sent: dict[int, tuple[Vector, Choice]] = field(default_factory=dict)
    """By contact: need and choice of the frame whose outcome is pending."""
    news: Hashable = None
    """The node's own claims and answer when it last checked for a new token."""


_ADVERT = 5
"""Entries of a memo before the nonces of the visited nodes."""
_VISITED = 10
"""Most nonces in a memo; a token visits no more nodes in nine rounds."""


class AgentNet:
    """Route tokens by forward, split and execute over links that learn."""

    name: ClassVar[str] = "agentnet"
    centralised: ClassVar[bool] = False

    def __init__(self, constants: Constants | None = None) -> None:
        self._own = constants or Constants()

    def begin(self, opening: Opening) -> Router:
        """Return a router with links of full weight and one token of the node itself."""
        ((_, contacts),) = opening.contacts.items()
        nonce = opening.seed % 2**32
        links = {j: Link(ability=self._own.start) for j in contacts}
        own = Token((nonce,), 0, 0, None)
        memory: deque[_Experience] = deque(maxlen=self._own.memory)
        return Router(opening.contract.task, nonce, links, deque([own]), memory)

    def feedback(self, state: Router, round: int, outcomes: Sequence[Outcome]) -> None:
        """Update the weight, ability and memory of every link whose frame arrived."""
        own = self._own
        for _, contact, gain in outcomes:
            link = state.links.setdefault(contact, Link(ability=own.start))
            success = gain > 0
            link.weight = own.average * link.weight + (1 - own.average) * success
            link.success = 0.9 * link.success + 0.1 * success
            link.ability = min(own.cap, link.ability + own.step * success)
            if contact in state.sent:
                need, choice = state.sent.pop(contact)
                state.memory.append(_Experience(need, choice, success))

    def plan(self, state: Router, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Queue the received tokens, then handle the oldest one."""
        ((node, view),) = views.items()
        for received in view.inbox:
            self._take(state, received.sender, received.memo)
        self._originate(state, view)
        if not state.tokens:
            return RoundPlan()
        token = state.tokens.popleft()
        held = held_bins(view)
        need = levels(state.task, min(held, token.held), MAX_BIN)
        best = self._best(state, view, token, need)
        choice = self._route(state, view, token, need, best)
        if choice == "execute" or best is None:
            return RoundPlan()
        contact, _ = best
        state.sent[contact] = need, choice
        hops = token.hops + 1 if choice == "forward" else 0
        carried = token.held if choice == "forward" else max(held, token.held)
        visited = tuple(dict.fromkeys((*token.visited, state.nonce)))[-_VISITED:]
        memo = (state.nonce, len(state.tokens), held, hops, carried, *visited)
        return RoundPlan((Send(node, contact, memo),))

    def _take(self, state: Router, sender: int, memo: Memo) -> None:
        """Store the advertised state of a contact and queue its token, if the frame has them."""
        if len(memo) <= _ADVERT:
            return
        nonce, queue, held, hops, carried, *visited = map(int, memo)
        link = state.links.setdefault(sender, Link(ability=self._own.start))
        link.nonce, link.queue, link.held = nonce, queue, held
        state.tokens.append(Token(tuple(visited), hops, carried, sender))

    def _originate(self, state: Router, view: NodeView) -> None:
        """Queue a token of the node itself if its own claims or answer have changed."""
        private = view.view.private
        if private.coverage is not None:
            return
        seen = frozenset(e.claim for e in private.evidence if e.novelty == MAX_BIN)
        news = seen, private.observation.get("answer")
        if news != state.news:
            state.news = news
            if seen and not any(token.came_from is None for token in state.tokens):
                state.tokens.append(Token((state.nonce,), 0, 0, None))

    def _best(
        self, state: Router, view: NodeView, token: Token, need: Vector
    ) -> tuple[int, float] | None:
        """Return the live link with the highest score that the token has not visited."""
        fresh = {
            j: self._score(state, j, need)
            for j in live_links(state, list(view.ports), self._own.prune)
            if state.links[j].nonce not in token.visited and j != token.came_from
        }
        if not fresh:
            return None
        contact = max(fresh, key=lambda j: (fresh[j], offer(view, j)))
        return contact, fresh[contact]

    def _score(self, state: Router, contact: int, need: Vector) -> float:
        link, own = state.links[contact], self._own
        gain = similarity(need, levels(state.task, 0, link.held))
        ability = (link.ability + gain) / 2
        room = 1 - min(link.queue, own.load) / own.load
        return 0.4 * ability + 0.3 * room + 0.2 * link.success + 0.1

    def _route(
        self,
        state: Router,
        view: NodeView,
        token: Token,
        need: Vector,
        best: tuple[int, float] | None,
    ) -> Choice:
        """Choose what to do with one token: by rule, or by experience in borderline cases."""
        if view.solution.ready or best is None:
            return "execute"
        adds = 15 if token.came_from is None else offer(view, token.came_from)
        may_forward = token.hops < self._own.hops and best[1] > self._own.tau
        if adds == 1 and may_forward:
            return self._recall(state, need) or "split"
        if adds:
            return "split"
        return "forward" if may_forward else "execute"

    def _recall(self, state: Router, need: Vector) -> Choice | None:
        """Return the choice that succeeded most often for similar needs, or None."""
        near = [(similarity(e.need, need), e.choice) for e in state.memory if e.success]
        close = sorted((x for x in near if x[0] >= self._own.alike), reverse=True)
        votes = Counter(choice for _, choice in close[: self._own.recalled])
        return votes.most_common(1)[0][0] if votes else None


def live_links(state: Router, contacts: Sequence[int], prune: float) -> list[int]:
    """Return the links that are not pruned, or the strongest one if all would be pruned."""
    for contact in contacts:
        state.links.setdefault(contact, Link())
    live = [j for j in contacts if state.links[j].weight > prune]
    return live or sorted(contacts, key=lambda j: -state.links[j].weight)[:1]


def agentnet(tau: float = Constants.tau) -> Peer:
    """Route tokens by forward, split and execute over links that learn (AgentNet).

    Args:
        tau: score that a contact must exceed for a token to be forwarded.
    """
    return Peer(AgentNet(Constants(tau=tau)))
