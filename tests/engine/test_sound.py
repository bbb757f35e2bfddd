"""A device that computes no numbers is an error, never an answer."""

import copy
from typing import Any

import pytest
import torch

from tests.engine.helpers import prompts, row_engine
from waggle.engine.engine import Engine
from waggle.engine.flights import NoNumbers


@pytest.mark.parametrize("rolls", [True, False])
@pytest.mark.parametrize("bound", [True, False])
def test_what_is_no_number_is_no_answer(
    tiny: Any, record_grammar: Any, rolls: bool, bound: bool
) -> None:
    model = copy.deepcopy(tiny[0])
    engine = row_engine((model, tiny[1]), 6, rolls=rolls)
    if rolls:
        engine.backend.least = lambda rows, effort: 2.0  # type: ignore[method-assign]
    options = {"grammar": engine.constraint(record_grammar)} if bound else {}
    batch = prompts(tiny[1], 9, **options)
    want = [done.tokens for done in engine.generate(batch)]
    norm: torch.Tensor = engine.backend.decoder.norm  # type: ignore[attr-defined]
    kept = norm.clone()
    norm.fill_(float("nan"))
    with pytest.raises(NoNumbers, match="WAGGLE_KERNELS"):
        engine.generate(batch)
    norm.copy_(kept)
    assert [done.tokens for done in engine.generate(batch)] == want


def test_a_rolled_row_that_turns_into_no_number_is_no_answer(tiny: Any) -> None:
    engine = row_engine(tiny, 4, rolls=True, speculate=False)
    backend: Any = engine.backend
    loop, calls = backend.loop.run, []

    def run(*given: Any) -> Any:
        calls.append(1)
        found = loop(*given)
        if len(calls) == 1:
            found[1].tokens[3] = -1
        return found

    backend.loop.run = run
    with pytest.raises(NoNumbers):
        engine.generate(prompts(tiny[1], 4))
    assert engine.generate(prompts(tiny[1], 4)) == Engine(*tiny, speculate=False).generate(
        prompts(tiny[1], 4)
    )
