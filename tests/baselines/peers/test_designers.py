"""The designers that are networks find what is planted, and keep their weights exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch", reason="needs the law extra")

from tests.baselines.peers.toys import (  # noqa: E402
    CASES,
    CONTRACT,
    RING,
    inward_pays,
    node_view,
    ways,
)
from waggle.baselines.peers import (  # noqa: E402
    arg_designer,
    crews,
    dmoa,
    g_designer,
    nets,
    training,
)
from waggle.baselines.peers.organiser import Opening, Organiser, Received, Solution  # noqa: E402
from waggle.core.protocols import Case  # noqa: E402
from waggle.core.schema import Contract  # noqa: E402

# Weights as text


def test_weights_come_back_as_they_were_and_adam_goes_down() -> None:
    found = nets.start("toy", {"a": (3, 2), "a bias": (2,)})
    assert nets.start("toy", {"a": (3, 2)})["weights"]["a"] == found["weights"]["a"]
    for _ in range(100):
        weights = nets.weights_of(found, learning=True)
        loss = (nets.linear(weights, "a", torch.ones(1, 3)) - 2).square().sum()
        found = nets.improve(found, weights, loss, 0.05)
    assert float(loss.detach()) < 1e-3
    assert found[training.WORKING]["count"] == 100


def test_an_interrupted_fit_of_a_network_ends_where_a_whole_one_does(tmp_path: Path) -> None:
    fit = replace(g_designer.Fit(), batch=1, samples=2)
    whole = training.fit(fit, CASES, tmp_path / "a.json", steps=12, play=inward_pays)

    def stop(progress: training.Progress) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "b.json"
    with pytest.raises(KeyboardInterrupt):
        training.fit(fit, CASES, path, steps=12, play=inward_pays, watch=stop)
    found = training.fit(fit, CASES, path, steps=12, play=inward_pays)
    assert found == whole
    assert list(whole) == ["weights"], "moments end with the fit"
    law = g_designer.g_designer(str(path))
    assert law.digest == training.digest_of(whole)


# G-Designer: the edges that pay are found, and the variational part is one


def test_g_designer_finds_the_planted_edges(tmp_path: Path) -> None:
    fit = replace(g_designer.Fit(), batch=1, samples=8)
    path = tmp_path / "p.json"
    found = training.fit(fit, CASES, path, steps=70, play=inward_pays)
    design = g_designer.GDesigner(nets.weights_of(found)).begin(Opening(CONTRACT, 9, RING, 3))
    assert ways(design.sweeps.successors) == ["inward"] * 8


def test_g_designer_trains_the_spread_of_its_latent_vectors() -> None:
    weights = nets.weights_of(g_designer.Fit().start(), learning=True)
    design = g_designer.GDesigner(weights, sampled=True).begin(Opening(CONTRACT, 9, RING, 3))
    (slope,) = torch.autograd.grad(design.losses[0].log_chance, [weights["spread"]])
    assert float(slope.abs().max()) > 0


def test_g_designer_reads_the_task_and_the_direction_of_an_edge() -> None:
    weights = nets.weights_of(g_designer.Fit().start())
    places = [(u, v) for u, own in RING.items() for v in own]

    def logits(task: str) -> dict[tuple[int, int], float]:
        profiles = g_designer.profiles(Contract(task, "", ("WAIT",)), RING, {})
        latent = g_designer.encoded(weights, profiles, places)
        found = g_designer.decoded(weights, latent.mean, places).tolist()
        return dict(zip(places, found, strict=True))

    toy, other = logits("silo/toy"), logits("silo/other")
    assert toy[0, 1] != toy[1, 0]
    assert toy[0, 1] != other[0, 1]


def test_g_designer_designs_nothing_where_there_are_no_contacts() -> None:
    made = g_designer.GDesigner(nets.weights_of(g_designer.Fit().start()))
    assert made.begin(Opening(CONTRACT, 9, {0: ()}, 3)).sweeps.successors == {0: []}


# DMoA: nodes of low entropy are ranked first, and as many are activated as it takes


def confidences(organiser: Organiser, case: Case, draw: int) -> float:
    """Show a router three rounds of nodes that know nothing, some, or nearly all."""
    routing = organiser.begin(Opening(CONTRACT, 9, RING, draw))
    for round in range(3):
        held = {i: (i * (draw % 7 + 1) + round) % 4 / 4 for i in RING}
        views = {i: node_view(coverage=held[i], contacts=RING[i]) for i in RING}
        organiser.plan(routing, round, views)
    return 0.0


def test_dmoa_ranks_the_node_of_lowest_entropy_first(tmp_path: Path) -> None:
    fit = replace(dmoa.Fit(), batch=1, passes=10, rate=1e-2)
    found = training.fit(fit, CASES, tmp_path / "p.json", steps=4, play=confidences)
    router = dmoa.DMoA(nets.weights_of(found))
    views = {i: node_view(coverage=0.75 if i == 5 else 0.25, contacts=RING[i]) for i in RING}
    plan = router.plan(router.begin(Opening(CONTRACT, 9, RING, 3)), 0, views)
    assert plan.sends[0].node == 5
    assert len(plan.sends) <= 4
    assert plan.extra_calls == {send.node: 1 for send in plan.sends}
    assert plan.solves == set(RING), "the others refresh their proposals"


def test_dmoa_learns_nothing_where_all_are_alike() -> None:
    def alike(organiser: Organiser, case: Case, draw: int) -> float:
        routing = organiser.begin(Opening(CONTRACT, 9, RING, draw))
        organiser.plan(routing, 0, {i: node_view(contacts=RING[i]) for i in RING})
        return 1.0

    start = dmoa.Fit().start()
    assert dmoa.Fit().step(start, 0, CASES, alike) == start


def test_dmoa_activates_as_many_as_hold_the_mass_up_to_a_cap() -> None:
    assert dmoa.adaptive([0.0, 0.95, 0.05], 3) == 1
    assert dmoa.adaptive([0.3, 0.4, 0.3], 3) == 3
    assert dmoa.adaptive([0.25] * 4, 2) == 2


def test_dmoa_sends_where_it_heard_the_least_and_stops_when_all_are_ready() -> None:
    router = dmoa.DMoA(nets.weights_of(dmoa.Fit().start()))
    state = router.begin(Opening(CONTRACT, 9, {0: (1, 2, 3)}, 3))
    told = [Received(1, (3,)), Received(2, (1,)), Received(3, (2,))]
    plan = router.plan(state, 1, {0: node_view(told)})
    assert [send.contact for send in plan.sends] == [2]
    done = node_view()._replace(solution=Solution(1.0, True))
    assert router.plan(state, 2, {0: done}).sends == ()


# ARG-Designer: chains are learned as chains, by crews of everybody


ALL = {i: tuple(j for j in range(8) if j != i) for i in range(8)}
"""Everybody may talk to everybody, so that a chain is one form of many."""
CHAIN = [[], [True], [True, False], *[[True, False, False]] * 5]


def chains_pay(organiser: Organiser, case: Case, draw: int) -> float:
    (laid,) = organiser.begin(Opening(CONTRACT, 9, ALL, draw)).laid
    return float(laid.links == CHAIN)


def test_arg_designer_trained_on_chains_assembles_chains(tmp_path: Path) -> None:
    """A sampler that reads links the wrong way round gives the complement."""
    rates = (1e-2, 1e-2)
    fit = arg_designer.Fit(batch=2, explore=1, first=1, refine=2, second=40, rates=rates)
    found = training.fit(fit, CASES, tmp_path / "p.json", play=chains_pay)
    assert set(found) == {"weights", "direction"}
    weights, where = nets.weights_of(found), crews.site(ALL)
    words = (CONTRACT.task, *CONTRACT.actions)
    drawn = [arg_designer.generate(weights, words, where, Random(k)).links for k in range(10)]
    assert drawn.count(CHAIN) >= 8


def test_arg_designer_chooses_the_direction_that_pays() -> None:
    def scattering(organiser: Organiser, case: Case, draw: int) -> float:
        graph = organiser.begin(Opening(CONTRACT, 9, ALL, draw)).sweeps.successors
        return float(bool(graph[0]))

    fit = arg_designer.Fit(batch=1)
    found = fit.step(fit.start(), 0, CASES[:1], scattering)
    assert found["direction"] == "scatter"
    assert found[training.WORKING]["explored"]["gather"] == []


def test_arg_designer_plays_what_its_budget_says() -> None:
    played = []

    def count(organiser: Organiser, case: Case, draw: int) -> float:
        organiser.begin(Opening(CONTRACT, 9, RING, draw))
        played.append(case)
        return 0.5

    fit = arg_designer.Fit(batch=1, explore=1, first=1, refine=1, second=1)
    found = fit.start()
    for step in range(fit.steps):
        found = fit.step(found, step, CASES[:1], count)
    assert len(played) == training.episodes(fit, CASES)


def test_arg_designer_learns_from_what_is_better_than_the_rest() -> None:
    def laid(*utilities: float) -> list[int]:
        crew = arg_designer.Example(("silo",), 0, [], [])
        played = [(u, [crew._replace(nodes=k)]) for k, u in enumerate(utilities)]
        return [kept.nodes for kept in arg_designer.better(played)]

    assert laid(0.1, 0.2, 0.3, 0.4) == [2, 3]
    assert laid(0.0, 0.0, 0.0, 0.1) == [3]
    assert laid(0.2, 0.2, 0.2, 0.1) == [0, 1, 2]
    assert laid(0.2, 0.2) == []


def test_a_crew_stands_on_contacts_without_a_cycle_in_both_directions() -> None:
    contacts = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (2, 0), 4: (5,), 5: (4,)}
    where = crews.site(contacts)
    assert list(where.order) == [0, 1, 3, 2, 4, 5], "parts out of reach follow"
    assert [list(near) for near in where.candidates] == [[], [0], [0], [3, 1], [], [4]]
    crew = crews.template("full", 1.0, where, Random(1))
    gathered = crews.successors(crew, where, "gather")
    scattered = crews.successors(crew, where, "scatter")
    assert gathered == {0: [], 1: [0], 3: [0], 2: [3, 1], 4: [], 5: [4]}
    assert {(v, u) for u, own in gathered.items() for v in own} == {
        (u, v) for u, own in scattered.items() for v in own
    }


@pytest.mark.parametrize(
    ("kind", "members", "last"),
    [
        ("full", 8, [True, True, True]),
        ("mesh", 8, [True, True, False]),
        ("chain", 8, [True, False, False]),
        ("star", 8, [False, False, True]),
    ],
)
def test_forms_differ_in_the_links_of_a_member(kind: str, members: int, last: list[bool]) -> None:
    crew = crews.template(kind, 1.0, crews.site(ALL), Random(1))
    assert (len(crew.roles), crew.links[-1]) == (members, last)


def test_stars_and_layers_stay_near_the_root_and_pruning_takes_a_quarter() -> None:
    where = crews.site(RING)
    assert len(crews.template("star", 0.0, where, Random(1)).roles) == 3
    assert len(crews.template("layered", 0.0, where, Random(1)).roles) == 5
    full = crews.template("full", 1.0, where, Random(1))
    lean = crews.pruned(full, Random(2))
    assert (sum(map(sum, full.links)), sum(map(sum, lean.links))) == (8, 6)


def test_roles_say_when_a_member_sends() -> None:
    def sends(role: int, *inbox: Received) -> list[bool]:
        crew = crews.Crew([role, role], [[], [True]])
        made = arg_designer.ARGDesigner({}, "gather", lambda words, where, rng: crew)
        state = made.begin(Opening(CONTRACT, 9, {0: (1,), 1: (0,)}, 3))
        views = {i: node_view(contacts=(1 - i,)) for i in (0, 1)}
        later = {i: node_view(inbox, contacts=(1 - i,)) for i in (0, 1)}
        return [bool(made.plan(state, k, seen).sends) for k, seen in enumerate((views, later))]

    assert sends(crews.AGGREGATE) == sends(crews.COLLECT) == [True, True]
    assert sends(crews.RELAY) == [False, False]
    assert sends(crews.RELAY, Received(0, ())) == [False, True]
    assert sends(crews.VERIFY) == [False, False]
