"""What a world lacks or returns wrongly is one line with the fix, on both engines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.swarms import Toy, play
from waggle.core.errors import ContractError
from waggle.core.protocols import Sensed, Suggestion
from waggle.core.schema import Contract, Evidence
from waggle.laws.controls import PrivateOnly
from waggle.runtime.worlds import check_world


class Bare:
    """A world that does not derive from WorldBase and lacks all that it offers."""

    n, rounds, keys = 2, 3, (0, 1)
    contract = Contract("bare", "Wait.", ("WAIT",))

    def neighbours(self, node: int) -> tuple[int, ...]:
        return ()


def without(name: str) -> Toy:
    """Return a world whose class and object lack an attribute."""
    parts = {k: v for k, v in vars(Toy).items() if k not in (name, "__init__", "__dict__")}
    return type("Toy", Toy.__bases__, parts)()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["n", "keys", "contract", "rounds"])
def test_a_missing_attribute_is_named(name: str) -> None:
    world: Any = without(name)
    if name != "rounds":
        world.rounds = 3
    with pytest.raises(ContractError, match=f"'toy' has no `{name}`; set it in `__init__`"):
        check_world(world, "toy")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rounds": 2.5}, "has 2.5 as `rounds`; make it a whole number"),
        ({"n": "3"}, "has '3' as `n`; make it a whole number"),
        ({"contract": "Agree."}, "has a value of type str as `contract`; give a Contract"),
        ({"keys": (0, 1)}, "needs a key for each of 3 nodes"),
        ({"sense": lambda node: None}, r"write `def sense\(self, node, local\)`"),
        ({"step": None}, r"has no method `step`; write `def step\(self, acts\)`"),
        ({"step": lambda acts: None}, r"`step` .* returned nothing; return the native action"),
        ({"step": lambda acts: list(acts)}, "`step` .* returned a value of type list"),
        ({"step": lambda acts: acts}, "returned a value of type Act for a node"),
        ({"score": lambda: None}, "`score` .* returned nothing; return numbers by name"),
        ({"score": lambda: {"wins": 1.0}}, "`score` .* returned no 'score'"),
        ({"score": lambda: {"score": None}}, "returned nothing as 'score'"),
        (
            {"neighbours": lambda node: None},
            "`neighbours` .* returned nothing; return",
        ),
        ({"neighbours": lambda node: [7]}, "`neighbours` .* returned 7, which is no node"),
        ({"sense": lambda node, local: None}, "`sense` .* returned nothing; return a Sensed"),
        ({"sense": lambda node, local: Sensed({}, "GO")}, "as `proposal`; give a Suggestion"),  # type: ignore[arg-type]
        (
            {"sense": lambda *_: Sensed({}, Suggestion("GO", response=3))},  # type: ignore[arg-type]
            "a value of type int as `response` of its proposal; give a text",
        ),
        (
            {"sense": lambda *_: Sensed({}, Suggestion("GO"), Evidence("x", 1, 1, 0))},  # type: ignore[arg-type]
            r"no tuple of Evidence as `evidence`; write \(Evidence\(...\),\)",
        ),
    ],
)
@pytest.mark.parametrize("event", [False, True])
def test_what_does_not_fit_is_one_line(changes: dict[str, Any], told: str, event: bool) -> None:
    world = type("Toy", (Toy,), {})()  # a class of its own: methods are checked once per class
    vars(world).update(changes)
    with pytest.raises(ContractError, match=told) as caught:
        play(world, PrivateOnly(), event)
    assert "'toy'" in str(caught.value) and "\n" not in str(caught.value)


def test_a_world_that_was_not_returned_or_not_derived_is_told() -> None:
    with pytest.raises(ContractError, match=r"open\(\) of 'bare' returned nothing"):
        check_world(None, "bare")
    with pytest.raises(ContractError, match="has no method `active`; derive it from WorldBase"):
        check_world(Bare(), "bare")


def test_an_error_of_the_world_itself_stays_what_it_is() -> None:
    class Faulty(Toy):
        def sense(self, node: int, local: Any) -> Sensed:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        play(Faulty(), PrivateOnly())
