"""Silo episodes for tests: the expert with one of its choices changed, worlds, writes."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from waggle.core.protocols import Case, Decode, Local, Request, Write
from waggle.core.schema import Decision
from waggle.laws.expert.silo import decide
from waggle.runtime.sync import play
from waggle.substrates.silo.adapter import Silo
from waggle.substrates.silo.world import SiloWorld

SEED = 10_000


class Rule:
    """The expert with one of its choices changed."""

    name = "rule"

    def __init__(self, change: Callable[[Request, Decision], Decision] | None = None) -> None:
        self._change = change

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        made = [decide(request.view) for request in requests]
        if self._change is not None:
            made = [self._change(r, d) for r, d in zip(requests, made, strict=True)]
        return [Decode(decision) for decision in made]


def scores(task: str, n: int, law: object = None, **options: object) -> Mapping[str, float]:
    fields = {k: options.pop(k) for k in ("rounds", "shock", "seed") if k in options}
    case = msgspec.structs.replace(Case("silo", task, n, SEED, options=options), **fields)
    return play(Silo().open(case), law or Rule(), case).scores  # type: ignore[arg-type]


def opened(task: str = "I-05", n: int = 8, **options: object) -> SiloWorld:
    return Silo().open(Case("silo", task, n, SEED, options=options))


def nothing_held() -> Local:
    return Local((), None)


def write(sender: int, receiver: int, claim: str) -> Write:
    return Write(sender, receiver, claim, 4, 1, 0, 8, None, True)
