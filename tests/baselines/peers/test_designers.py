"""The designers that are networks find what is planted, and keep their weights exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the law extra")

from waggle.baselines.peers import g_designer, gptswarm, nets, training  # noqa: E402
from waggle.baselines.peers.organiser import Opening, Organiser  # noqa: E402
from waggle.core.protocols import Case  # noqa: E402
from waggle.core.schema import Contract  # noqa: E402

CONTRACT = Contract("silo/toy", "", ("WAIT", "GATHER"))
RING = {i: ((i + 1) % 8, (i - 1) % 8) for i in range(8)}
CASES = [Case("silo", "I-05", 8, 10_000 + k) for k in range(4)]
KINDS = gptswarm.classes(RING)


def ways(successors: object) -> list[str]:
    """Return the direction of every edge of a graph on the ring."""
    assert isinstance(successors, dict)
    return [KINDS[u, v].split()[0] for u, heads in successors.items() for v in heads]


def inward_pays(organiser: Organiser, case: Case, draw: int) -> float:
    found = ways(organiser.begin(Opening(CONTRACT, 9, RING, draw)).sweeps.successors)
    return (8 + found.count("inward") - found.count("outward")) / 16


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
