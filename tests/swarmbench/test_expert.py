"""Where telling does not pay, the expert moves as private-only does."""

import pytest

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime import sync


@pytest.mark.parametrize("task", ["synchronization"])
def test_expert_moves_privately_and_still_writes(task: str) -> None:
    case = Case("swarmbench", task, 24, 10_000, rounds=40)
    maps, executed = {}, {}
    for law in ("private-only", "expert"):
        world = plugins.get_substrate("swarmbench").open(case)
        footer = sync.play(world, plugins.get_law(law), case)
        maps[law] = world.render()
        executed[law] = footer.counters.get("writes.executed", 0)
    assert maps["expert"] == maps["private-only"]
    assert executed["expert"] > executed["private-only"] == 0


def test_expert_gains_from_word_of_the_walls() -> None:
    scores = {}
    for law in ("private-only", "expert"):
        case = Case("swarmbench", "flocking", 32, 10_040)
        world = plugins.get_substrate("swarmbench").open(case)
        scores[law] = sync.play(world, plugins.get_law(law), case).scores["score"]
    assert scores["expert"] > scores["private-only"]
