"""The output layer: rounding the number of states up never shows, and few sizes are met."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from waggle.engine.backends import lm_head as output
from waggle.engine.backends.lm_head import Output
from waggle.engine.cuda.graphs import bucket, buckets
from waggle.engine.model.linear import Linear


class Watched(Linear):
    """A product that notes how many rows it was given."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        super().__init__(torch.randn((50, 8), generator=generator))
        self.sizes: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        """Note the size, and multiply."""
        self.sizes.append(len(x))
        return super().__call__(x)


def made(rounds: bool) -> tuple[Output, Watched]:
    """An output layer that rounds as on a GPU, or not."""
    head = Watched()
    layer = Output(head, lambda: None)
    layer.rounds = rounds
    return layer, head


def states(count: int) -> Tensor:
    return torch.randn((count, 8), generator=torch.Generator().manual_seed(count))


def offers(count: int) -> Sequence[tuple[int, ...]]:
    kinds = [(7, 8, 9), (1, 40), (3,)]
    return [kinds[number % 3] for number in range(count)]


@pytest.mark.parametrize("most", [output.MOST_LOGITS, 16])
@pytest.mark.parametrize("count", [1, 12, 13, 100])
def test_rounding_never_shows(count: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MOST_LOGITS", most)
    (plain, _), (rounded, head) = made(False), made(True)
    given = states(count)
    assert rounded.argmax(given, (4, 5))() == plain.argmax(given, (4, 5))()
    assert rounded.among(given, offers(count))() == plain.among(given, offers(count))()
    assert sum(head.sizes) == 2 * bucket(count)


def test_priming_meets_every_size_that_may_come() -> None:
    layer, head = made(True)
    layer.prime(100)
    met = set(head.sizes)
    assert met == set(buckets(1, 100))
    for count in (1, 30, 96):
        layer.argmax(states(count), ())
    assert set(head.sizes) == met
