"""What each organiser learns on a planted task, and how a fit is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.baselines.peers.toys import CASES, CONTRACT, RING, inward_pays, node_view, ways
from waggle.baselines.peers import agentnet, gptswarm, swarmsys, training
from waggle.baselines.peers.organiser import (
    NodeView,
    Opening,
    Organiser,
    Outcome,
    Received,
    Solution,
)
from waggle.core.errors import ConfigError, SeedError
from waggle.core.protocols import Case


def opening(seed: int = 7) -> Opening:
    return Opening(CONTRACT, 9, {0: (1, 2, 3)}, seed)


# GPTSwarm: the edges that pay are found, the others are dropped


def test_gptswarm_finds_the_planted_edges(tmp_path: Path) -> None:
    found = training.fit(gptswarm.Fit(), CASES, tmp_path / "p.json", steps=100, play=inward_pays)
    state = gptswarm.GPTSwarm(found["logits"]).begin(Opening(CONTRACT, 9, RING, 3))
    assert ways(state.sweeps.successors) == ["inward"] * 8


def test_gptswarm_learns_nothing_where_nothing_pays(tmp_path: Path) -> None:
    def flat(organiser: Organiser, case: Case, draw: int) -> float:
        inward_pays(organiser, case, draw)
        return 0.5

    found = training.fit(gptswarm.Fit(), CASES, tmp_path / "p.json", steps=20, play=flat)
    assert all(logit == 0 for logit in found["logits"]["8"].values())


def test_gptswarm_keeps_logits_of_moving_contacts_apart() -> None:
    logits = {"16": {"a": 1.0}, "64": {"a": 2.0}, "moving 16": {"a": 3.0}}
    assert gptswarm.nearest(logits, 40)["a"] == 2.0
    assert gptswarm.nearest(logits, 40, moving=True)["a"] == 3.0
    assert gptswarm.nearest({"16": {}}, 16, moving=True) == {}


# A fit goes on where it was, on development seeds alone


class Interrupted(Exception):
    pass


def test_an_interrupted_fit_ends_where_a_whole_one_does(tmp_path: Path) -> None:
    whole = training.fit(gptswarm.Fit(), CASES, tmp_path / "a.json", steps=30, play=inward_pays)

    def stop(progress: training.Progress) -> None:
        if progress.step == 20:
            raise Interrupted

    path = tmp_path / "b.json"
    with pytest.raises(Interrupted):
        training.fit(gptswarm.Fit(), CASES, path, steps=30, play=inward_pays, watch=stop)
    with pytest.raises(ConfigError, match="20 of 30 steps"):
        gptswarm.gptswarm(str(path))
    assert training.fit(gptswarm.Fit(), CASES, path, steps=30, play=inward_pays) == whole
    assert path.read_bytes() == (tmp_path / "a.json").read_bytes()
    assert gptswarm.gptswarm(str(path)).digest == training.digest_of(whole)


def test_a_fit_is_not_continued_with_other_cases_or_methods(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    training.fit(gptswarm.Fit(), CASES, path, steps=1, play=inward_pays)
    with pytest.raises(ConfigError, match="other cases"):
        training.fit(gptswarm.Fit(), CASES[:2], path, steps=1, play=inward_pays)
    with pytest.raises(ConfigError, match="belongs to"):
        training.read(path, "dmoa")
    with pytest.raises(ConfigError, match="waggle fit gptswarm"):
        training.read(tmp_path / "none.json", "gptswarm")
    for damage in (b'{"method":"\xff"}', b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        path.write_bytes(damage)
        with pytest.raises(ConfigError, match="holds no parameters"):
            training.read(path, "gptswarm")


@pytest.mark.parametrize("seed", [0, 40_000, 45_000])
def test_only_development_seeds_are_fitted_to(seed: int, tmp_path: Path) -> None:
    with pytest.raises(SeedError):
        training.fit(
            gptswarm.Fit(), [Case("silo", "I-05", 8, seed)], tmp_path / "p.json", play=inward_pays
        )
    with pytest.raises(SeedError):
        training.utility(gptswarm.GPTSwarm({}), Case("silo", "I-05", 8, seed), 0)


def test_samples_of_a_case_differ_and_are_repeatable() -> None:
    case = Case("silo", "I-05", 8, 10_000)
    graphs = []
    for draw in (1, 1, 2):
        organiser = gptswarm.GPTSwarm({}, sampled=True)
        training.utility(organiser, case, draw)
        assert organiser.last is not None
        graphs.append(organiser.last.sweeps.successors)
    assert graphs[0] == graphs[1] != graphs[2]


def test_the_budget_counts_every_population_and_substrate() -> None:
    cases = [*CASES, *(Case("silo", "I-05", 16, c.seed) for c in CASES)]
    assert training.episodes(gptswarm.Fit(), cases) == 200 * 4 * 2
    cases.append(Case("swarmbench", "pursuit", 16, 10_000))
    assert training.episodes(gptswarm.Fit(), cases, {"swarmbench": 5}) == (2 * 200 + 5) * 4
    assert training.episodes(gptswarm.Fit(), cases, 7) == 3 * 7 * 4


# AgentNet: a link on which nothing succeeds is pruned


def test_agentnet_prunes_a_dead_link_and_keeps_a_useful_one() -> None:
    own = agentnet.AgentNet()
    state = own.begin(opening())
    for round in range(4):
        own.feedback(state, round, [Outcome(0, 1, 0.0), Outcome(0, 2, 0.5)])
    assert agentnet.live_links(state, [1, 2, 3], 0.3) == [2, 3]


def test_agentnet_keeps_one_link_where_all_are_dead() -> None:
    own = agentnet.AgentNet()
    state = own.begin(opening())
    for round in range(5):
        own.feedback(state, round, [Outcome(0, j, 0.0) for j in (1, 2, 3)])
    own.feedback(state, 5, [Outcome(0, 1, 0.0)])
    assert agentnet.live_links(state, [1, 2, 3], 0.3) == [2]


def test_agentnet_splits_what_it_adds_to_forwards_what_it_does_not_and_ends_what_is_done() -> None:
    own = agentnet.AgentNet()

    def sent(view: NodeView) -> tuple[int, ...] | None:
        state = own.begin(opening())
        state.tokens.clear()
        plan = own.plan(state, 1, {0: view})
        return plan.sends[0].memo if plan.sends else None  # type: ignore[return-value]

    token = [Received(1, (99, 0, 1, 0, 1, 99))]
    hops = 3
    split, forward = sent(node_view(token)), sent(node_view(token, offers=0))
    assert split is not None and split[hops] == 0
    assert forward is not None and forward[hops] == 1
    tired = [Received(1, (99, 0, 1, 3, 1, 99))]
    assert sent(node_view(tired, offers=0)) is None
    done = node_view(token)
    assert sent(done._replace(solution=Solution(1.0, True))) is None
    assert sent(node_view()) is None


def test_agentnet_sends_no_token_to_where_it_has_been() -> None:
    own = agentnet.AgentNet()
    state = own.begin(opening())
    state.links[2].nonce = 5
    state.tokens.clear()
    plan = own.plan(state, 1, {0: node_view([Received(1, (99, 0, 1, 0, 1, 99, 5))])})
    assert [send.contact for send in plan.sends] == [3]


# SwarmSys: a pair whose results are accepted is matched more often


def result(sender: int) -> Received:
    return Received(sender, (swarmsys.WORKER, swarmsys.RESULT, 1, 1, 0))


def validator(own: swarmsys.SwarmSys) -> swarmsys.Profile:
    state = own.begin(opening())
    state.role = swarmsys.VALIDATOR
    return state


def test_swarmsys_raises_the_compatibility_of_the_useful_pair() -> None:
    own = swarmsys.SwarmSys()
    state = validator(own)
    for round in range(6):
        plan = own.plan(state, round, {0: node_view([result(2)], gained=2)})
        assert plan.sends[0].contact == 2
        assert plan.sends[0].memo[1] == swarmsys.ACCEPT
        assert plan.extra_calls == {0: 1}
    assert state.compatibility[2] > 1.0 > state.compatibility.get(1, 0.0)
    said = swarmsys.FrameNote.read(result(2).memo)
    assert said is not None
    state.heard |= {1: said, 3: said}
    drawn = [own._match(state, node_view(), 1) for _ in range(2000)]
    assert drawn.count(2) > 1.2 * max(drawn.count(1), drawn.count(3))


def test_swarmsys_rejects_what_brought_nothing_and_lets_it_fade() -> None:
    own = swarmsys.SwarmSys()
    state = validator(own)
    own.plan(state, 0, {0: node_view([result(2)], gained=2)})
    before = state.compatibility[2]
    plan = own.plan(state, 1, {0: node_view([result(2)], gained=0)})
    assert plan.sends[0].memo[1] == swarmsys.REJECT
    assert state.compatibility[2] < before


def test_swarmsys_compatibility_has_a_cap() -> None:
    own = swarmsys.SwarmSys(replace(swarmsys.Constants(), evaporation=1.0))
    state = validator(own)
    for round in range(40):
        own.plan(state, round, {0: node_view([result(2)], gained=2)})
    assert state.compatibility[2] == 4.0


def test_swarmsys_workers_answer_where_an_event_came_from_and_drop_old_ones() -> None:
    own = swarmsys.SwarmSys()
    state = own.begin(opening())
    state.role = swarmsys.WORKER
    event = Received(3, (swarmsys.EXPLORER, swarmsys.EVENT, 1, 0, 0))
    plan = own.plan(state, 0, {0: node_view([event])})
    assert plan.sends[0].contact == 3
    assert plan.sends[0].memo[1] == swarmsys.RESULT
    state.role = swarmsys.EXPLORER
    own.plan(state, 1, {0: node_view([event])})
    for round in range(2, 5):
        own.plan(state, round, {0: node_view()})
    assert state.events == []


def test_swarmsys_sends_no_verdict_to_a_contact_that_has_left() -> None:
    own = swarmsys.SwarmSys()
    state = validator(own)
    plan = own.plan(state, 0, {0: node_view([result(9)], gained=2)})
    assert all(send.contact in (1, 2, 3) for send in plan.sends)
    assert state.compatibility[9] > 0
