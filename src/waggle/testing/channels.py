"""Two checks that the law, not the adapter, organises the swarm.

*Nothing travels unseen.* The effect of a delivery is a function of the trace as admitted and of the
part of the writer's view that concerns its claim. Writes of several episodes are compared: if two
writers saw and decided the same over different hidden states, their payloads are delivered to the
same receiver in two copies of one world. From then on both copies must look and act alike.

This compares payloads. A `receive` that looks something up on arrival instead is not found.

*The law chooses.* A decided action is executed, whatever was delivered or is held: a step is
repeated without the last deliveries, fields and commitments, and must give the same native action.
A world may refuse an action, as if the node had waited; it may not execute another one instead. If
a law follows a claim, by name or by intent FIELD on a held claim, only the first check applies. An
action that always becomes what the private proposal becomes, and is no wait, is not executed.

Both checks call only the hooks of a World, and copy it.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any, NamedTuple, cast

import msgspec

from waggle import plugins
from waggle.core.protocols import Act, Case, HeldTrace, Local, Sensed, Substrate, World, Write
from waggle.core.schema import WAIT, Contract, action_argument, takes_channel, takes_claim
from waggle.runtime.sync import Engine
from waggle.testing.episodes import permutation, short

WRITERS = ("relay", "heuristic")
"""Laws that write a lot: one that relays all it sees, and a sensible one."""
ACTORS = ("heuristic", "random-legal")
"""Laws whose actions are repeated: a sensible one, and one that tries everything."""
SEEDS = 6
"""The number of different worlds whose writes are compared."""
ROUNDS = 30
"""Rounds after which an episode is cut."""
PAIRS = 32
"""The most pairs of different payloads that are compared for each law."""
TRIES = 6
"""The least tries of an action after which it can count as never executed."""
AFTERWARDS = 6
"""Rounds for which two copies are compared after a delivery."""
WORD = 16
"""The longest text of an observation that counts as a bin; a longer one is a picture."""

_NOTHING = Local((), None)
_PROBES: tuple[tuple[str | None, bool], ...] = (("FIELD", False), ("FIELD", True), (None, True))
"""Intents of the rounds after a delivery, and whether its receiver is committed to the claim.
Without an intent its action names the claim, if the contract has such an action."""


class Episode(NamedTuple):
    """Everything that determines an episode."""

    case: Case
    law: str
    keys: tuple[int, ...]


class SentMessage(NamedTuple):
    """One message, with everything that its writer saw and decided."""

    episode: Episode
    round: int
    write: Write
    payload: object
    sensed: Sensed
    local: Local
    act: Act


class Turn(NamedTuple):
    """One step of an episode."""

    round: int
    earlier: World
    """The world after the previous step, without the deliveries that followed."""
    world: World
    """The world just before this step."""
    acts: Mapping[int, Act]
    shown: Mapping[int, Sensed]


class WatchedWorld:
    """A wrapper that records the views, writes and steps of a world while it is played."""

    def __init__(self, world: World, episode: Episode, copies: bool) -> None:
        self._world, self._episode, self._copies = world, episode, copies
        self._round = 0
        self._shown: dict[int, tuple[Sensed, Local]] = {}
        self._written: list[tuple[Write, object]] = []
        self.sent: list[SentMessage] = []
        self.turns: list[Turn] = []
        self.after = [_copied(world)]
        """The world before the first and after every step, without the deliveries that follow."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def sense(self, node: int, local: Local) -> Sensed:
        """Record what the node sees in this round."""
        sensed = self._world.sense(node, local)
        self._shown[node] = sensed, local
        return sensed

    def payload(self, write: Write) -> object:
        """Record the write with its payload."""
        payload = self._world.payload(write)
        self._written.append((write, payload))
        return payload

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Record the decisions of this round's writers, and the turn."""
        for write, payload in self._written:
            seen, act = self._shown[write.sender], acts[write.sender]
            self.sent.append(SentMessage(self._episode, self._round, write, payload, *seen, act))
        self._written = []
        if self._copies:
            shown = {i: self._shown[i][0] for i in acts}
            before = _copied(self._world)
            self.turns.append(Turn(self._round, self.after[-1], before, acts, shown))
        native = self._world.step(acts)
        if self._copies:
            self.after.append(_copied(self._world))
        self._round += 1
        return native


