"""Every stage of repair, counted: first, normalized, regenerated, projected, fallback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.swarms import SEEN, Toy, play
from waggle.core.canon import encode_decision
from waggle.core.errors import ContractError
from waggle.core.protocols import Decode, Request, Usage
from waggle.core.schema import Decision, Trace

GO = Decision("GO", None, (), None)
GO_TEXT = encode_decision(GO).decode()


def one(law: object, world: Toy | None = None) -> tuple[str, tuple[str, ...], Decision]:
    update = play(world or Toy(rounds=1), law).rounds[0].updates[0]
    return update.stage, update.codes, update.decision


def test_executable_as_emitted() -> None:
    assert one(lambda r: GO_TEXT) == ("first", (), GO)
    assert one(lambda r: GO) == ("first", (), GO)


def test_envelope_is_normalized() -> None:
    stage, codes, decision = one(lambda r: f"Sure!\n```json\n{GO_TEXT}\n```")
    assert (stage, codes, decision) == ("normalized", (), GO)


def test_one_regeneration_sees_the_codes_and_the_text() -> None:
    asked: list[Request] = []

    def law(request: Request) -> str:
        asked.append(request)
        return GO_TEXT if request.feedback else "{}"

    stage, codes, decision = one(law)
    assert stage == "regenerated" and codes and decision == GO
    assert asked[-1].feedback == codes and asked[-1].previous == "{}"
    assert len(asked) == 6, "three nodes, one regeneration each"


def test_projection_deletes_and_reuses_the_proposal() -> None:
    def law(request: Request) -> Decision:
        handle = request.view.private.channels[0].channel
        return Decision("FLY", None, (Trace(handle, "znone", 4, 4, 0, 8),), None)

    stage, codes, decision = one(law)
    assert stage == "projected"
    assert decision == GO
    assert "action.unknown" in codes and "deposit.claim" in codes


def test_projection_keeps_what_is_legal() -> None:
    def law(request: Request) -> Decision:
        handle = request.view.private.channels[0].channel
        claim = request.view.private.evidence[0].claim
        return Decision("FLY", None, (Trace(handle, claim, 4, 3, 0, 8),), None)

    world = Toy(rounds=1, evidence={(0, i): [SEEN] for i in range(3)})
    stage, _, decision = one(law, world)
    assert stage == "projected" and len(decision.deposits) == 1


def test_babble_falls_back_to_no_communication() -> None:
    stage, codes, decision = one(lambda r: "I would rather not say.")
    assert (stage, decision) == ("fallback", GO) and codes


def test_usage_of_both_attempts_is_summed() -> None:
    class Costly:
        name = "costly"

        def decide(self, requests: list[Request]) -> list[Decode]:
            return [Decode("?", Usage(1, 10, 5, 7)) for _ in requests]

    record = play(Toy(rounds=1), Costly())
    assert record.footer.counters["calls"] == 6
    assert record.footer.counters["tokens.input"] == 60
    assert record.footer.counters["stage.fallback"] == 3


def test_a_law_that_answers_too_little_is_told_so() -> None:
    class Lazy:
        name = "lazy"

        def decide(self, requests: list[Request]) -> list[Decode]:
            return []

    with pytest.raises(ContractError, match="exactly one per request"):
        play(Toy(), Lazy())


def test_a_law_that_returns_bare_texts_is_told_so() -> None:
    class Bare:
        name = "bare"

        def decide(self, requests: list[Request]) -> list[str]:
            return [GO_TEXT for _ in requests]

    with pytest.raises(ContractError, match="wrap each text"):
        play(Toy(), Bare())


@pytest.mark.parametrize("output", [{"task_action": "GO"}, None, b"{}"])
def test_a_decode_of_neither_text_nor_decision_is_told_so(output: Any) -> None:
    kind = type(output).__name__
    with pytest.raises(ContractError, match=f"a Decode of {kind}; give it a text or a Decision"):
        play(Toy(), lambda _: output)


def test_a_law_may_return_any_iterable() -> None:
    class Lazy:
        name = "lazy"

        def __init__(self, most: int) -> None:
            self.most = most

        def decide(self, requests: list[Request]) -> Iterator[Decode]:
            yield from (Decode(GO) for _ in requests[: self.most])

    assert one(Lazy(3)) == ("first", (), GO)
    with pytest.raises(ContractError, match="'lazy' returned 2 decodes for 3 requests"):
        play(Toy(), Lazy(2))


@pytest.mark.parametrize("answer", [None, Decode(GO)])
def test_a_law_that_returns_no_list_is_told_so(answer: object) -> None:
    class Single:
        name = "single"

        def decide(self, requests: list[Request]) -> object:
            return answer

    with pytest.raises(ContractError, match=r"'single' returned \w+ instead of a list"):
        play(Toy(), Single())


@pytest.mark.parametrize(
    "usage",
    [None, {"calls": 1}, Usage(-1), Usage(calls=True), Usage(1, 10**30), Usage(1, 2.5)],  # type: ignore[arg-type]
)
def test_a_usage_that_cannot_be_counted_is_told_so(usage: Usage) -> None:
    class Careless:
        name = "careless"

        def decide(self, requests: list[Request]) -> list[Decode]:
            return [Decode(GO, usage) for _ in requests]

    with pytest.raises(ContractError, match=r"law 'careless' returned .* as the usage"):
        play(Toy(rounds=1), Careless())
