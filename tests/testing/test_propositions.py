"""Propositions 1 and 2 and Corollary 1, for every registered substrate and deterministic law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeAlias

import msgspec
import pytest

from tests.testing import planted as bugs
from tests.testing.soundness import asymmetry, unfounded
from waggle import plugins
from waggle.baselines.peers import METHODS
from waggle.core.order import Order
from waggle.core.protocols import Act, Case, Decode, Law, Local, Request, Sensed, Suggestion
from waggle.core.record import EpisodeRecord
from waggle.core.schema import Contract, Evidence, Port
from waggle.core.world import WorldBase
from waggle.laws.heuristic import Heuristic
from waggle.runtime import sync
from waggle.runtime.perturb import Schedule
from waggle.runtime.recorder import Memory
from waggle.substrates.beacon import Beacon
from waggle.testing.episodes import (
    ENGINES,
    REGIMES,
    EngineName,
    Regime,
    permutation,
    play,
    shocked,
    short,
)
from waggle.testing.propositions import first_difference, relabelling

LAWS = (
    "constant", "expert", "first-listed", "fixedswarm", "heuristic", "max-offer", "nativemsg",
    "nocomm", "private-only", "random-legal", "random-port", "relay", "round-robin",
)  # fmt: skip
WITH_A_MODEL = (
    "adapted", "chat", "local", "nano", "zero-shot", "zero-shot-constrained",
)  # fmt: skip
EXACT = (
    "expert", "fixedswarm", "heuristic", "max-offer", "nativemsg", "nocomm", "private-only",
    "relay", "round-robin",
)  # fmt: skip
"""Laws that are equivariant under any presentation of their views."""
NAMES = [regime.name for regime in REGIMES]
Pair: TypeAlias = tuple[EngineName, Regime]
N, ROUNDS, SEED = 6, 6, 10_003


def chosen_tasks() -> list[plugins.Task]:
    """Every task, but of Silo's thirty only one of each level and those with counterevidence."""
    few = ("I-05", "I-08", "II-15", "III-22", "III-26")
    return [task for task in plugins.tasks() if task.substrate != "silo" or task.task in few]


TASKS = chosen_tasks()
FEW = ("beacon", "silo/III-26", "swarmbench/pursuit", "swarmbench/foraging", "agentsnet/matching")
"""Tasks whose views are played in canonical order too: one of each kind."""


def some_pairs(task: plugins.Task, law: str) -> tuple[Pair, Pair]:
    """One engine with one of the lesser regimes in turn, the other with everything at once."""
    *others, everything = REGIMES
    lesser = list(product(others, (ENGINES, ENGINES[::-1])))
    regime, (one, other) = lesser[(TASKS.index(task) + LAWS.index(law)) % len(lesser)]
    return (one, regime), (other, everything)


def test_every_task_and_every_law_meets_every_regime_on_every_engine() -> None:
    every = set(product(ENGINES, NAMES))
    met = {(t, law): some_pairs(t, law) for t, law in product(TASKS, LAWS)}
    for task in TASKS:
        assert {(e, r.name) for (t, _), some in met.items() if t == task for e, r in some} == every
    for law in LAWS:
        assert {(e, r.name) for (_, x), some in met.items() if x == law for e, r in some} == every


def test_no_registered_law_is_left_out() -> None:
    built_in = {entry.name for entry in plugins.entries("law") if entry.origin == "waggle"}
    assert built_in == {*LAWS, *WITH_A_MODEL, *METHODS, "organised", "scripted"}


def case_of(task: plugins.Task) -> Case:
    substrate = plugins.get_substrate(task.substrate)
    return short(substrate, shocked(substrate, Case(task.substrate, task.task, N, SEED)), ROUNDS)


def differs(task: plugins.Task, law: str, pairs: Sequence[Pair], order: Order) -> str | None:
    """Return the first difference that relabelling makes under some of these pairs."""
    substrate, case = plugins.get_substrate(task.substrate), case_of(task)
    for engine, regime in pairs:
        found = relabelling(
            substrate, plugins.get_law(law), case, order=order, engines=(engine,), regimes=(regime,)
        )
        if found is not None:
            return found
    return None


