"""The hooks of a world under a peer get the task's payload, not the parcel around it."""

from __future__ import annotations

from typing import Any

import pytest

from waggle import plugins
from waggle.baselines.peers.agentnet import AgentNet
from waggle.baselines.peers.conductor import Conductor, Peer
from waggle.baselines.peers.organiser import Organiser
from waggle.baselines.peers.solvers import ViewSolver
from waggle.baselines.peers.swarmsys import SwarmSys
from waggle.core.protocols import Case, Write
from waggle.runtime.defence import Defence
from waggle.runtime.perturb import Perturbation
from waggle.runtime.sync import Engine
from waggle.substrates.agentsnet.world import AgentsNetWorld, Answer, Statement
from waggle.substrates.silo.world import Frame, SiloWorld

CASE = Case("silo", "III-26", 8, 10_000, shock=True)


def play(organiser: Organiser) -> None:
    liars = Perturbation(byzantine=0.25, attack="collude")
    world = plugins.get_substrate("silo").open(CASE)
    defence = Defence(reputation=True)
    Engine(world, Peer(organiser), CASE, perturbation=liars, defence=defence).play()


@pytest.mark.parametrize("organiser", [SwarmSys(), AgentNet()], ids=lambda one: one.name)
def test_reputation_judges_the_frames_of_organised_nodes(
    organiser: Organiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[bool] = []
    honest = SiloWorld.contradicts

    def contradicts(self: SiloWorld, write: Write, payload: object) -> bool:
        assert isinstance(payload, Frame)
        judged.append(honest(self, write, payload))
        return judged[-1]

    monkeypatch.setattr(SiloWorld, "contradicts", contradicts)
    play(organiser)
    assert len(judged) > 40
    assert any(judged) or organiser.name == "agentnet"


def test_a_wrapper_that_hands_over_the_parcel_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    unwrapped = Conductor(SwarmSys(), ViewSolver(), plugins.get_substrate("silo").open(CASE), CASE)
    monkeypatch.setattr(
        type(unwrapped.world),
        "_contradicts",
        lambda self, write, payload: self._world.contradicts(write, payload),
    )
    with pytest.raises(AssertionError):
        play(SwarmSys())


def test_a_world_without_the_hook_is_not_given_one() -> None:
    case = Case("agentsnet", "coloring", 8, 10_000)
    world = plugins.get_substrate("agentsnet").open(case)
    assert not hasattr(Conductor(AgentNet(), ViewSolver(), world, case).world, "contradicts")


def test_a_parcel_that_leaves_for_another_shard_is_completed() -> None:
    case = Case("agentsnet", "coloring", 8, 10_000)
    world = plugins.get_substrate("agentsnet").open(case)
    assert isinstance(world, AgentsNetWorld)
    mail: Any = Conductor(AgentNet(), ViewSolver(), world, case).world
    write = Write(0, world.neighbours(0)[0], world._claims[0], 4, 4, 0, 8, None, True)
    parcel = mail.payload(write)
    world._standing[0] = Answer("Group 1")
    assert parcel.payload == Statement(0, 4, None)
    assert mail.depart(write, parcel).payload == Statement(0, 4, Answer("Group 1"))
