"""Commitments of Silo episodes: when to make and to reopen them, and late counterevidence."""

import msgspec
import pytest

from tests.substrates.silo.episodes import SEED, Rule, nothing_held, scores
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Local, Request
from waggle.core.record import EpisodeRecord
from waggle.core.schema import Commitment, Decision
from waggle.evaluate.reorganization import (
    committed_before,
    outcome_recovery,
    recovery,
    resynthesis_latency,
    stale_auc,
)
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine
from waggle.substrates.silo.adapter import Silo


def hasty(request: Request, decision: Decision) -> Decision:
    """Commit to the first partial answer and never reopen it."""
    view = request.view
    claim, bound = view.proposal.claim, view.private.coverage or 0
    if view.commitment is None and claim is not None:
        return msgspec.structs.replace(decision, commit=Commitment(claim, bound))
    calm = tuple(d for d in decision.deposits if d.conflict == 0)
    return msgspec.structs.replace(decision, deposits=calm, commit=None)


def reopening(request: Request, decision: Decision) -> Decision:
    """Commit to the first partial answer, but let the expert reopen it."""
    if request.view.commitment is None:
        return hasty(request, decision)
    return decision


def test_when_to_commit_and_when_to_reopen_matter() -> None:
    patient = scores("I-05", 8)["score"]
    assert scores("I-05", 8, Rule(hasty))["score"] == 0
    assert scores("I-05", 8, Rule(reopening))["score"] == patient == 1


@pytest.mark.parametrize("n", [32, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", ["III-26", "I-05"])
def test_the_expert_reorganizes_and_only_with_conflict_and_reversibility(task: str, n: int) -> None:
    case = Case("silo", task, n, SEED, shock=True)

    def record(switches: Switches) -> EpisodeRecord:
        memory = Memory()
        Engine(Silo().open(case), Rule(), case, switches=switches, sinks=[memory]).play()
        return memory.record()

    whole = record(Switches())
    assert recovery(whole) == outcome_recovery(whole) == 1
    assert (resynthesis_latency(whole) or 99) <= 4.5
    for switches in (Switches(conflict=False), Switches(reversible=False)):
        assert outcome_recovery(record(switches)) == 0
    assert (stale_auc(record(Switches(decay=False))) or 0) > (stale_auc(whole) or 0)


def test_delayed_and_lost_frames_put_counterevidence_and_recovery_off_but_prevent_neither() -> None:
    case = Case("silo", "III-26", 64, SEED, shock=True)
    came = []
    for perturbation in (Perturbation(), Perturbation(delay=2, loss=0.1)):
        memory = Memory()
        EventEngine(
            Silo().open(case), Rule(), case, perturbation=perturbation, sinks=[memory]
        ).play()
        episode = memory.record()
        assert episode.shock is not None
        assert 4 * len(committed_before(episode)) >= case.n
        assert recovery(episode) == 1
        came.append(episode.shock.round)
    assert came[0] < came[1] < 24


@pytest.mark.parametrize("task", ["III-26", "I-05"])
def test_late_counterevidence_is_answered_only_by_reopening(task: str) -> None:
    def stubborn(request: Request, decision: Decision) -> Decision:
        calm = tuple(d for d in decision.deposits if d.conflict == 0)
        commit = None if request.view.commitment else decision.commit
        return msgspec.structs.replace(decision, deposits=calm, commit=commit)

    assert scores(task, 16, shock=True)["score"] == 1
    assert scores(task, 16, Rule(stubborn), shock=True)["score"] < 0.5


def test_counterevidence_comes_through_native_views_and_refutes_the_old_gold() -> None:
    world = Silo().open(Case("silo", "III-26", 20, SEED, shock=True))
    assert world.rounds == 37
    assert world.shock(5, dict.fromkeys(range(20), "z")) is None
    assert world.shock(23, {0: "z"}) is None
    shock = world.shock(6, dict.fromkeys(range(5), "z"))
    assert shock is not None and len(shock.nodes) == 2
    assert len(shock.old_claims) == 1
    assert not set(shock.old_claims) & set(shock.new_claims)


def test_counterevidence_names_held_claims_it_refutes_and_answers_it_supports() -> None:
    case = Case("silo", "I-05", 20, SEED, shock=True)
    first = Silo().open(case).shock(24, {})
    assert first is not None
    world = Silo().open(case)
    held = {i: world.sense(i, nothing_held()).evidence[0].claim for i in range(20)}
    world.step({})
    shock = world.shock(24, held)
    assert shock is not None and shock.nodes == first.nodes
    assert set(shock.old_claims) == {*first.old_claims, *(held[i] for i in shock.nodes)}
    assert shock.new_claims == first.new_claims
    counts = sorted(int(claim) for claim in shock.new_claims)
    assert counts[0] > int(first.old_claims[0]) and 2 <= len(counts) <= 3


def test_a_version_refutes_claims_that_rest_on_the_older_one() -> None:
    world = Silo().open(Case("silo", "III-26", 20, SEED, shock=True))
    old = world.sense(0, nothing_held()).evidence[0].claim
    world.step({})
    shock = world.shock(24, {})
    assert shock is not None
    node = shock.nodes[0]
    held = {i: world.sense(i, nothing_held()).evidence[0].claim for i in range(20)}
    rows = world.sense(node, Local((), old if node == 0 else held[node], 4)).evidence
    assert rows[0].conflict == 0
    untouched = next(i for i in range(20) if i not in shock.nodes)
    assert len(world.sense(untouched, Local((), held[untouched], 4)).evidence) == 1


def test_an_episode_too_short_for_late_counterevidence_is_refused() -> None:
    Silo().open(Case("silo", "III-26", 8, SEED, rounds=6, shock=True))
    with pytest.raises(ConfigError, match="at least 6 rounds, not 5"):
        Silo().open(Case("silo", "III-26", 8, SEED, rounds=5, shock=True))