@pytest.mark.parametrize("law", LAWS)
def test_relabelled_swarms_give_relabelled_trajectories(law: str) -> None:
    found = {t.name: differs(t, law, some_pairs(t, law), "shuffled") for t in TASKS}
    assert found == dict.fromkeys(found)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_they_do_in_every_regime(law: str) -> None:
    every: list[Pair] = list(product(ENGINES, REGIMES))
    found = {t.name: differs(t, law, every, "shuffled") for t in TASKS}
    assert found == dict.fromkeys(found)


@pytest.mark.parametrize("law", EXACT)
def test_they_do_in_canonical_order_too(law: str) -> None:
    found = {}
    for task in (task for task in TASKS if task.name in FEW):
        (one, _), whole = some_pairs(task, law)
        found[task.name] = differs(task, law, ((one, REGIMES[0]), whole), "canonical")
    assert found == dict.fromkeys(FEW)


@pytest.mark.parametrize("seed", range(10_010, 10_013))
def test_they_do_for_other_seeds_sizes_and_relabellings(seed: int) -> None:
    case = Case("beacon", "beacon", 13 + seed % 5, seed, rounds=12, shock=True)
    assert relabelling(Beacon(), Heuristic(), case) is None


@pytest.mark.parametrize(("law", "seed"), [("random-legal", 10_000), ("expert", 10_007)])
def test_they_do_where_two_contacts_send_one_claim_with_other_data(law: str, seed: int) -> None:
    made, case = plugins.get_substrate("silo"), Case("silo", "III-26", 16, seed, 24, shock=True)
    one, two = (
        play(made, plugins.get_law(law), case, keys=keys)
        for keys in (None, permutation(case.n, seed + 1))
    )
    assert first_difference(one, two) is None


def test_a_relabelled_swarm_really_has_other_numbers_and_names() -> None:
    case = Case("beacon", "beacon", N, SEED, rounds=6)
    keys = permutation(N, SEED)
    assert keys != tuple(range(N))
    one, two = (
        play(Beacon(), Heuristic(), case),
        play(Beacon(), Heuristic(), case, keys=keys, salt=1),
    )
    assert one.rounds != two.rounds
    assert first_difference(one, two) is None


@pytest.mark.parametrize("law", [bugs.NameReader(), bugs.ClaimReader()])
def test_a_law_that_reads_names_fails(law: bugs.PlantedLaw) -> None:
    case = Case("beacon", "beacon", N, SEED, rounds=ROUNDS)
    assert relabelling(Beacon(), law, case) is not None


def test_a_view_that_leaks_an_index_fails() -> None:
    leaking = bugs.planted(bugs.LeakingWorld)
    found = relabelling(leaking, Heuristic(), Case("beacon", "beacon", N, SEED, rounds=ROUNDS))
    assert found is not None and "view" in found and "mood" in found


