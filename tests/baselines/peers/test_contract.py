"""What every organiser is held to: contacts, one frame, seeds, anonymity, resets, frozen weights.

The checks are those of the specification of the peers, section 10. Each is also run on an organiser
with a planted bug, which it must find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import getattr_static
from random import Random
from statistics import fmean
from typing import Any

import msgspec
import pytest

from waggle import plugins
from waggle.baselines.peers import METHODS, arg_designer, dmoa, g_designer, nets
from waggle.baselines.peers.agentnet import AgentNet
from waggle.baselines.peers.conductor import Conductor, Peer
from waggle.baselines.peers.gptswarm import GPTSwarm
from waggle.baselines.peers.organiser import (
    MAX_MEMO,
    NodeView,
    Opening,
    Organiser,
    Outcome,
    RoundPlan,
    Send,
)
from waggle.baselines.peers.solvers import ViewSolver
from waggle.baselines.peers.swarmsys import SwarmSys
from waggle.baselines.peers.training import digest_of
from waggle.core.errors import ConfigError, ContractError
from waggle.core.protocols import Case, World
from waggle.core.record import EpisodeRecord, RoundRecord
from waggle.runtime.attacks import ATTACKS
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import replay
from waggle.runtime.sync import Engine
from waggle.substrates.agentsnet.world import AgentsNetWorld
from waggle.substrates.silo.proposals import Proposer
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.testing.episodes import REGIMES
from waggle.testing.propositions import relabelling
from waggle.workers.hire import hire

SILO = plugins.get_substrate("silo")
CASE = Case("silo", "III-26", 16, 10_000)
MOVING = Case("swarmbench", "foraging", 8, 10_000, 16)
GRAPH = Case("agentsnet", "coloring", 8, 10_000)
CASES = {"silo": CASE, "swarmbench": MOVING, "agentsnet": GRAPH}
_CLASSES = {f"{way} port {p}": w for way, w in (("inward", 1.0), ("level", 0.4)) for p in (0, 1)}
LOGITS = {"16": _CLASSES, "moving 16": _CLASSES}


@cache
def assembler() -> Organiser:
    """Make an ARG-Designer that has seen one crew, of everybody, a few times."""
    pytest.importorskip("torch", reason="needs the law extra")
    fit, found = arg_designer.Fit(), arg_designer.Fit().start()
    everybody = arg_designer.Example(("silo",), 16, [0, 1, 2, 0] * 4, [[True]] * 16)
    for _ in range(20):
        found = fit._epoch(found, [everybody], 1e-2, Random(1))
    return arg_designer.ARGDesigner(nets.weights_of(found), "gather")


@cache
def router() -> Organiser:
    """Make a DMoA that is not trained."""
    pytest.importorskip("torch", reason="needs the law extra")
    return dmoa.DMoA(nets.weights_of(nets.start("dmoa", dmoa.SHAPES)))


@cache
def designer() -> Organiser:
    """Make a G-Designer that is not trained, with most chances above one half."""
    pytest.importorskip("torch", reason="needs the law extra")
    weights = nets.weights_of(nets.start("g-designer", g_designer.SHAPES))
    weights["edge bias"] += 2.5
    return g_designer.GDesigner(weights)


ORGANISERS: dict[str, Callable[[], Organiser]] = {
    "agentnet": AgentNet,
    "arg-designer": assembler,
    "dmoa": router,
    "g-designer": designer,
    "gptswarm": lambda: GPTSwarm(LOGITS),
    "swarmsys": SwarmSys,
}
BANDS = {
    "agentnet": (4.5, 7.5),
    "arg-designer": (2.0, 6.5),
    "dmoa": (3.0, 4.0),
    "g-designer": (3.8, 6.5),
    "gptswarm": (3.8, 6.0),
    "swarmsys": (9.0, 9.0),
}
"""Delivered messages per agent in nine rounds on Silo, set around what was seen: AgentNet stays
below the published 6.6, and GPTSwarm, of drawn graphs, passes the published 5.0."""


def play(organiser: Organiser, case: Case = CASE, **settings: Any) -> EpisodeRecord:
    memory = Memory()
    Engine(world_of(case), Peer(organiser), case, sinks=[memory], **settings).play()
    return memory.record()


@cache
def plain(name: str, substrate: str) -> EpisodeRecord:
    """Play a method as it is, once for all tests that look at its record."""
    return play(ORGANISERS[name](), CASES[substrate])


def world_of(case: Case) -> World:
    return plugins.get_substrate(case.substrate).open(case)


def sends(record: EpisodeRecord) -> list[list[tuple[int, tuple[int, ...]]]]:
    return [
        [(u.node, w.receivers) for u in entry.updates for w in u.writes] for entry in record.rounds
    ]


@pytest.fixture(params=sorted(ORGANISERS))
def organiser(request: pytest.FixtureRequest) -> Organiser:
    return ORGANISERS[request.param]()


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


class Planted:
    """An organiser with a bug, or with an empty plan."""

    name = "planted"

    def __init__(self, bug: str = "", *, centralised: bool = True) -> None:
        self.bug = bug
        self.centralised = centralised
        self.calls = 0

    def begin(self, opening: Opening) -> Any:
        return None

    def plan(self, state: Any, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        self.calls += 1
        if not self.bug:
            return RoundPlan()
        node, view = next(iter(views.items()))
        near = list(view.ports)
        far = next(j for j in range(16) if j not in near and j != node)
        planned = {
            "off contact": (Send(node, far),),
            "two frames": (Send(node, near[0]), Send(node, near[1])),
            "another's name": (Send(far, near[0]),),
            "long memo": (Send(node, near[0], (1,) * (MAX_MEMO + 1)),),
            "long word": (Send(node, near[0], ("x" * 99,)),),
            "memory": (Send(node, near[self.calls % 3]),),
            "index": (Send(min(views), min(views[min(views)].ports)),),
        }
        return RoundPlan(planned[self.bug])

    def feedback(self, state: Any, round: int, outcomes: Sequence[Outcome]) -> None:
        pass


def test_every_method_is_checked_here_and_labelled_as_it_is() -> None:
    assert {*ORGANISERS, "agentdistill"} == set(METHODS)  # which is a law and organises nobody
    for name, make in ORGANISERS.items():
        made = make()
        assert made.name == name
        assert made.centralised == METHODS[name].centralised


# 1: legal contacts, one frame for each node and round


def test_frames_go_to_contacts_one_for_each_node_and_round(organiser: Organiser) -> None:
    world = SILO.open(CASE)
    for entry in sends(plain(organiser.name, "silo")):
        assert len({node for node, _ in entry}) == len(entry)
        for node, receivers in entry:
            assert len(receivers) == 1
            assert receivers[0] in world.neighbours(node)


@pytest.mark.parametrize("case", [MOVING, GRAPH], ids=lambda case: str(case.substrate))
def test_frames_go_to_the_contacts_of_the_moment(organiser: Organiser, case: Case) -> None:
    """A watcher sees the world after a round, when contacts of the next one are known."""
    world = world_of(case)
    found: list[tuple[dict[int, set[int]], int, tuple[int, ...]]] = []
    contacts = [{i: set(world.neighbours(i)) for i in range(case.n)}]

    def watch(entry: RoundRecord, seen: World) -> None:
        found.extend((contacts[-1], u.node, w.receivers) for u in entry.updates for w in u.writes)
        contacts.append({i: set(seen.neighbours(i)) for i in range(case.n)})

    Engine(world, Peer(organiser), case, watch=watch).play()
    assert found
    for then, node, receivers in found:
        assert len(receivers) == 1
        assert receivers[0] in then[node]
    assert (contacts[0] != contacts[-1]) == (case is MOVING)


@pytest.mark.parametrize("bug", ["off contact", "two frames", "long memo", "long word"])
def test_a_plan_beyond_the_limits_ends_the_episode(bug: str) -> None:
    with pytest.raises(ContractError, match="'planted'"):
        play(Planted(bug))


def test_a_local_organiser_cannot_speak_for_another_node() -> None:
    with pytest.raises(ContractError, match="in the name of"):
        play(Planted("another's name", centralised=False))


def test_the_answering_update_has_no_plan_and_sends_nothing() -> None:
    empty = Planted()
    assert len(sends(play(empty))) == 10
    assert empty.calls == 9


# 2: the same seed gives the same log


def test_the_same_seed_gives_the_same_record(organiser: Organiser, case: Case) -> None:
    once = plain(organiser.name, case.substrate)
    assert once == play(organiser, case)
    other = msgspec.structs.replace(case, seed=10_001)
    assert sends(once) != sends(play(organiser, other))


# 3: relabelling permutes the log, also where frames are late or lost


@pytest.mark.parametrize("regime", REGIMES[:4], ids=lambda regime: str(regime.name))
def test_relabelling_permutes_the_record(organiser: Organiser, regime: Any) -> None:
    law = Peer(organiser)
    assert relabelling(SILO, law, CASE, engines=["sync"], regimes=[regime]) is None


@pytest.mark.parametrize("case", [MOVING, GRAPH], ids=lambda case: str(case.substrate))
def test_relabelling_permutes_the_record_elsewhere(organiser: Organiser, case: Case) -> None:
    substrate, law = plugins.get_substrate(case.substrate), Peer(organiser)
    assert relabelling(substrate, law, case, engines=["sync"], regimes=REGIMES[:1]) is None


def test_an_organiser_that_reads_node_numbers_is_found() -> None:
    law = Peer(Planted("index"))
    assert relabelling(SILO, law, CASE, engines=["sync"], regimes=REGIMES[:1]) is not None


# 4: state is reset between episodes


def test_an_episode_leaves_nothing_to_the_next(organiser: Organiser) -> None:
    law, records = Peer(organiser), []
    for case in (CASE, GRAPH, MOVING, CASE, GRAPH, MOVING):
        memory = Memory()
        Engine(world_of(case), law, case, sinks=[memory]).play()
        records.append(memory.record())
    assert records[:3] == records[3:]


def test_an_organiser_that_remembers_is_found() -> None:
    planted = Planted("memory")
    planted.calls = 0
    first = sends(play(planted))
    planted.calls += 1
    assert sends(play(planted)) != first


# 5: frozen parameters stay as they are


def test_playing_leaves_parameters_as_they_are(organiser: Organiser) -> None:
    def digest() -> str:
        found = getattr(organiser, "_weights", LOGITS)
        plain = {
            name: value if isinstance(value, dict) else value.tolist()
            for name, value in found.items()
        }
        return digest_of(plain)

    before = digest()
    play(organiser)
    assert digest() == before


def test_other_parameters_have_another_digest() -> None:
    other = {"16": {**LOGITS["16"], "inward port 0": 1.5}}
    assert digest_of({"logits": other}) != digest_of({"logits": LOGITS})


# 6: an empty plan is NoComm


TASKS = ["silo/I-05", "silo/II-11", "silo/III-26", "swarmbench/pursuit", "swarmbench/foraging"]
TASKS += [f"agentsnet/{name}" for name in plugins.get_substrate("agentsnet").tasks]


@pytest.mark.parametrize("task", TASKS)
def test_an_empty_plan_scores_what_nocomm_scores(task: str) -> None:
    found = plugins.find_task(task)
    rounds = 30 if found.substrate == "swarmbench" else None
    case = Case(found.substrate, found.task, 8, 10_000, rounds)
    substrate = plugins.get_substrate(found.substrate)
    silent = Engine(substrate.open(case), Peer(Planted()), case).play()
    private = Engine(substrate.open(case), plugins.get_law("nocomm"), case).play()
    assert silent.scores == private.scores
    assert silent.counters["messages.attempted"] == 0


# 8: telemetry


@pytest.mark.parametrize("n", [16, 32])
def test_traffic_is_of_the_order_the_paper_reports(organiser: Organiser, n: int) -> None:
    low, high = BANDS[organiser.name]
    drawn = GPTSwarm({}, sampled=True) if organiser.name == "gptswarm" else organiser
    records = [play(drawn, Case("silo", "III-26", n, seed)) for seed in (10_000, 10_001, 10_002)]
    counters = [record.footer.counters for record in records]
    assert low <= fmean(c["messages.delivered"] / n for c in counters) <= high
    assert all(c["messages.attempted"] == c["messages.delivered"] for c in counters)


def test_swarmsys_calls_once_for_work_and_more_for_validation() -> None:
    counters = play(SwarmSys()).footer.counters
    assert 10 * 16 < counters["calls"] <= (9 * 1.5 + 1) * 16


def test_dmoa_calls_once_for_everybody_and_once_more_for_the_activated() -> None:
    counters = play(ORGANISERS["dmoa"]()).footer.counters
    activated = counters["messages.attempted"]
    assert counters["calls"] == 10 * 16 + activated


def test_a_node_that_hears_nothing_solves_at_the_start_and_at_the_end(case: Case) -> None:
    assert play(Planted(), case).footer.counters["calls"] == 2 * case.n


def test_lost_frames_are_attempted_but_not_delivered(organiser: Organiser, case: Case) -> None:
    counters = play(organiser, case, perturbation=Perturbation(loss=0.5)).footer.counters
    assert 0 < counters["messages.delivered"] < counters["messages.attempted"]


# 9: no organiser sees the answer


ANSWERS = (
    (Proposer, "gold"),
    (SwarmEpisode, "score"),
    (AgentsNetWorld, "score"),
    (AgentsNetWorld, "official_answers"),
)
"""What knows answers or scores them."""


class Poisoned:
    """An organiser around another that forbids the answer key while it thinks."""

    def __init__(self, inner: Organiser, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.centralised, self._inner = inner.name, inner.centralised, inner
        self._thinking = False
        for holder, name in ANSWERS:
            monkeypatch.setattr(holder, name, self._guarded(getattr(holder, name)))

    def _guarded(self, answer: Any) -> Any:
        def guarded(*given: Any) -> Any:
            assert not self._thinking, "an organiser asked for the answer"
            return answer(*given)

        return guarded

    def _guard(self, call: Any, *given: Any) -> Any:
        assert not any(_holds_a_world(thing) for thing in given[1:] or given)
        self._thinking = True
        try:
            return call(*given)
        finally:
            self._thinking = False

    def begin(self, opening: Opening) -> Any:
        return self._guard(self._inner.begin, opening)

    def plan(self, state: Any, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        plan: RoundPlan = self._guard(self._inner.plan, state, round, views)
        return plan

    def feedback(self, state: Any, round: int, outcomes: Sequence[Outcome]) -> None:
        self._guard(self._inner.feedback, state, round, outcomes)


def _holds_a_world(thing: Any, depth: int = 6) -> bool:
    """Whether something that scores or knows an answer can be reached from an argument."""
    if hasattr(thing, "score") or hasattr(thing, "gold"):
        return True
    if depth == 0 or isinstance(thing, str | int | float):
        return False
    fields = getattr(thing, "__struct_fields__", None) or getattr(thing, "_fields", None)
    if fields is not None:
        inside = [getattr(thing, name) for name in fields]
    elif isinstance(thing, Mapping):
        inside = list(thing.values())
    elif isinstance(thing, Sequence | frozenset):
        inside = list(thing)
    else:
        inside = list(getattr(thing, "__dict__", {}).values())
    return any(_holds_a_world(part, depth - 1) for part in inside)


def test_no_organiser_is_given_the_answer(
    organiser: Organiser, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = plain(organiser.name, case.substrate)
    assert play(Poisoned(organiser, monkeypatch), case).footer == untouched.footer


def test_a_world_that_is_handed_over_is_found() -> None:
    opening = Opening(SILO.open(CASE).contract, 9, {0: (1,)}, 1)
    assert not _holds_a_world(opening)
    assert _holds_a_world({"deep": [opening, SILO.open(CASE)]})


# The runtime around them


def test_a_record_of_a_peer_replays(organiser: Organiser, case: Case) -> None:
    found = replay(plain(organiser.name, case.substrate), world_of(case))
    assert found.same, found.difference


@pytest.mark.parametrize("attack", ATTACKS)
def test_peers_play_among_byzantine_nodes(organiser: Organiser, attack: Any) -> None:
    """A node that writes something else sends frames without a memo."""
    record = play(organiser, perturbation=Perturbation(byzantine=0.25, attack=attack))
    assert len(record.rounds) == 10


def test_silent_nodes_are_silent_under_peers_too(organiser: Organiser) -> None:
    record = play(organiser, perturbation=Perturbation(byzantine=0.25))
    assert sends(record) != sends(plain(organiser.name, "silo"))


def test_peers_are_refused_where_they_cannot_be_played() -> None:
    with pytest.raises(ContractError, match="whole episodes"):
        Peer(SwarmSys()).decide([])
    with pytest.raises(ConfigError, match="sync"):
        EventEngine(SILO.open(CASE), Peer(SwarmSys()), CASE)


def test_a_memo_arrives_with_its_own_frame_however_late() -> None:
    heard: list[tuple[int, int]] = []

    class Counting(Planted):
        def plan(self, state: Any, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
            for view in views.values():
                heard.extend((round, int(received.memo[0])) for received in view.inbox)
            return RoundPlan(
                tuple(Send(i, next(iter(v.ports)), (round,)) for i, v in views.items())
            )

    play(Counting(), perturbation=Perturbation(delay=2))
    assert {now - sent for now, sent in heard} == {1, 2, 3}


def test_a_local_organiser_sees_one_node_and_a_designer_all() -> None:
    seen: list[int] = []

    class Counting(Planted):
        def begin(self, opening: Opening) -> Any:
            seen.append(len(opening.contacts))

    world = SILO.open(CASE)
    Conductor(Counting(), ViewSolver(), world, CASE)
    Conductor(Counting(centralised=False), ViewSolver(), world, CASE)
    assert seen == [16] + [1] * 16


def test_private_workers_are_hired_for_organised_nodes_on_every_python() -> None:
    """From Python 3.12 on a protocol is looked for without `__getattr__`."""
    world = Conductor(AgentNet(), ViewSolver(), SILO.open(CASE), CASE).world
    assert all(getattr_static(world, name, None) for name in ("staff", "work", "adopt"))
    memory = Memory()
    Engine(SILO.open(CASE), Peer(AgentNet()), CASE, staff=hire("native"), sinks=[memory]).play()
    assert memory.record().footer.counters["worker.calls"] > 0
    assert replay(memory.record(), SILO.open(CASE)).same
