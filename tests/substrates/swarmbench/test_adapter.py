"""The adapter: what a node sees, how writes reach others, and how targets are moved."""

import json

import msgspec
import pytest

from tests.substrates.swarmbench.worlds import NOTHING, known, opened, private_round, seeing
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Write
from waggle.laws.expert.law import Expert
from waggle.runtime.sync import play
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.compass import octant
from waggle.substrates.swarmbench.sim.rules import Pursuit
from waggle.substrates.swarmbench.tasks.pursuit import PursuitBehaviour
from waggle.testing.substrate import check_substrate

TASKS = SwarmBench.tasks


@pytest.mark.parametrize("task", TASKS)
def test_the_substrate_is_sound(task: str) -> None:
    # That trajectories are relabelled is asked of every task and law in tests/testing.
    report = check_substrate(SwarmBench(), task=task, n=6, trajectories=False)
    failed = [check for check in report.checks if not check.passed]
    assert failed == []


@pytest.mark.parametrize("task", TASKS)
def test_a_view_holds_no_coordinate_id_or_score(task: str) -> None:
    world = opened(task)
    for _ in range(5):
        for node in world.active():
            sensed = world.sense(node, NOTHING)
            text = json.dumps(msgspec.to_builtins(sensed.observation))
            assert "$" not in text
            assert not any(digit in text for digit in "0123456789")
        private_round(world)


@pytest.mark.parametrize(
    ("offset", "point"),
    [((0, 0), "HERE"), ((1, -1), "HERE"), ((-5, 0), "N"), ((-5, 2), "N"), ((-5, 3), "NE"),
     ((3, 3), "SE"), ((0, 2), "E"), ((4, -4), "SW"), ((1, -3), "W")],
)  # fmt: skip
def test_octants(offset: tuple[int, int], point: str) -> None:
    assert octant(offset) == point


def test_what_is_told_is_reprojected_into_the_readers_frame() -> None:
    world = opened("pursuit")
    writer = seeing(world, "P")
    reader = world.neighbours(writer)[0]
    evidence = world.sense(writer, NOTHING).evidence[0]
    write = Write(writer, reader, evidence.claim, 4, 4, 0, 8, evidence.direction, True)
    delivered = world.receive(write, world.payload(write))
    prey, here = known(world.scene.world.rules, Pursuit).prey, world.scene.cells[reader]
    assert delivered is not None
    assert delivered.direction == octant((prey[0] - here[0], prey[1] - here[1]))


def test_a_write_does_not_reach_who_has_gone() -> None:
    world = opened("pursuit", n=16)
    here = world.scene.cells
    far = [
        (a, b)
        for a in range(16)
        for b in range(16)
        if max(abs(here[a][0] - here[b][0]), abs(here[a][1] - here[b][1])) == 3
    ]
    sender, receiver = far[0]
    write = Write(sender, receiver, "prey:0,0:0", 4, 4, 0, 8, "N", True)
    assert world.receive(write, None) is None


def test_stationary_evidence_is_news_until_every_contact_was_told() -> None:
    world = opened("foraging")
    node = seeing(world, "F")
    row = next(e for e in world.sense(node, NOTHING).evidence if e.claim.startswith("food"))
    assert row.novelty == 4
    for other in world.neighbours(node):
        world.payload(Write(node, other, row.claim, 4, 4, 0, 8, row.direction, True))
    row = next(e for e in world.sense(node, NOTHING).evidence if e.claim.startswith("food"))
    assert row.novelty == 0


