"""The kit passes what is sound and fails, by the right check, on every planted bug."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from tests.testing import planted as bugs
from waggle import plugins
from waggle.core.errors import ConfigError, WaggleError
from waggle.core.protocols import Act
from waggle.laws.controls import Scripted
from waggle.substrates.agentsnet.world import AgentsNetWorld
from waggle.testing import (
    Check,
    ConformanceError,
    Report,
    channels,
    check_law,
    check_substrate,
)


def failed(report: Report) -> set[str]:
    return {check.name for check in report.failures}


def test_beacon_conforms() -> None:
    report = check_substrate("beacon").require()
    assert len(report.checks) == 11


WHOLE = ("beacon", "swarmbench")
"""Substrates of which all tasks are checked elsewhere."""


@pytest.mark.parametrize("name", [n for n in plugins.names("substrate") if n not in WHOLE])
def test_every_substrate_conforms_on_its_first_task(name: str) -> None:
    # The relabelled trajectories of all of them are in test_propositions.
    substrate = plugins.get_substrate(name)
    check_substrate(substrate, substrate.tasks[0], trajectories=False).require()


@pytest.mark.parametrize(
    "name", ["expert", "heuristic", "max-offer", "private-only", "random-port", "round-robin"]
)
def test_starting_laws_conform(name: str) -> None:
    # The relabelled trajectories of all of them are in test_propositions.
    check_law(name, trajectories=name == "heuristic").require()


def test_first_listed_conforms_only_where_order_is_canonical() -> None:
    assert failed(check_law("first-listed")) == {"orbit"}
    report = check_law("first-listed", order="canonical", trajectories=False)
    assert report.passed, str(report)


def test_random_legal_is_random_in_the_view_but_equivariant_in_the_swarm() -> None:
    assert failed(check_law("random-legal")) == {"orbit"}


def test_a_model_may_take_other_steps_in_another_batch_and_no_other_tokens() -> None:
    check_law(bugs.Metered("model_steps")).require()
    report = check_law(bugs.Metered("output_tokens"))
    assert failed(report) == {"relabelling"}
    assert "footer, counter tokens.output: " in str(report)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (bugs.NameReader(), {"orbit", "relabelling"}),
        (bugs.ClaimReader(), {"orbit", "relabelling"}),
        (bugs.Amplifier(), {"legal"}),
        (bugs.LongLiver(), {"legal"}),
        (bugs.BatchReader(), {"batch order"}),
        (bugs.Moody(), {"repeatable", "batch order"}),
        (bugs.Dropper(), {"answers", "legal"}),
        (Scripted("not json"), {"legal"}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, set) else "",
)
def test_a_planted_law_is_caught(law: bugs.PlantedLaw, expected: set[str]) -> None:
    report = check_law(law, trajectories="relabelling" in expected)
    assert expected <= failed(report), str(report)
    with pytest.raises(ConformanceError):
        report.require()


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (bugs.LeakingWorld, "relabelling"),
        (bugs.NamingWorld, "bounded view"),
        (bugs.SlotWorld, "relabelling"),
        (bugs.EchoWorld, "bounded view"),
        (bugs.RestlessWorld, "pure sensing"),
        (bugs.TiringWorld, "pure sensing"),
        (bugs.DeafWorld, "seeding"),
        (bugs.UnseededWorld, "seeding"),
        (bugs.BossyWorld, "legal actions"),
        (bugs.MuteWorld, "legal actions"),
        (bugs.GenerousWorld, "shares"),
        (bugs.MisdirectedWorld, "shares"),
        (bugs.PartlyWorld, "shares"),
    ],
)
def test_a_planted_world_is_caught(
    world: type[bugs.PlantedWorld], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "SEEDS", 1)  # what organises the swarm has tests of its own
    trajectories = expected == "relabelling"
    report = check_substrate(bugs.planted(world), laws=["heuristic"], trajectories=trajectories)
    assert expected in failed(report), str(report)


def test_a_world_may_heed_the_order_in_which_messages_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It follows hidden keys, so that relabelled swarms hear the same message first."""
    monkeypatch.setattr(channels, "SEEDS", 1)
    report = check_substrate(bugs.planted(bugs.QueueWorld), laws=["heuristic"])
    assert not failed(report), str(report)


def test_a_world_that_reads_nodes_of_another_shard_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AgentsNetWorld, "depart", lambda self, write, payload: payload)
    report = check_substrate("agentsnet", "coloring", laws=["random-legal"], trajectories=False)
    assert failed(report) == {"shards"}, str(report)


def test_an_answer_that_a_commitment_overrides_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = AgentsNetWorld.step

    def step(self: AgentsNetWorld, acts: Mapping[int, Act]) -> Mapping[int, str]:
        leads = {
            node: msgspec.structs.replace(act, action="Yes")
            for node, act in acts.items()
            if act.local.commitment == self._claims[node]
        }
        return honest(self, {**acts, **leads})

    monkeypatch.setattr(AgentsNetWorld, "step", step)
    report = check_substrate("agentsnet", "leader_election", trajectories=False)
    assert failed(report) == {"law chooses"}, str(report)


def test_the_frame_of_planted_worlds_is_itself_sound() -> None:
    check_substrate(bugs.planted(bugs.PlantedWorld), laws=["heuristic"]).require()
    check_law(bugs.PlantedLaw()).require()


def test_a_share_may_be_asked_for_instead_of_everything() -> None:
    assert "legal" in failed(check_law(bugs.Amplifier(), trajectories=False))
    assert "legal" not in failed(check_law(bugs.Amplifier(), legal=0.05, trajectories=False))


def test_a_wrong_task_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'beacon'"):
        check_substrate("beacon", "becon")


def test_a_report_says_what_failed_and_why() -> None:
    report = Report("law x", [Check("a", "asks a"), Check("b", "asks b", "found this")])
    assert not report.passed and "FAIL  b" in str(report) and "found this" in str(report)
    with pytest.raises(ConformanceError, match="b: found this"):
        report.require()
    assert not Report("nothing was checked").passed
    assert issubclass(ConformanceError, AssertionError) and issubclass(
        ConformanceError, WaggleError
    )
