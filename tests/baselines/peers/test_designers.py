"""The designers that are networks find what is planted, and keep their weights exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from waggle.baselines.peers import dmoa, g_designer, nets, training  # noqa: E402
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
