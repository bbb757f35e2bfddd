"""The expert dispatches on the contract and its generic rules are sound."""

from __future__ import annotations

import msgspec
import pytest

from tests.laws.views import episode_views, view
from waggle import plugins
from waggle.core.admit import violations
from waggle.core.protocols import Case
from waggle.core.schema import Commitment, Contract, Decision, Evidence, Port, Proposal, Trace
from waggle.laws.expert import generic as expert_generic
from waggle.laws.expert import law as expert
from waggle.testing.episodes import play

HELD = Commitment("za", 4)
AGAINST = Evidence("za", 4, 0, 4)
NEWS = Trace("ha", "zb", 3, 3, 0, 5)


@pytest.mark.parametrize(
    "task",
    [
        "unknown/task",
        "beacon",
        "../x",
        "",
        "generic.evil/x",
        "a b/c",
        "law/x",
        "__init__",
        "__pycache__",
    ],
)
def test_an_unknown_or_strange_task_gets_the_generic_rules(task: str) -> None:
    assert expert.rules(task) is expert_generic.decide


@pytest.mark.parametrize("task", ["agentsnet", "agentsnet/other", "agentsnet/leader_election"])
def test_a_view_of_no_world_is_decided_all_the_same(task: str) -> None:
    """A server is asked with any view; this one has no claim of the smallest priority."""
    shown = view(contract=Contract(task, "Do well.", ("Yes", "No", "WAIT"), deposits=1))
    private = msgspec.structs.replace(shown.private, observation={"order": 3})
    shown = msgspec.structs.replace(shown, private=private)
    assert isinstance(expert.rules(task)(shown), Decision)


@pytest.mark.parametrize("task", ["coloring", "consensus", "leader_election", "vertex_cover"])
@pytest.mark.parametrize("actions", [("WAIT",), ("WAIT", "Group 1")])
def test_a_contract_that_leaves_no_choice_is_decided_all_the_same(
    task: str, actions: tuple[str, ...]
) -> None:
    contact = Port("ha", 0, {"answer": "Group 1", "order": 1})
    shown = view(ports=[contact], contract=Contract(f"agentsnet/{task}", "Do well.", actions))
    private = msgspec.structs.replace(shown.private, observation={"answer": "Group 1", "order": 2})
    shown = msgspec.structs.replace(shown, private=private, proposal=Proposal("WAIT"))
    assert isinstance(expert.rules(f"agentsnet/{task}")(shown), Decision)


def test_it_replaces_a_refuted_commitment_in_one_update() -> None:
    decision = expert_generic.decide(
        view(held=HELD, evidence=(AGAINST,), traces=(NEWS,), coverage=3)
    )
    assert decision.commit == Commitment("zb", 3)
    assert decision.deposits[0].claim == "za" and decision.deposits[0].conflict == 4


def test_it_writes_nothing_where_a_world_of_places_allows_no_deposits() -> None:
    actions = ("GO", "TRACK:@claim", "WAIT")
    contract = Contract("unknown/task", "Find it.", actions, deposits=0, broadcast=True)
    decision = expert_generic.decide(view(held=HELD, evidence=(AGAINST,), contract=contract))
    assert expert_generic.names_places(contract) and decision.deposits == ()


def test_it_does_not_commit_provisionally_without_coverage() -> None:
    assert expert_generic.decide(view(traces=(NEWS,))).commit is None
    assert expert_generic.decide(view(traces=(NEWS,), coverage=2)).commit is None
    assert expert_generic.decide(view(traces=(NEWS,), coverage=3)).commit == Commitment("zb", 3)


def test_it_challenges_a_refuted_candidate_where_it_was_told() -> None:
    told = Trace("hb", "za", 2, 3, 0, 5)
    decision = expert_generic.decide(view(evidence=(AGAINST,), traces=(NEWS, told)))
    (challenge,) = decision.deposits
    assert (challenge.channel, challenge.claim, challenge.conflict) == ("hb", "za", 4)


def test_it_does_not_challenge_what_nobody_supports_or_what_is_no_news() -> None:
    dead = Trace("hb", "za", 2, 0, 0, 5)
    stale = msgspec.structs.replace(AGAINST, novelty=0)
    told = Trace("hb", "za", 2, 3, 0, 5)
    for against, trace in ((AGAINST, NEWS), (AGAINST, dead), (stale, told)):
        decision = expert_generic.decide(view(evidence=(against,), traces=(trace,)))
        assert not any(deposit.conflict for deposit in decision.deposits)


def test_it_tells_what_no_neighbour_told_before_it_passes_anything_on() -> None:
    own = Evidence("zc", 1, 1, 0)
    assert expert_generic.decide(view(evidence=(own,), traces=(NEWS,))).deposits[0].claim == "zc"
    spent = Evidence("zc", 0, 1, 0)
    assert expert_generic.decide(view(evidence=(spent,), traces=(NEWS,))).deposits[0].claim == "zb"


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