def _watch(substrate: Substrate, episode: Episode, *, copies: bool = False) -> WatchedWorld:
    """Play one episode and return the watched world."""
    case, law, keys = episode
    watched = WatchedWorld(substrate.open(case, keys), episode, copies)
    Engine(cast(World, watched), plugins.get_law(law), case).play()
    return watched


def declares_snapshots(substrate: Substrate, case: Case) -> bool:
    """Return whether the world of a case declares that its frames carry task data."""
    return bool(getattr(substrate.open(case), "snapshots", False))


def unseen(substrate: Substrate, case: Case) -> Iterator[str]:
    """Yield a finding for each payload that carries more than its writer's view showed."""
    if declares_snapshots(substrate, case):
        return
    case = short(substrate, case, ROUNDS)
    for law in WRITERS:
        played = [_watch(substrate, _episode(case, law, k)).sent for k in range(SEEDS)]
        sent = [one for episode in played for one in episode]
        names_nodes = _names_nodes(substrate, _episode(case, law), played[0])
        alike: dict[Hashable, list[SentMessage]] = defaultdict(list)
        for one in sent:
            nodes = (one.write.sender, one.write.receiver) if names_nodes else ()
            alike[(_visible(one), nodes)].append(one)
        pairs = (pair for group in alike.values() for pair in _different(group))
        for one, two in islice(pairs, PAIRS):
            found = _compare(substrate, one, two.payload)
            if found is not None:
                yield (
                    f"round {one.round}: two writers saw and decided the same, one sent "
                    f"{_clip(one.payload)}, the other {_clip(two.payload)}, and {found}; send "
                    "along only what the view shows of the claim, in its bins"
                )


def _episode(case: Case, law: str, offset: int = 0) -> Episode:
    own = msgspec.structs.replace(case, seed=case.seed + offset)
    return Episode(own, law, tuple(range(case.n)))


def _names_nodes(substrate: Substrate, episode: Episode, sent: Sequence[SentMessage]) -> bool:
    """Return whether payloads depend on node labels, so that those of two writers may differ."""
    case = episode.case
    other = episode._replace(keys=permutation(case.n, case.seed))

    def payloads(keys: Sequence[int], sent: Sequence[SentMessage]) -> dict[Hashable, object]:
        return {
            (s.round, keys[s.write.sender], keys[s.write.receiver], s.write.claim): s.payload
            for s in sent
        }

    relabelled = payloads(other.keys, _watch(substrate, other).sent)
    return payloads(episode.keys, sent) != relabelled


def _visible(sent: SentMessage) -> Hashable:
    """Return a key of the claim's rows in the writer's view and of all that the writer decided.

    The round is part of the key: payloads may count rounds, as all nodes do.
    """
    write, sensed, local, act = sent.write, sent.sensed, sent.local, sent.act
    claim, receiver, proposal = write.claim, write.receiver, sensed.proposal

    def of_claim(rows: Sequence[Any]) -> tuple[tuple[object, ...], ...]:
        own = [row for row in rows if row.claim == claim]
        found = ((r.novelty, r.support, r.conflict, getattr(r, "ttl", 0), r.direction) for r in own)
        return tuple(sorted(found, key=repr))

    return (
        sent.round, write.novelty, write.support, write.conflict, write.ttl, write.direction,
        write.fresh, _facts(sensed.claims.get(claim)), of_claim(sensed.evidence),
        of_claim(local.traces), _facts(sensed.ports.get(receiver)), sensed.coverage,
        claim in sensed.ready,
        _facts({k: v for k, v in sensed.observation.items() if _is_bin(v)}),
        proposal.action, proposal.target == receiver, proposal.claim == claim,
        act.action, act.target == receiver, act.claim == claim, act.response == claim, act.intent,
        local.commitment == claim, act.local.commitment == claim,
    )  # fmt: skip


