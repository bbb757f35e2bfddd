"""Shards give the record of one process, byte for byte: worlds, laws, perturbations, switches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.shards.episodes import opened
from benchmarks.shards.same import (
    BEACON,
    LAWS,
    LEADER,
    PORTS,
    ROUGH,
    SILO,
    WORLDS,
    canonical,
    settings,
    whole,
)
from tests.shards.episodes import coordinator, dealt
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.runtime.defence import Defence
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.shards import shard
from waggle.shards.partition import crossing, owners


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("case", WORLDS, ids=lambda case: case.task)
def test_two_shards_under_perturbations_give_the_record_of_one_process(
    case: Case, law: str, tmp_path: Path
) -> None:
    made = plugins.get_law(law)
    setting = settings(case, made, ROUGH)
    assert dealt(case, made, setting, tmp_path / "s") == canonical(whole(case, made, setting))


@pytest.mark.parametrize(
    "switches", [{"decay": False}, {"conflict": False}, {"reversible": False}, {"repeats": True}]
)
def test_ablations_and_late_counterevidence_are_the_same_in_four_shards(
    switches: dict[str, Any], tmp_path: Path
) -> None:
    law = plugins.get_law("heuristic")
    setting = settings(BEACON, law, **switches)
    one = whole(BEACON, law, setting)
    assert one.shock is not None
    assert dealt(BEACON, law, setting, tmp_path / "s", shards=4) == canonical(one)


def test_defences_against_byzantine_nodes_are_the_same_in_four_shards(tmp_path: Path) -> None:
    law = plugins.get_law("heuristic")
    liars = Perturbation(byzantine=0.3, attack="stale", delay=1)
    defence = Defence(provenance=True, reputation=True, reopening=2)
    setting = {**settings(SILO, law, liars), "defence": defence}
    one = canonical(whole(SILO, law, setting))
    assert dealt(SILO, law, setting, tmp_path / "s", shards=4) == one


def test_a_shard_alone_and_views_in_small_chunks_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = plugins.get_law("heuristic")
    setting = settings(SILO, law)
    one = canonical(whole(SILO, law, setting))
    assert dealt(SILO, law, setting, tmp_path / "one", shards=1) == one
    monkeypatch.setattr(shard, "CHUNK", 3)
    assert dealt(SILO, law, setting, tmp_path / "chunks", keep_every=0) == one


def test_claims_that_draw_one_alias_are_named_as_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.runtime.names._spell", lambda draw: f"z{draw % 48:04d}")
    law = plugins.get_law("heuristic")
    setting = {**settings(LEADER, law), "order": "shuffled"}
    one = canonical(whole(LEADER, law, setting))
    assert dealt(LEADER, law, setting, tmp_path / "s", shards=4) == one


def test_curves_are_the_record_without_its_updates(tmp_path: Path) -> None:
    law = plugins.get_law("heuristic")
    setting = settings(BEACON, law)
    one, memory = whole(BEACON, law, setting), Memory()
    coordinator(BEACON, law, setting, tmp_path / "s", curves=True).play([memory])
    found = memory.record()
    assert found.header.curves and not any(entry.updates for entry in found.rounds)
    assert [e.score for e in found.rounds] == [e.score for e in one.rounds]
    assert found.footer == one.footer


def test_a_world_or_law_that_needs_the_whole_swarm_gets_one_line(tmp_path: Path) -> None:
    flocking = Case("swarmbench", "flocking", 8, 10_001)
    law = plugins.get_law("heuristic")
    with pytest.raises(ConfigError, match="cannot be dealt to shards; give its world report"):
        coordinator(flocking, law, settings(flocking, law), tmp_path)
    with pytest.raises(ConfigError, match="--shards must be from 1 to 16 for 16 agents, not 17"):
        coordinator(SILO, law, settings(SILO, law), tmp_path, shards=17)
    conductor = plugins.get_law("swarmsys")
    with pytest.raises(ConfigError, match="organises the whole swarm"):
        coordinator(PORTS, conductor, settings(PORTS, law), tmp_path)


def test_a_grown_partition_is_even_and_cuts_fewer_contacts_than_a_dealt_one() -> None:
    world = opened(Case("agentsnet", "coloring", 100, 10_001, options={"family": "dt"}))
    grown, dealt_out = owners(world, 4), owners(world, 4, "dealt")
    sizes = [grown.count(k) for k in range(4)]
    assert max(sizes) - min(sizes) <= 2
    assert crossing(world, grown) < crossing(world, dealt_out) / 2
