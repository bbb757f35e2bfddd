"""Recorded choices: replaying them never shows, and few sizes are recorded."""

from typing import Any

import pytest
import torch

from tests.engine.helpers import Watched, offers, states
from waggle.engine.backends.lm_head import LMHead, allowed_lists
from waggle.engine.cuda import graphs
from waggle.engine.cuda.graphs import OFTEN, RETRY, ChoiceGraphs

HERE = torch.device("cpu")


def recorded(capture: Any = lambda step: step) -> LMHead:
    """An output layer as on a GPU."""
    head = Watched()
    layer = LMHead(head, lambda: None, ChoiceGraphs(head, capture))
    layer.rounds = True
    return layer


def sizes(layer: LMHead) -> list[tuple[int, int]]:
    assert layer.graphs is not None
    return list(layer.graphs._graphs)


@pytest.mark.parametrize("count", [1, 12, 13, 100])
def test_replaying_never_shows(count: int) -> None:
    """Also not the states and offers of the choice before."""
    layer, plain = recorded(), LMHead(Watched(), lambda: None)
    for turn in range(2 * OFTEN):
        given = states(count) * (turn + 1) - turn
        moved = [*offers(count)[turn:], *offers(count)[:turn]]
        assert layer.choose_from_all(given, moved)() == plain.choose_from_all(given, moved)()
    assert len(sizes(layer)) == 1
    fewer = states(1)
    assert layer.choose_from_all(fewer, offers(1))() == plain.choose_from_all(fewer, offers(1))()


def test_a_state_that_is_no_number_is_told() -> None:
    layer = recorded()
    given = states(3)
    given[1] = float("nan")
    for _ in range(OFTEN + 1):
        said = layer.choose_from_all(given, offers(3))()
        assert said[1] == -1 and min(said[0], said[2]) >= 0


def test_large_and_wide_choices_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_STATES", 24)
    monkeypatch.setattr(graphs, "MAX_ALLOWED", 16)
    layer = recorded()
    for _ in range(OFTEN + 1):
        layer.choose_from_all(states(25), offers(25))
        layer.choose_from_all(states(2), [tuple(range(17)), (1, 2)])
    assert not sizes(layer)


def test_where_memory_is_short_the_choice_is_made_all_the_same() -> None:
    tries = []

    def failing(step: Any) -> Any:
        tries.append(step)
        raise torch.OutOfMemoryError("out of memory")

    layer = recorded(failing)
    relieved: list[int] = []
    layer._relieve = lambda: relieved.append(1)
    want = recorded().choose_from_all(states(5), offers(5))()
    for _ in range(3 * OFTEN):
        assert layer.choose_from_all(states(5), offers(5))() == want
    assert len(tries) == len(relieved) == 1 < RETRY, "it is not tried again at once"
    with pytest.raises(RuntimeError, match="broken"):
        broken = recorded(lambda step: (_ for _ in ()).throw(RuntimeError("broken")))
        for _ in range(OFTEN):
            broken.choose_from_all(states(5), offers(5))


def test_lists_of_offers_have_few_widths() -> None:
    for widest, width in ((1, 8), (8, 8), (9, 16), (33, 64)):
        found = allowed_lists([tuple(range(5, 5 + widest)), (3, 4)], 4, HERE)
        assert found.shape == (4, width)
        assert found[0, :widest].tolist() == list(range(5, 5 + widest))
        assert set(found[0, widest:].tolist()) <= {5}
        assert set(found[1].tolist()) == {3, 4} and not found[2:].any()