def _facts(row: Mapping[str, Any] | None) -> Hashable:
    return None if row is None else tuple(sorted(row.items()))


def _is_bin(value: object) -> bool:
    """Return whether a value of an observation is a number or a word."""
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= WORD)


def _different(group: Sequence[SentMessage]) -> Iterator[tuple[SentMessage, SentMessage]]:
    """Yield each message with the first earlier one that has a different payload."""
    for place, one in enumerate(group):
        two = next((other for other in group[:place] if other.payload != one.payload), None)
        if two is not None:
            yield one, two


def _compare(substrate: Substrate, sent: SentMessage, other: object) -> str | None:
    """Deliver a write with its own payload and with another one; return the first difference."""
    write, world = sent.write, _watch(substrate, sent.episode, copies=True).after[sent.round + 1]
    here, there = _copied(world), _copied(world)
    got, same = here.receive(write, sent.payload), there.receive(write, other)
    if got != same:
        return f"the receiver got {_clip(got)} and {_clip(same)}"
    if got is None:
        return None
    held = HeldTrace(
        got.sender, got.claim, got.novelty, got.support, got.conflict, got.ttl, got.direction
    )
    for later in range(AFTERWARDS):
        intent, committed = _PROBES[later % len(_PROBES)]
        own = Local((held,), got.claim if committed else None, int(committed))
        one, two = (_look(each, write.receiver, own) for each in (here, there))
        if one != two:
            return f"{later + 1} rounds later a view differs: {_first(one, two)}"
        acts = {i: _proposed(sensed, intent, _NOTHING) for i, (_, sensed) in one.items()}
        if write.receiver in acts:
            act = _proposed(one[write.receiver][1], intent, own)
            acts[write.receiver] = _naming(world.contract, act)
        if here.step(acts) != there.step(acts):
            return f"{later + 1} rounds later equal decisions give different native actions"
        if here.done() or there.done():
            break
    return None


def _look(world: World, node: int, own: Local) -> dict[int, tuple[tuple[int, ...], Sensed]]:
    """Return the contacts and view of every active node; only `node` has the local state `own`."""
    return {
        i: (tuple(world.neighbours(i)), world.sense(i, own if i == node else _NOTHING))
        for i in world.active()
    }


def _first(one: Mapping[int, tuple[object, Sensed]], two: Mapping[int, Any]) -> str:
    """Quote the first part of a view that differs."""
    for node, (_, sensed) in one.items():
        other = two.get(node, ((), None))[1]
        for name in Sensed.__struct_fields__:
            a, b = getattr(sensed, name), getattr(other, name, None)
            if a != b:
                return f"{name} {_clip(a)} and {_clip(b)}"
    return "others are active or in contact"


def _proposed(sensed: Sensed, intent: str | None, local: Local) -> Act:
    """Return the proposed act, with the given intent."""
    proposal = sensed.proposal
    return Act(proposal.action, proposal.target, proposal.response, intent, local)


def _naming(contract: Contract, act: Act) -> Act:
    """Name the held claim in the action, if the act has no intent and the contract allows it."""
    verbs = [action_argument(action)[0] for action in contract.actions if takes_claim(action)]
    if not verbs or act.intent is not None:
        return act
    return Act(verbs[0], None, None, None, act.local, act.local.commitment)


def overridden(substrate: Substrate, case: Case) -> Iterator[str]:
    """Yield a finding for each decided action that deliveries or held state override."""
    ignored: dict[str, list[bool]] = defaultdict(list)
    for law in ACTORS:
        episode = _episode(short(substrate, case), law)
        for turn in _watch(substrate, episode, copies=True).turns:
            yield from _overridden(turn, turn.acts)
            for intent in (None, "PRIVATE", "FIELD"):
                yield from _overridden(turn, _any_acts(turn, intent))
            for action, same in _ignored(turn):
                ignored[action].append(same)
    for action, tries in ignored.items():
        if len(tries) >= TRIES and all(tries):
            yield (
                f"{action!r} was done as the private proposal in each of {len(tries)} tries; do "
                "what the law says, or nothing"
            )


