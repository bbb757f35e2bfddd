"""The compiler: it takes the step that the law says, and never picks a claim."""

import pytest

from tests.substrates.swarmbench.worlds import NOTHING, opened, support
from waggle import plugins
from waggle.core.protocols import Act, Case, Local
from waggle.core.schema import CLAIM_ARGUMENT, WAIT
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.bearing import Bearing
from waggle.substrates.swarmbench.episode import CONTRACTS, FOLLOW, SwarmEpisode
from waggle.substrates.swarmbench.sim.config import STEP
from waggle.substrates.swarmbench.tasks.base import Report

CLAIM, OTHER, PLACELESS = "prey:9,9:0", "prey:0,9:0", "prey:5,5:0"
FAR = 7
"""A bin of more than twenty cells: nobody gets there in a test."""
WAYS = {"DOWN": Bearing(FAR, 0), "UP": Bearing(-FAR, 0),
        "RIGHT": Bearing(0, FAR), "LEFT": Bearing(0, -FAR)}  # fmt: skip


def free_ways(world: SwarmEpisode, node: int) -> list[str]:
    """Return the steps that nothing in the window stands in the way of."""
    window = world.scene.windows[node]
    half = len(window) // 2
    return [move for move, (i, j) in STEP.items() if window[half + i][half + j] == "."]


def informed() -> tuple[SwarmEpisode, int, str, str]:
    """Open a world in which one node was told of two claims; return it with the ways to both."""
    world = opened("pursuit", n=16, seed=10_003)
    node = next(
        i
        for i in world.active()
        if len(free_ways(world, i)) == 4 and not world.sense(i, NOTHING).evidence
    )
    for claim, way in ((CLAIM, "DOWN"), (OTHER, "LEFT")):
        world.behaviour.receive(support(node, node, claim), Report(WAYS[way], 0))
    return world, node, "DOWN", "LEFT"


def holding(claim: str | None) -> Local:
    return Local((), claim, 4)


def done(act: Act) -> str:
    world, node, _, _ = informed()
    return world.step({node: act})[node]


@pytest.mark.parametrize(
    ("action", "intent", "expected"),
    [("UP", None, "UP"), ("UP", "PRIVATE", "UP"), (WAIT, None, "STAY"), ("UP", "WAIT", "STAY")],
)
@pytest.mark.parametrize("held", [None, CLAIM, PLACELESS])
def test_an_action_is_itself_whatever_is_held(
    action: str, intent: str | None, expected: str, held: str | None
) -> None:
    assert done(Act(action, None, None, intent, holding(held))) == expected


@pytest.mark.parametrize("held", [None, CLAIM, OTHER])
@pytest.mark.parametrize("intent", [None, "PRIVATE", "FIELD"])
def test_follow_takes_a_step_towards_the_claim_it_names(
    intent: str | None, held: str | None
) -> None:
    _, _, down, left = informed()
    assert done(Act(FOLLOW, None, None, intent, holding(held), CLAIM)) == down
    assert done(Act(FOLLOW, None, None, intent, holding(held), OTHER)) == left


@pytest.mark.parametrize("way", WAYS)
def test_a_step_leads_to_the_shown_side(way: str) -> None:
    world, node, _, _ = informed()
    world.behaviour.receive(support(node, node, "prey:3,3:0"), Report(WAYS[way], 0))
    native = world.step({node: Act(FOLLOW, None, None, None, NOTHING, "prey:3,3:0")})
    assert native[node] == way


@pytest.mark.parametrize("claim", [PLACELESS, None])
def test_follow_of_a_claim_without_a_place_stays(claim: str | None) -> None:
    assert done(Act(FOLLOW, None, None, None, holding(CLAIM), claim)) == "STAY"


def test_field_steps_towards_the_claim_that_is_held_and_no_other() -> None:
    _, _, down, left = informed()
    assert done(Act("STAY", None, None, "FIELD", holding(CLAIM))) == down
    assert done(Act("STAY", None, None, "FIELD", holding(OTHER))) == left


@pytest.mark.parametrize("held", [None, PLACELESS])
@pytest.mark.parametrize("action", ["UP", "STAY"])
def test_field_without_a_place_to_go_to_is_the_action_itself(action: str, held: str | None) -> None:
    assert done(Act(action, None, None, "FIELD", holding(held))) == action


@pytest.mark.parametrize("task", SwarmBench.tasks)
def test_tasks_whose_claims_have_places_let_a_law_follow_them(task: str) -> None:
    named = f"{FOLLOW}:{CLAIM_ARGUMENT}" in CONTRACTS[task].actions
    assert named == (task != "synchronization")
    assert (FOLLOW in CONTRACTS[task].goal) == named


def test_followed_claims_reach_the_compiler_through_an_episode() -> None:
    case, memory = Case("swarmbench", "pursuit", 16, 10_003, 40), Memory()
    Engine(SwarmBench().open(case), plugins.get_law("relay"), case, sinks=[memory]).play()
    updates = [u for entry in memory.record().rounds for u in entry.updates]
    followed = [u for u in updates if u.decision.task_action.startswith(f"{FOLLOW}:")]
    assert followed and all(u.native in {*STEP, "STAY"} for u in followed)
    assert any(u.native in STEP for u in followed)
