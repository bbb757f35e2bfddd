"""Late counterevidence in closed loop: the expert reorganizes, and the runtime parts matter."""

import functools
from statistics import fmean

import pytest

from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord
from waggle.evaluate import reorganization
from waggle.laws.expert.law import Expert
from waggle.runtime.recorder import Memory
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine
from waggle.substrates.swarmbench.adapter import SwarmBench

FULL = Switches()
ABLATIONS = {"no conflict": Switches(conflict=False), "irreversible": Switches(reversible=False)}


@functools.cache
def relocated(switches: Switches, seed: int = 10_500) -> EpisodeRecord:
    """Play Pursuit with a relocated prey under the expert."""
    case = Case("swarmbench", "pursuit", 32, seed, shock=True)
    memory = Memory()
    world = SwarmBench().open(case)
    Engine(world, Expert(), case, switches=switches, sinks=[memory]).play()
    return memory.record()


def test_the_expert_reopens_synthesizes_and_ends_on_new_evidence() -> None:
    """Nine of ten seeds recover; two of three is what a change of the world must not break."""
    episodes = [relocated(FULL, seed) for seed in (10_500, 10_501, 10_502)]
    assert sum(reorganization.recovery(episode) == 1 for episode in episodes) >= 2
    latencies = [reorganization.resynthesis_latency(episode) for episode in episodes]
    assert None not in latencies
    assert fmean(each for each in latencies if each is not None) <= 4.5


def test_every_claim_held_before_is_old_and_every_claim_first_held_later_is_new() -> None:
    episode = relocated(FULL, 10_500)
    assert episode.shock is not None
    old, at = set(episode.shock.old_claims), episode.shock.round
    before = {u.claim for entry in episode.rounds[:at] for u in entry.updates if u.claim}
    after = {u.claim for entry in episode.rounds[at:] for u in entry.updates if u.claim}
    assert before <= old
    assert after - old and not after - old & before
    preys = {claim.rpartition(":")[2] for claim in after - old}
    assert preys.isdisjoint(claim.rpartition(":")[2] for claim in old)


@pytest.mark.parametrize("name", ABLATIONS)
def test_without_conflict_or_reversal_the_old_claims_stay_ahead(name: str) -> None:
    episode = relocated(ABLATIONS[name])
    assert episode.shock is not None
    assert reorganization.outcome_recovery(episode) == reorganization.event_recovery(episode) == 0
    final = reorganization.shares(episode)[-1]
    assert final.old >= reorganization.shares(episode)[episode.shock.round - 1].old
