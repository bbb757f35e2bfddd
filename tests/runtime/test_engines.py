"""The event-driven engine equals the synchronous one; stale calls end in bottom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.runtime.swarms import SEEN, Toy, play
from waggle.core.protocols import Case, Local, Request, Sensed
from waggle.core.record import EpisodeRecord
from waggle.core.schema import BROADCAST, WAIT, Contract, Decision, Trace
from waggle.laws.heuristic import Heuristic
from waggle.runtime.perturb import Perturbation, Schedule
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import first_difference, replay
from waggle.runtime.sync import Engine
from waggle.substrates.beacon import Beacon

BEACON = Case("beacon", "beacon", 24, 10_001, shock=True)


def as_event(record: EpisodeRecord) -> EpisodeRecord:
    header = msgspec.structs.replace(record.header, engine="event")
    return msgspec.structs.replace(record, header=header)


@pytest.mark.parametrize("order", ["shuffled", "canonical"])
@pytest.mark.parametrize(
    "perturbation",
    [
        Perturbation(),
        Perturbation(delay=2),
        Perturbation(loss=0.2),
        Perturbation(churn=0.2),
        Perturbation(departures=0.2, arrivals=0.2),
        Perturbation(delay=1, loss=0.1, churn=0.1),
    ],
)
def test_both_engines_agree_bit_for_bit(order: str, perturbation: Perturbation) -> None:
    settings: dict[str, Any] = {"order": order, "perturbation": perturbation}
    sync = play(Beacon().open(BEACON), Heuristic(), case=BEACON, **settings)
    event = play(Beacon().open(BEACON), Heuristic(), event=True, case=BEACON, **settings)
    assert first_difference(as_event(sync), event) == ""


def test_slow_calls_change_the_trajectory_and_still_replay() -> None:
    slow = Perturbation(call_delay=2, delay=1, churn=0.2)
    record = play(Beacon().open(BEACON), Heuristic(), event=True, case=BEACON, perturbation=slow)
    assert first_difference(as_event(play(Beacon().open(BEACON), Heuristic(), case=BEACON)), record)
    assert replay(record, Beacon().open(BEACON)).same
    assert any(u.bottom for r in record.rounds for u in r.updates)


class OneSlowCall(Schedule):
    """Node 0's first call takes two extra rounds."""

    def call_rounds(self, node: int, round: int) -> int:
        return 2 if (node, round) == (0, 0) else 0


def landing(world: Toy, law: object, monkeypatch: pytest.MonkeyPatch, **p: object) -> str | None:
    monkeypatch.setattr("waggle.runtime.sync.Schedule", OneSlowCall)
    record = play(world, law, event=True, perturbation=Perturbation(**p))  # type: ignore[arg-type]
    done = [u for r in record.rounds for u in r.updates if u.node == 0]
    return done[0].bottom


def fresh(request: Request) -> Decision:
    rows = request.view.private.evidence
    if not rows:
        return Decision("GO", None, (), None)
    return Decision("GO", None, (Trace(BROADCAST, rows[0].claim, 4, 3, 0, 8),), None)


def join(request: Request) -> Decision:
    channels = request.view.private.channels
    return Decision(f"JOIN:{channels[0].channel}" if channels else "GO", None, (), None)


def test_stale_call_lands_if_all_still_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Toy(evidence={(t, 0): [SEEN] for t in range(4)})
    assert landing(world, fresh, monkeypatch) is None
    assert {w.claim for w in world.received} == {"apple"}