@pytest.mark.parametrize("task", ["pursuit", "foraging"])
def test_late_counterevidence_moves_the_target_once(task: str) -> None:
    world = opened(task, n=8, shock=True)
    kind = "prey" if task == "pursuit" else "food"
    assert world.shock(19, dict.fromkeys(range(8), f"{kind}:0,0:0")) is None
    assert world.shock(20, {0: f"{kind}:0,0:0"}) is None
    before = world.scene.world.grid()
    held = dict.fromkeys(range(4 if task == "pursuit" else 2), f"{kind}:0,0:0")
    assert world.shock(20, dict.fromkeys(range(len(held) - 1), f"{kind}:0,0:0")) is None
    shock = world.shock(20, held)
    for _ in range(30):
        if shock is not None:
            break
        private_round(world)  # somebody stands where the food is to go
        before = world.scene.world.grid()
        shock = world.shock(20, held)
    assert shock is not None
    assert world.scene.world.grid() != before
    assert f"{kind}:0,0:0" in shock.old_claims
    assert not set(shock.new_claims) & set(shock.old_claims)


@pytest.mark.parametrize("seed", range(4))
def test_food_moves_to_another_claim_on_the_smallest_map_too(seed: int) -> None:
    case = Case("swarmbench", "foraging", 1, seed, shock=True, options={"map": 9})
    shock = SwarmBench().open(case).shock(50, {})
    assert shock is not None
    assert len(shock.old_claims) == 1 and shock.old_claims != shock.new_claims


def test_a_relocated_prey_is_in_sight_and_every_later_claim_rests_on_what_is_seen_then() -> None:
    world = opened("pursuit", n=32, seed=10_002, shock=True)
    for _ in range(10):
        private_round(world)
    rules, sites = known(world.scene.world.rules, Pursuit), known(world.behaviour, PursuitBehaviour)
    before, named = rules.prey, sites.claim("prey", rules.prey)
    assert world.shock(74, {0: "prey:0,1:0"}) is None
    shock = world.shock(75, {0: "prey:0,1:0"})
    assert shock is not None and shock.new_claims == ()
    assert {named, "prey:0,1:0"} <= set(shock.old_claims)
    assert sum("P" in "".join(window) for window in world.scene.windows) >= 3
    assert abs(rules.prey[0] - before[0]) + abs(rules.prey[1] - before[1]) > 6
    for cell in (before, rules.prey):
        assert sites.claim("prey", cell) not in shock.old_claims


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("swarmbench", "hide", 8, 1), "use one of"),
        (Case("swarmbench", "pursuit", 8, 1, options={"map": 3}), "--swarmbench.map"),
        (Case("swarmbench", "pursuit", 8, 1, options={"size": 3}), "--swarmbench.size"),
        (Case("swarmbench", "pursuit", 64, 1, options={"map": 10}), "use a larger map"),
        (Case("swarmbench", "foraging", 4, 1, shock=True, options={"map": 8}), "map 9 or more"),
    ],
)
def test_a_bad_case_is_one_clear_line(case: Case, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        SwarmBench().open(case)
    assert "\n" not in str(caught.value)


def test_the_expert_is_admissible_and_tells_in_foraging() -> None:
    case = Case("swarmbench", "foraging", 8, 10_003, 40)
    footer = play(SwarmBench().open(case), Expert(), case)
    assert footer.counters["stage.first"] == 8 * 40
    assert footer.counters["writes.executed"] > 0
    assert footer.scores["score"] > 0


def test_map_sides_follow_the_number_of_agents() -> None:
    assert opened("pursuit", n=10).scene.world.config.width == 10
    assert opened("pursuit", n=16).scene.world.config.width == 24
    assert len(opened("pursuit", n=16).render().splitlines()) == 24


def test_every_candidate_write_is_executed_or_suppressed_by_a_cause() -> None:
    case = Case("swarmbench", "foraging", 8, 10_000)
    counters = play(SwarmBench().open(case), plugins.get_law("heuristic"), case).counters
    suppressed = {k: v for k, v in counters.items() if k.startswith("writes.suppressed.")}
    assert counters["writes.candidate"] == counters["writes.executed"] + sum(suppressed.values())
    assert counters["writes.executed"] > 0 and suppressed["writes.suppressed.route"] > 0
    assert counters.get("writes.refreshed", 0) == 0, "foraging evidence is sent once"