@pytest.mark.parametrize(("engine", "regime"), [("sync", 2), ("event", 2), ("event", 4)])
def test_a_schedule_that_draws_by_node_number_fails(
    engine: str, regime: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_number(self: Schedule, p: object, seed: int, keys: Sequence[int], rounds: int) -> None:
        original(self, p, seed, range(len(keys)), rounds)  # type: ignore[arg-type]

    original = Schedule.__init__
    case = Case("beacon", "beacon", N, SEED, rounds=12)
    arguments = {"engines": (engine,), "regimes": (REGIMES[regime],)}
    assert relabelling(Beacon(), Heuristic(), case, **arguments) is None  # type: ignore[arg-type]
    monkeypatch.setattr(Schedule, "__init__", by_number)
    assert relabelling(Beacon(), Heuristic(), case, **arguments) is not None  # type: ignore[arg-type]


def test_cancelled_calls_are_relabelled_with_the_rest() -> None:
    case = Case("beacon", "beacon", 16, SEED, rounds=16, shock=True)
    record = play(
        Beacon(), Heuristic(), case, engine="event", perturbation=REGIMES[-1].perturbation
    )
    bottoms = {u.bottom for entry in record.rounds for u in entry.updates}
    assert bottoms - {None}
    assert relabelling(Beacon(), Heuristic(), case, regimes=REGIMES[-1:]) is None


@pytest.mark.parametrize("law", LAWS)
def test_no_executed_write_is_unfounded(law: str) -> None:
    case = Case("beacon", "beacon", 12, SEED, shock=True)
    for engine in ("sync", "event"):
        record = play(Beacon(), plugins.get_law(law), case, engine=engine)
        assert unfounded(record) is None


@pytest.mark.parametrize("law", [bugs.Amplifier(), bugs.LongLiver()])
def test_an_amplifying_relay_is_stopped_and_would_be_seen(
    law: bugs.PlantedLaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("beacon", "beacon", 12, SEED, shock=True)
    admitted = play(Beacon(), law, case)
    assert unfounded(admitted) is None
    assert admitted.footer.counters["stage.projected"] > 0
    monkeypatch.setattr("waggle.runtime.repair.violations", lambda view, decision: ())
    assert unfounded(play(Beacon(), law, case)) is not None


class Ring(WorldBase):
    """Nodes on a ring that all see the same: every rotation and reflection is a symmetry."""

    rounds = 8
    refresh = 1

    def __init__(self, n: int, broadcast: bool, lots: bool = False) -> None:
        self.n, self.keys = n, tuple(range(n))
        self.contract = Contract("ring", "Agree.", ("GO", "WAIT"), broadcast=broadcast)

    def neighbours(self, node: int) -> Sequence[int]:
        return [(node + 1) % self.n, (node - 1) % self.n]

    def sense(self, node: int, local: Local) -> Sensed:
        heard = {held.claim for held in local.traces}
        refuted = "berry" if local.commitment == "berry" and len(heard) == 2 else None
        evidence = [Evidence("berry", 4, 3, 0), Evidence("apple", 4, 2, 0)]
        if refuted:
            evidence.append(Evidence(refuted, 4, 0, 4))
        return Sensed({}, Suggestion("GO"), tuple(evidence), ready=("berry",), coverage=4)

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        return {node: act.action for node, act in acts.items()}

    def score(self) -> Mapping[str, float]:
        return {"score": 0.0}


class WithoutLots:
    """A law that is shown no lots."""

    def __init__(self, law: Law) -> None:
        self.name, self._law = law.name, law

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        return self._law.decide([self._strip(request) for request in requests])

    def _strip(self, request: Request) -> Request:
        view = request.view
        ports = tuple(Port(port.channel, 0, port.facts) for port in view.private.channels)
        private = msgspec.structs.replace(view.private, channels=ports)
        return Request(msgspec.structs.replace(view, private=private))


def on_ring(law: Law, broadcast: bool, n: int = 6) -> EpisodeRecord:
    memory = Memory()
    sync.play(Ring(n, broadcast), law, Case("ring", "ring", n, SEED), sinks=[memory])
    return memory.record()


def broken_symmetry(record: EpisodeRecord) -> str | None:
    n = record.header.case.n
    rotation = [(node + 1) % n for node in range(n)]
    reflection = [-node % n for node in range(n)]
    return asymmetry(record, rotation) or asymmetry(record, reflection)


@pytest.mark.parametrize("broadcast", [True, False])
@pytest.mark.parametrize("law", EXACT)
def test_without_lots_a_symmetric_swarm_stays_symmetric(law: str, broadcast: bool) -> None:
    record = on_ring(WithoutLots(plugins.get_law(law)), broadcast)
    assert broken_symmetry(record) is None


def test_the_symmetric_swarm_is_not_idle() -> None:
    record = on_ring(WithoutLots(Heuristic()), broadcast=True)
    assert record.footer.counters["messages.delivered"] > 0
    assert record.footer.counters["mode.Synthesize"] > 0


def test_lots_break_the_symmetry() -> None:
    assert broken_symmetry(on_ring(Heuristic(), broadcast=False)) is not None


@pytest.mark.parametrize("law", [bugs.NameReader(), plugins.get_law("first-listed")])
def test_names_and_places_break_it_without_lots(law: Law) -> None:
    assert broken_symmetry(on_ring(WithoutLots(law), broadcast=True)) is not None