def test_stale_call_ends_in_bottom_by_departure(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Toy(evidence={(t, 0): [SEEN] for t in range(3)})
    bottom = landing(world, fresh, monkeypatch, churn=1.0, churn_at=1, churn_rounds=1)
    assert bottom == "departure"
    assert not world.received


def test_stale_call_of_a_node_that_left_the_world_ends_in_bottom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Leaving(Toy):
        def active(self) -> list[int]:
            return [node for node in range(3) if node or not self.now]

        def sense(self, node, local):  # type: ignore[no-untyped-def]
            assert node in self.active(), "who is gone sees nothing"
            return super().sense(node, local)

    world = Leaving(evidence={(t, 0): [SEEN] for t in range(4)})
    assert landing(world, fresh, monkeypatch) == "departure"
    assert not world.received and all(0 not in acts for acts in world.acts)


def test_stale_call_ends_in_bottom_by_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Toy(evidence={(0, 0): [SEEN]})
    assert landing(world, fresh, monkeypatch) == "expiry"
    assert not world.received


def test_stale_call_ends_in_bottom_by_illegality(monkeypatch: pytest.MonkeyPatch) -> None:
    class Parting(Toy):
        def step(self, acts):  # type: ignore[no-untyped-def]
            self.edges = set()
            return super().step(acts)

    world = Parting()
    world.handle_life = "contact"
    assert landing(world, join, monkeypatch) == "illegality"
    assert all(0 not in acts for acts in world.acts[:3]), "a pending node does not act"


class Placed(Toy):
    """A world in which evidence has a place and a law may follow its claim."""

    contract = Contract("toy", "Agree.", ("GO", "TRACK:@claim", WAIT), broadcast=True)

    def sense(self, node: int, local: Local) -> Sensed:
        sensed = super().sense(node, local)
        places = {row.claim: {"down": 1} for row in sensed.evidence}
        return msgspec.structs.replace(sensed, claims=places)


def track(request: Request) -> Decision:
    rows = request.view.private.claims
    return Decision(f"TRACK:{rows[0].claim}" if rows else "GO", None, (), None)


@pytest.mark.parametrize("event", [False, True])
def test_a_named_claim_reaches_the_compiler_in_the_words_of_the_world(event: bool) -> None:
    world = Placed(evidence={(t, 0): [SEEN] for t in range(4)})
    record = play(world, track, event=event)
    assert [(acts[0].action, acts[0].claim) for acts in world.acts] == [("TRACK", "apple")] * 4
    assert [(acts[1].action, acts[1].claim) for acts in world.acts] == [("GO", None)] * 4
    assert all(u.stage == "first" for r in record.rounds for u in r.updates)


def test_a_stale_call_that_names_a_claim_lands_while_it_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Placed(evidence={(t, 0): [SEEN] for t in range(4)})
    assert landing(world, track, monkeypatch) is None
    assert world.acts[2][0].claim == "apple"


def test_a_stale_call_that_names_a_claim_ends_in_bottom_by_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Placed(evidence={(0, 0): [SEEN]})
    assert landing(world, track, monkeypatch) == "expiry"
    assert all(acts[0].claim is None for acts in world.acts if 0 in acts)


def test_churn_starts_at_injection_and_nodes_keep_their_commitment() -> None:
    record = play(
        Beacon().open(BEACON), Heuristic(), case=BEACON, perturbation=Perturbation(churn=0.25)
    )
    assert record.shock is not None
    away = {r.round: set(r.suspended) for r in record.rounds if r.suspended}
    start = record.shock.round
    assert sorted(away) == [start, start + 1] and len(away[start]) == 6
    held = {u.node: u.claim for u in record.rounds[start - 1].updates}
    back = record.rounds[start + 2].updates
    assert {u.node for u in back} == set(range(24))
    assert any(held[n] is not None for n in away[start])


def test_lost_and_delayed_messages_are_counted_apart() -> None:
    lossy = play(
        Beacon().open(BEACON), Heuristic(), case=BEACON, perturbation=Perturbation(loss=0.5)
    )
    attempted = lossy.footer.counters["messages.attempted"]
    assert 0.3 < lossy.footer.counters["messages.delivered"] / attempted < 0.7


def test_same_seed_same_record_other_seed_other_record() -> None:
    def run(seed: int) -> EpisodeRecord:
        case = msgspec.structs.replace(BEACON, seed=seed)
        memory = Memory()
        Engine(Beacon().open(case), Heuristic(), case, sinks=[memory]).play()
        return memory.record()

    assert first_difference(run(10_001), run(10_001)) == ""
    assert run(10_002).rounds != run(10_003).rounds
