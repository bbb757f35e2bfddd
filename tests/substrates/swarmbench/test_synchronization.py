"""Synchronization: flips run through a long crowd as waves unless a beat is reported."""

import pytest

from tests.substrates.swarmbench.worlds import known
from waggle import plugins
from waggle.core.protocols import Act, Case, Local, Write
from waggle.core.schema import MAX_BIN, MAX_TTL
from waggle.runtime import sync
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.tasks.synchronization import (
    BEAT,
    PATIENCE,
    Beat,
    SynchronizationBehaviour,
)

NOTHING = Local((), None)
LONG = Case("swarmbench", "synchronization", 16, 10_005)
"""A case whose crowd is so long that private flips never end in unison."""


def opened(case: Case = LONG) -> tuple[SwarmEpisode, SynchronizationBehaviour]:
    world = SwarmBench().open(case)
    return world, known(world.behaviour, SynchronizationBehaviour)


def step(world: SwarmEpisode, intent: str) -> list[str]:
    moves = [world.sense(k, NOTHING).proposal.action for k in range(world.n)]
    world.step({k: Act(move, None, None, intent, NOTHING) for k, move in enumerate(moves)})
    return moves


def word(sender: int, receiver: int) -> Write:
    return Write(sender, receiver, BEAT, MAX_BIN, MAX_BIN, 0, MAX_TTL, None, True)


def test_a_beat_turns_the_lights_every_few_rounds() -> None:
    beat = Beat(7, on=True)
    lit = [beat.lit(round) for round in range(7, 7 + 3 * (PATIENCE + 1))]
    assert lit == [on for on in (True, False, True) for _ in range(PATIENCE + 1)]


@pytest.mark.parametrize(
    ("own", "told", "source"),
    [
        (None, None, None),
        (Beat(9, True), None, "seen"),
        (None, Beat(9, True), "told"),
        (Beat(9, True), Beat(4, False), "told"),
        (Beat(4, True), Beat(9, False), "seen"),
        (Beat(4, True), Beat(4, True), "told"),
    ],
)
def test_the_older_beat_is_kept_to(own: Beat | None, told: Beat | None, source: str | None) -> None:
    _, lights = opened()
    lights.own[0], lights.heard[0] = own, told
    assert lights.known(0) == {None: None, "seen": own, "told": told}[source]
    assert lights.facts(0, NOTHING).get(BEAT, {}).get("source") == source
    assert bool(lights.evidence(0, NOTHING)) == (own is not None)


def test_word_goes_by_its_age() -> None:
    world, lights = opened()
    for _ in range(12):
        step(world, "PRIVATE")
    lights.own[0], lights.own[1] = Beat(5, True), None
    payload = lights.payload(word(0, 1))
    assert payload == Beat(5 - 12, True), "no round is named, only how long ago it was"
    step(world, "PRIVATE")
    lights.receive(word(0, 1), payload)
    assert lights.heard[1] == Beat(5, True), "a message is one round under way"
    lights.receive(word(2, 1), Beat(-2, False))
    assert lights.heard[1] == Beat(5, True), "younger word changes nothing"
    lights.receive(word(2, 1), None)
    assert lights.heard[1] == Beat(5, True)


def test_an_older_beat_is_news_and_the_same_is_not() -> None:
    _, lights = opened()
    lights.own[0] = Beat(9, True)
    before = lights.content(word(0, 1))
    assert lights.content(word(0, 1)) == before
    lights.heard[0] = Beat(4, True)
    assert lights.content(word(0, 1)) != before


def test_the_private_proposal_does_not_depend_on_word() -> None:
    silent, _ = opened()
    told, lights = opened()
    lights.heard = [Beat(0, True)] * told.n
    for _ in range(60):
        assert step(silent, "PRIVATE") == step(told, "PRIVATE")


def test_who_follows_gathers_first_and_then_keeps_to_the_beat() -> None:
    world, lights = opened()
    lights.heard = [Beat(0, True)] * world.n
    walking = 0
    for round in range(60):
        gathering = {k for k in range(world.n) if lights.follow(k, NOTHING) is None}
        moves = step(world, "FIELD")
        assert {k for k, move in enumerate(moves) if move in ("UP", "LEFT")} == gathering
        walking += bool(gathering)
        assert all(
            lights.light(k) == Beat(0, True).lit(round)
            for k in range(world.n)
            if k not in gathering
        )
    assert 0 < walking < 60


def test_a_long_crowd_needs_word_to_get_into_unison() -> None:
    scores = {}
    for law in ("private-only", "expert"):
        world = plugins.get_substrate("swarmbench").open(LONG)
        scores[law] = sync.play(world, plugins.get_law(law), LONG).scores["score"]
    assert scores["private-only"] < 3
    assert scores["expert"] >= 12
