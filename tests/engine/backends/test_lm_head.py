"""The output layer: rounding the number of states up never shows, and few sizes are met."""

import pytest

from tests.engine.helpers import Watched, offers, states
from waggle.engine.backends import lm_head
from waggle.engine.backends.lm_head import LMHead
from waggle.engine.cuda.graphs import bucket


def made(rounds: bool) -> tuple[LMHead, Watched]:
    """An output layer that rounds as on a GPU, or not."""
    head = Watched()
    layer = LMHead(head, lambda: None)
    layer.rounds = rounds
    return layer, head


@pytest.mark.parametrize("most", [lm_head.MAX_LOGITS, 16])
@pytest.mark.parametrize("count", [1, 12, 13, 100])
def test_rounding_never_shows(count: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm_head, "MAX_LOGITS", most)
    (plain, _), (rounded, head) = made(False), made(True)
    given = states(count)
    assert rounded.argmax(given, (4, 5))() == plain.argmax(given, (4, 5))()
    assert (
        rounded.choose_from_all(given, offers(count))()
        == plain.choose_from_all(given, offers(count))()
    )
    assert sum(head.sizes) == 2 * bucket(count)