def _ignored(turn: Turn) -> Iterator[tuple[str, bool]]:
    """Yield the actions other than the proposed ones, and whether they were done as those."""
    decided = _any_acts(turn, None)
    proposed = {
        i: act if act.action == WAIT else _proposed(turn.shown[i], None, act.local)
        for i, act in decided.items()
    }
    waiting = {i: msgspec.structs.replace(act, action=WAIT) for i, act in proposed.items()}
    worlds = [_copied(turn.world) for _ in range(3)]
    plans = decided, proposed, waiting
    done, meant, waited = (world.step(a) for world, a in zip(worlds, plans, strict=True))
    # Where native texts do not tell actions apart, views or scores may.
    one, two = ((world.score(), _look(world, -1, _NOTHING)) for world in worlds[:2])
    for node, act in decided.items():
        if act.action not in (WAIT, proposed[node].action):
            same = done.get(node) == meant.get(node) != waited.get(node)
            yield act.action, same and one == two


def _any_acts(turn: Turn, intent: str | None) -> dict[int, Act]:
    """Give every node an action of the contract and a commitment to a claim in its view.

    Intent FIELD has no commitment: a law that holds nothing has chosen no claim to follow.
    """
    contract = turn.world.contract
    found = {}
    for node, act in turn.acts.items():
        sensed, contacts = turn.shown[node], turn.world.neighbours(node)
        known = [t.claim for t in act.local.traces] + [e.claim for e in sensed.evidence]
        known = [] if intent == "FIELD" else known
        lot = turn.round + node
        action = contract.actions[lot % len(contract.actions)]
        answer = sensed.proposal.response if action == contract.response else None
        target = contacts[lot % len(contacts)] if takes_channel(action) and contacts else None
        local = Local(act.local.traces, known[lot % len(known)] if known else None, 1)
        if "@" not in action or target is not None:
            found[node] = Act(action_argument(action)[0], target, answer, intent, local)
        else:
            found[node] = act
    return found


def _overridden(turn: Turn, acts: Mapping[int, Act]) -> Iterator[str]:
    """Take a step with and without deliveries and held state; yield the actions that differ."""
    plain = {i: msgspec.structs.replace(act, local=_NOTHING) for i, act in acts.items()}
    done, said = _copied(turn.world).step(acts), _copied(turn.earlier).step(plain)
    for node, act in acts.items():
        if _follows(act) or WAIT in (act.action, act.intent):
            continue
        if said.get(node) != done.get(node) and not _refused(turn, acts, node):
            yield (
                f"round {turn.round}: {act.action!r} was done as {done.get(node)!r}, and as "
                f"{said.get(node)!r} where nothing was heard and nothing is held; do what the law "
                "says, or nothing"
            )


def _follows(act: Act) -> bool:
    """Return whether the law chose a claim to follow."""
    held = act.local.commitment is not None
    return act.claim is not None or (act.intent == "FIELD" and held)


def _refused(turn: Turn, acts: Mapping[int, Act], node: int) -> bool:
    """Return whether the node did nothing: the same as waiting, or no action of its contract."""
    waiting = msgspec.structs.replace(acts[node], action=WAIT, intent=WAIT)
    worlds = _copied(turn.world), _copied(turn.world)
    done = worlds[0].step(acts).get(node)
    waited = worlds[1].step({**acts, node: waiting}).get(node)
    if done == waited or done in turn.world.contract.actions:
        return done == waited
    one, two = (_look(world, node, acts[node].local) for world in worlds)
    return one == two and worlds[0].score() == worlds[1].score()


def _clip(value: object, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _copied(world: World) -> World:
    """Return a copy of a world; pickle makes it five times as fast as `deepcopy`."""
    try:
        found: World = pickle.loads(pickle.dumps(world, pickle.HIGHEST_PROTOCOL))
    except (pickle.PicklingError, AttributeError, TypeError):  # a world with a lambda, say
        return deepcopy(world)
    return found
