"""Where telling pays, the expert scores above private-only."""

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime import sync


def test_expert_gains_from_word_of_the_walls() -> None:
    scores = {}
    for law in ("private-only", "expert"):
        case = Case("swarmbench", "flocking", 32, 10_040)
        world = plugins.get_substrate("swarmbench").open(case)
        scores[law] = sync.play(world, plugins.get_law(law), case).scores["score"]
    assert scores["expert"] > scores["private-only"]
