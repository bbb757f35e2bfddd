"""A failure loses its batch and nothing else: what is decoded afterwards is right again."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch

from tests.engine.helpers import long_prompts, prompts, reference, row_engine
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt


def failing(number: int) -> Callable[..., Any]:
    """Return a maker of tensors that breaks down when it is asked for the n-th."""
    plenty, asked = torch.zeros, count(1)

    def zeros(*args: Any, **options: Any) -> Any:
        if next(asked) == number:
            raise RuntimeError("broken")
        return plenty(*args, **options)

    return zeros


@pytest.mark.parametrize("kind", ["shared", "rows", "rolled"])
def test_what_follows_a_failure_is_right(
    tiny: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = (
        Engine(*tiny, max_rows=8)
        if kind == "shared"
        else row_engine(tiny, 8, rolls=kind == "rolled", speculate=kind != "rolled")
    )
    # One more than there are rows.
    short, longer = prompts(tiny[1], 9), long_prompts(tiny[1], 9)
    batches = [longer, short, long_prompts(tiny[1], 2, 200), longer]
    wanted = [[reference(*tiny, prompt) for prompt in batch] for batch in batches]

    def found(some: list[Prompt]) -> list[tuple[int, ...]]:
        return [done.tokens for done in engine.generate(some)]

    found(short)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", failing(2))
        with pytest.raises(RuntimeError, match="broken"):
            found(longer)
    for batch, want in zip(batches, wanted, strict=True):
        assert found(batch) == want
