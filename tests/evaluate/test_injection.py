"""Late counterevidence enters through native views only: who cannot see it notices nothing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from waggle import plugins
from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord
from waggle.testing.episodes import play

TOLD = [
    Case("beacon", "beacon", 16, 10_007, None, True),
    Case("silo", "III-26", 8, 10_003, 9, True),
]
SEEN = [
    Case("swarmbench", "pursuit", 8, 10_001, 24, True),
    Case("swarmbench", "foraging", 16, 10_002, 52, True),
]


def views(episode: EpisodeRecord, round: int) -> dict[int, dict[str, Any]]:
    return {u.node: json.loads(bytes(u.view)) for u in episode.rounds[round].updates}


def window(view: dict[str, Any]) -> Any:
    return view["private"]["observation"]


def around(case: Case) -> tuple[EpisodeRecord, dict[int, Any], dict[int, Any]]:
    """Play with and without the injection; return the first, and the views when it came."""
    substrate, law = plugins.get_substrate(case.substrate), plugins.get_law("expert")
    calm = play(substrate, law, msgspec.structs.replace(case, shock=False))
    late = play(substrate, law, case)
    assert late.shock is not None
    start = late.shock.round
    assert late.rounds[:start] == calm.rounds[:start]
    return late, views(late, start), views(calm, start)


@pytest.mark.parametrize("case", TOLD, ids=lambda case: case.task)
def test_only_the_named_nodes_see_it_at_once(case: Case) -> None:
    late, with_it, without = around(case)
    assert late.shock is not None
    assert {node for node in with_it if with_it[node] != without[node]} == set(late.shock.nodes)


@pytest.mark.parametrize("case", SEEN, ids=lambda case: case.task)
def test_a_view_changes_only_with_its_window(case: Case) -> None:
    _, with_it, without = around(case)
    changed = {node for node in with_it if with_it[node] != without[node]}
    assert changed == {node for node in with_it if window(with_it[node]) != window(without[node])}
    assert 0 < len(changed) < case.n
