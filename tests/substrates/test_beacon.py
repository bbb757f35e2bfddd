"""beacon: the teaching substrate keeps its promises."""

from __future__ import annotations

import time

import pytest

from waggle.core.errors import ConfigError
from waggle.core.protocols import Act, Case, HeldTrace, Local, Write
from waggle.substrates.beacon import Beacon, BeaconWorld

NOTHING = Local((), None)


def opened(n: int = 16, *, shock: bool = False, **options: float | str) -> BeaconWorld:
    return Beacon().open(Case("beacon", "beacon", n, 10_000, shock=shock, options=options))


def scouts(world: BeaconWorld) -> list[int]:
    return [i for i in range(world.n) if world.sense(i, NOTHING).evidence]


def told(world: BeaconWorld, node: int, claim: str, conflict: int = 0) -> None:
    world.receive(Write(0, node, claim, 4, 4, conflict, 8, None, True), None)


@pytest.mark.parametrize("graph", ["rings", "cubic", "small-world", "geometric"])
@pytest.mark.parametrize("n", [1, 2, 3, 16, 501])
def test_the_graph_is_simple_symmetric_connected_and_sparse(n: int, graph: str) -> None:
    world = opened(n, graph=graph)
    edges = {(i, j) for i in range(n) for j in world.neighbours(i)}
    assert all(i != j and (j, i) in edges for i, j in edges)
    degrees = [len(world.neighbours(i)) for i in range(n)]
    assert sum(degrees) <= 6 * n and max(degrees) <= {"geometric": 16, "small-world": 8}.get(
        graph, 4
    )
    reached, frontier = {0}, [0]
    while frontier:
        fresh = [j for j in world.neighbours(frontier.pop()) if j not in reached]
        reached.update(fresh)
        frontier += fresh
    assert len(reached) == n


@pytest.mark.parametrize(
    ("n", "share", "expected"),
    [(16, 0.25, 4), (16, 0.001, 1), (16, 1.0, 16), (100, 0.07, 7), (100, 0.55, 55), (100, 1e-5, 1)],
)
def test_the_share_of_scouts_is_what_was_asked(n: int, share: float, expected: int) -> None:
    assert len(scouts(opened(n, scouts=share))) == expected


def test_a_newer_showing_refutes_the_older_one_for_who_sees_or_hears_it() -> None:
    world = opened(shock=True)
    scout = scouts(world)[0]
    other = next(i for i in range(world.n) if i not in scouts(world))
    old = world.sense(scout, NOTHING).ready[0]
    assert world.shock(0, {}) is None
    shock = world.shock(world.rounds // 2, {})
    assert shock is not None and shock.old_claims == (old,)
    new = shock.new_claims[0]
    holding = Local((), old, 4)
    seen = {e.claim: e.conflict for e in world.sense(scout, holding).evidence}
    assert seen == {old: 4, new: 0}
    assert world.sense(other, holding).evidence == ()
    told(world, other, new, conflict=4)
    assert world.sense(other, holding).evidence == ()
    told(world, other, new)
    assert [(e.claim, e.conflict) for e in world.sense(other, holding).evidence] == [(old, 4)]


def test_hearsay_is_provisional_until_it_adds_up() -> None:
    world = opened()
    claim = world.sense(scouts(world)[0], NOTHING).ready[0]
    other = next(i for i in range(world.n) if i not in scouts(world))
    told(world, other, claim)
    one = world.sense(other, Local((HeldTrace(0, claim, 4, 3, 0, 8, None),), None))
    two = world.sense(
        other,
        Local((HeldTrace(0, claim, 4, 3, 0, 8, None), HeldTrace(1, claim, 4, 1, 0, 8, None)), None),
    )
    assert (one.ready, one.coverage) == ((), 3)
    assert (two.ready, two.coverage) == ((claim,), 4)


def test_a_scout_that_waits_sees_nothing_until_it_watches_again() -> None:
    world = opened()
    scout = scouts(world)[0]

    def do(action: str, intent: str | None = None) -> bool:
        world.step({scout: Act(action, None, None, intent, NOTHING)})
        return bool(world.sense(scout, NOTHING).evidence)

    assert not do("WAIT")
    assert do("WATCH")
    assert not do("WATCH", "WAIT")


def test_the_score_counts_present_and_stale_commitments() -> None:
    world = opened(4, shock=True, scouts=1.0)
    old = world.sense(0, NOTHING).ready[0]
    acts = {i: Act("WATCH", None, None, None, Local((), old if i < 3 else None)) for i in range(4)}
    world.step(acts)
    assert world.score() == {"score": 0.75, "stale": 0.0}
    world.shock(world.rounds // 2, {})
    assert world.score() == {"score": 0.0, "stale": 0.75}
    assert world.render().endswith(old[0] * 3 + ".")


@pytest.mark.parametrize(
    ("n", "options"), [(0, {}), (-3, {}), (4, {"scouts": 0}), (4, {"scouts": 2}), (4, {"scout": 1})]
)
def test_a_bad_case_is_one_line(n: int, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError) as caught:
        Beacon().open(Case("beacon", "beacon", n, 10_000, options=options))
    assert "\n" not in str(caught.value)


def test_ten_thousand_nodes_open_and_sense_quickly() -> None:
    start = time.process_time()  # not of the clock: other programs take time, too
    world = opened(10_000)
    assert time.process_time() - start < 2.0
    claim = world.sense(scouts(world)[0], NOTHING).ready[0]
    local = Local(
        tuple(HeldTrace(j, claim, 3, 2, 0, 5, None) for j in world.neighbours(7)), claim, 4
    )

    def once() -> float:
        begin = time.process_time()
        for _ in range(1000):
            world.sense(7, local)
        return (time.process_time() - begin) / 1000

    assert min(once() for _ in range(5)) < 50e-6
