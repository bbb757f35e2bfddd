"""The expert dispatches on the contract and its generic rules are sound."""

from __future__ import annotations

import pytest

from tests.laws.views import episode_views, view
from waggle import plugins
from waggle.core.admit import violations
from waggle.core.protocols import Case
from waggle.core.schema import Commitment, Evidence, Trace
from waggle.laws import expert, expert_generic
from waggle.testing.episodes import play

HELD = Commitment("za", 4)
AGAINST = Evidence("za", 4, 0, 4)
NEWS = Trace("ha", "zb", 3, 3, 0, 5)


@pytest.mark.parametrize("task", ["unknown/task", "beacon", "../x", "", "generic.evil/x", "a b/c"])
def test_an_unknown_or_strange_task_gets_the_generic_rules(task: str) -> None:
    assert expert.rules(task) is expert_generic.decide


def test_it_replaces_a_refuted_commitment_in_one_update() -> None:
    decision = expert_generic.decide(
        view(held=HELD, evidence=(AGAINST,), traces=(NEWS,), coverage=3)
    )
    assert decision.commit == Commitment("zb", 3)
    assert decision.deposits[0].claim == "za" and decision.deposits[0].conflict == 4


def test_it_does_not_commit_provisionally_without_coverage() -> None:
    assert expert_generic.decide(view(traces=(NEWS,))).commit is None
    assert expert_generic.decide(view(traces=(NEWS,), coverage=0)).commit is None
    assert expert_generic.decide(view(traces=(NEWS,), coverage=2)).commit == Commitment("zb", 2)


def test_it_firms_up_a_provisional_commitment_once_ready() -> None:
    shown = view(held=Commitment("zb", 1), traces=(NEWS,), ready=("zb",))
    assert expert_generic.decide(shown).commit == Commitment("zb", 4)


def test_it_tells_a_neighbour_that_did_not_tell_it() -> None:
    assert expert_generic.decide(view(traces=(NEWS,))).deposits[0].channel == "hb"


def test_generic_rules_are_admissible_on_real_views() -> None:
    for shown in episode_views():
        assert violations(shown, expert_generic.decide(shown)) == ()


@pytest.mark.parametrize("seed", [10_000, 10_001, 10_002])
def test_on_beacon_it_forms_holds_reopens_and_re_forms(seed: int) -> None:
    case = Case("beacon", "beacon", 16, seed, shock=True)
    record = play(plugins.get_substrate("beacon"), plugins.get_law("expert"), case)
    scores = [entry.score["score"] for entry in record.rounds]
    assert record.shock is not None
    at = record.shock.round
    assert scores[at - 1] == 1.0
    assert scores[at] < 0.5
    assert scores[-1] >= 0.9
