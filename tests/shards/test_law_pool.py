"""A law in an actor decides together what waits, and its queue is bounded by the shards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence

import pytest

from waggle.core.errors import ContractError
from waggle.core.protocols import Decode, Request
from waggle.shards.inline import answered
from waggle.shards.law_pool import LawActor


class Slow:
    """Tells every request by its entropy, and takes its time over the first batch."""

    name = "slow"

    def __init__(self) -> None:
        self.first = threading.Event()

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        assert self.first.wait(30)
        if any(request.entropy == 13 for request in requests):
            raise ValueError("thirteen")
        return [Decode(str(request.entropy)) for request in requests]


def asked(*chunks: range) -> tuple[list[object], list[int]]:
    """Let shards ask at one time, each a chunk; return answers, and the sizes of batches."""
    law = Slow()
    actor = LawActor(lambda: law)

    async def all_at_once() -> list[object]:
        waiting = [
            asyncio.ensure_future(actor.decide([Request(None, k) for k in chunk]))  # type: ignore[arg-type]
            for chunk in chunks
        ]
        await asyncio.sleep(0)
        law.first.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(all_at_once()), actor.batches


def test_what_waits_while_a_batch_is_decided_is_the_next_batch() -> None:
    answers, batches = asked(range(2), range(2, 5), range(5, 9))
    told = [[decode.output for decode in answer] for answer in answers]  # type: ignore[attr-defined]
    assert told == [["0", "1"], ["2", "3", "4"], ["5", "6", "7", "8"]]
    assert batches == [2, 7]


def test_an_error_is_that_of_everybody_in_the_batch_and_the_next_batch_is_decided() -> None:
    answers, batches = asked(range(13, 14), range(20, 22))
    assert isinstance(answers[0], ValueError)
    assert [decode.output for decode in answers[1]] == ["20", "21"]  # type: ignore[attr-defined]
    assert batches == [1, 2]


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3)])
def test_a_law_that_ends_or_runs_out_is_an_error_of_the_law(error: BaseException) -> None:
    class Leaving:
        name = "leaving"

        def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
            raise error

    async def answer() -> object:
        return await asyncio.wait_for(LawActor(Leaving).decide([Request(None)]), 60)  # type: ignore[arg-type]

    with pytest.raises(ContractError, match=r"StopIteration|sys\.exit"):
        asyncio.run(answer())


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3)])
def test_a_law_that_ends_or_runs_out_does_not_end_a_shard(error: BaseException) -> None:
    class Leaving:
        name = "leaving"

        def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
            raise error

    def shard() -> Generator[Sequence[Request], Sequence[Decode], str]:
        yield [Request(None)]  # type: ignore[arg-type]
        return "told"

    with pytest.raises(ContractError, match="law 'leaving' failed"):
        answered(shard(), Leaving())
