"""Where to walk: a report is followed if it is wanted, not refuted, and worth the way."""

from __future__ import annotations

import msgspec
import pytest

from tests.laws.views import CONTRACT, view
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.schema import WAIT, ClaimRow, Evidence, Fact, Proposal, View
from waggle.laws import moves, places
from waggle.laws.expert import generic

PLACED = msgspec.structs.replace(CONTRACT, actions=("GO", "TRACK:@claim", WAIT), broadcast=True)


def row(claim: str, kind: str = "prey", **facts: Fact) -> ClaimRow:
    told: dict[str, Fact] = {"kind": kind, "source": "told", "down": 2, "right": 0, "age": 0}
    return ClaimRow(claim, told | facts)


def walker(*rows: ClaimRow, carrying: bool | None = None, **changes: object) -> View:
    """Return a view of a task whose claims have places."""
    made = view(contract=PLACED, claims=rows, **changes)  # type: ignore[arg-type]
    seen = {} if carrying is None else {"carrying": carrying}
    return msgspec.structs.replace(
        made, private=msgspec.structs.replace(made.private, observation=seen)
    )


def test_what_is_seen_is_left_to_the_private_move() -> None:
    assert places.goal(walker(row("za"))) == "za"
    assert places.goal(walker(row("za"), row("zb", source="seen"))) is None


def test_a_claim_without_a_place_or_refuted_is_not_followed() -> None:
    assert places.goal(walker(ClaimRow("za", {"kind": "prey"}))) is None
    assert places.goal(walker(row("za"), evidence=(Evidence("za", 4, 0, 4),))) is None


@pytest.mark.parametrize(
    ("age", "right", "followed"),
    [
        (places.FRESH, -places.REACH, True),
        (places.FRESH + 1, 0, False),
        (0, -places.REACH - 1, False),
    ],
)
def test_a_prey_is_worth_the_way_while_it_is_near_and_fresh(
    age: int, right: int, followed: bool
) -> None:
    assert (places.goal(walker(row("za", age=age, right=right))) == "za") == followed


def landmark(kind: str, down: int) -> ClaimRow:
    return ClaimRow("za", {"kind": kind, "source": "told", "down": down, "right": 0})


def test_an_exit_is_walked_to_until_it_is_near() -> None:
    assert places.goal(walker(landmark("exit", places.NEAR))) == "za"
    assert places.goal(walker(landmark("exit", places.NEAR - 1))) is None


@pytest.mark.parametrize("kind", ["middle", "basket"])
def test_other_landmarks_are_not_walked_to(kind: str) -> None:
    assert places.goal(walker(landmark(kind, 5))) is None


@pytest.mark.parametrize(("carrying", "wanted"), [(True, "zn"), (False, "zf")])
def test_a_forager_makes_for_what_it_needs_now(carrying: bool, wanted: str) -> None:
    rows = row("zf", "food", age=9), row("zn", "nest", age=9)
    assert places.goal(walker(*rows, carrying=carrying)) == wanted


def test_the_youngest_report_goes_first_and_the_nearest_of_equals() -> None:
    told = [row("za", "quarry", age=3, down=1), row("zb", "quarry", age=2, down=6)]
    assert places.goal(walker(*told)) == "zb"
    told.append(row("zc", "quarry", age=2, down=-5))
    assert places.goal(walker(*told)) == "zc"
    tied = row("zd", "quarry"), row("ze", "quarry")
    assert places.goal(walker(*tied)) is None, "nothing but a name tells them apart"


def test_following_names_the_claim_and_keeps_the_rest_of_the_decision() -> None:
    shown = walker(row("za"))
    plain = moves.act(shown)
    named = moves.follow(shown, plain, "za")
    assert named == msgspec.structs.replace(plain, task_action="TRACK:za")
    assert violations(shown, named) == ()
    assert moves.follow(shown, plain, None) == moves.follow(shown, plain, "zz") == plain
    waiting = walker(row("za"), proposal=Proposal(WAIT))
    assert moves.follow(waiting, moves.act(waiting), "za") == moves.act(waiting)
    assert moves.follow(view(claims=(row("za"),)), plain, "za") == plain


def test_the_generic_expert_follows_places_of_an_unknown_task() -> None:
    shown = walker(row("za", "basket", down=6), row("zb", "basket", down=-7))
    decision = generic.decide(shown)
    assert decision.task_action == "TRACK:za"
    for entropy in range(8):
        g = orbit.sample(shown, entropy)
        assert generic.decide(g.view(shown)) == g.decision(decision)
