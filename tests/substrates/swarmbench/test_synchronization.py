"""Synchronization: flips run through a long crowd as waves unless all count down together."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from tests.substrates.swarmbench.worlds import NOTHING, drawn, known, private_round, support, told
from waggle import plugins
from waggle.core.protocols import Act, Case, Local
from waggle.core.schema import WAIT
from waggle.runtime.sync import Engine
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.episode import CONTRACTS, SwarmEpisode
from waggle.substrates.swarmbench.sim.rules import Synchronization
from waggle.substrates.swarmbench.sim.world import GridWorld
from waggle.substrates.swarmbench.tasks.synchronization import APART, SynchronizationBehaviour

LONG = Case("swarmbench", "synchronization", 16, 10_005)
"""A case whose crowd is so long that private flips never end in unison."""
ROOM = """
    WWWWWWWW
    W012345W
    W6789abW
    WWWWWWWW
    WWWWWWWW
    WWWWWWWW
"""
"""Two rows of six without room to move; nobody sees both ends."""
HALVES = "AAAaaaAAAaaa"


class Watched(SwarmEpisode):
    """An episode that keeps the lights of every round, A for on and a for off."""

    def __init__(self, case: Case, grid: GridWorld) -> None:
        super().__init__(case, grid, range(grid.n))
        self.rules = known(grid.rules, Synchronization)
        self.seen = [self.lights()]

    def lights(self) -> str:
        return "".join("A" if light else "a" for light in self.rules.lights)

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        native = super().step(acts)
        self.seen.append(self.lights())
        return native


def crowd(lights: str = HALVES, picture: str = ROOM) -> Watched:
    """Open a drawn room in which A is a light that is on and a one that is off."""
    grid = drawn(picture, "Synchronization")
    known(grid.rules, Synchronization).lights[:] = [light == "A" for light in lights]
    return Watched(Case("swarmbench", "synchronization", grid.n, 1), grid)


def played(law: str, lights: str = HALVES) -> list[str]:
    """Play an episode and return the lights before the first and after every round."""
    world = crowd(lights)
    Engine(world, plugins.get_law(law), Case("swarmbench", "synchronization", world.n, 1)).play()
    return world.seen


def test_nothing_travels_with_a_write() -> None:
    world = SwarmBench().open(LONG)
    sent = 0
    for _ in range(40):
        for write in told(world):
            sent += 1
            assert world.payload(write) is None
            assert world.receive(write, None) == write
        private_round(world)
    assert sent > 20


def test_no_action_of_the_contract_follows_a_claim() -> None:
    actions = CONTRACTS["synchronization"].actions
    assert not any("@" in action for action in actions) and {"SWITCH", WAIT} < set(actions)


@pytest.mark.parametrize("lights", ["AAAAAAAAAAAA", "aaaaaaaaaaaa", HALVES])
def test_evidence_appears_only_where_another_light_is_in_sight(lights: str) -> None:
    world = crowd(lights)
    for _ in range(4):
        on = world.rules.lights
        for node in world.active():
            near = {on[k] for k in (node, *world.neighbours(node))}
            evidence = [row.claim for row in world.sense(node, NOTHING).evidence]
            assert evidence == ([APART] if len(near) == 2 else [])
        world.step({})


def test_the_claim_has_no_place_and_says_nothing_of_who_or_when() -> None:
    world = crowd()
    for local in (NOTHING, Local((), APART, 4)):
        sensed = world.sense(2, local)
        assert sensed.claims == {APART: {"kind": APART}}
        assert sensed.observation["light"] == "on"
    assert {row.direction for row in world.sense(2, NOTHING).evidence} == {None}


def test_word_does_not_change_the_private_proposal() -> None:
    silent, loud = SwarmBench().open(LONG), SwarmBench().open(LONG)
    behaviour = known(loud.behaviour, SynchronizationBehaviour)
    for _ in range(60):
        for node in loud.active():
            behaviour.receive(support(node, node, APART), None)
        assert private_round(silent) == private_round(loud)


def unison(seen: list[str]) -> list[int]:
    """Return the rounds in which all lights are alike."""
    return [i for i, lights in enumerate(seen) if len(set(lights)) == 1]


def test_two_halves_in_opposite_phase_come_together_and_flip_in_one_round() -> None:
    seen = played("expert")
    alike = unison(seen)
    first = alike[0]
    assert first <= 12
    assert alike == list(range(first, len(seen))), "from then on all turn in one round"
    assert sum(a != b for a, b in pairwise(seen[first:])) > 70
    assert len(unison(played("private-only"))) < len(alike)


@pytest.mark.parametrize("lights", ["aaaaaaaaaaaa", "AAAAAAAAAAAA"])
def test_who_agrees_switches_in_every_round(lights: str) -> None:
    seen = played("expert", lights)
    assert all(a != b and len(set(b)) == 1 for a, b in pairwise(seen))


def test_a_long_crowd_needs_word_to_get_into_unison() -> None:
    scores = {}
    for law in ("private-only", "expert"):
        world = SwarmBench().open(LONG)
        scores[law] = Engine(world, plugins.get_law(law), LONG).play().scores["score"]
    assert scores["private-only"] < 3
    assert scores["expert"] >= 12


def test_lights_that_swing_together_stand_higher_than_those_that_swing_apart() -> None:
    def standing(switched: list[list[int]]) -> list[float | None]:
        world = SwarmBench().open(Case("swarmbench", "synchronization", 4, 3))
        lights = known(world.scene.world.rules, Synchronization).lights
        lights[:] = [True, True, False, False]
        found = []
        for nodes in switched:
            world.step({k: Act("SWITCH", None, None, None, NOTHING) for k in nodes})
            found.append(world.standing(0))
        assert {world.standing(k) for k in range(4)} == {found[-1]}
        return found

    assert standing([[2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]) == [0.5, 1.5, 2.5]
    assert standing([[0, 1, 2, 3], [0, 1, 2, 3]]) == [0.0, 0.0], "halves against each other"
    assert standing([[2], [2]]) == [0.25, 0.5]
