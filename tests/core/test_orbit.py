"""The orbit is a group that acts on views and decisions and moves nothing but names and rows."""

from __future__ import annotations

from hypothesis import given

from tests.core.examples import CONTRACT, GO, VIEW
from tests.core.strategies import ENTROPY, pairs, views
from waggle.core.canon import check_view, encode_view
from waggle.core.naming import Renaming, claims_of
from waggle.core.orbit import Orbit, consistent, sample
from waggle.core.schema import Decision, Private, Proposal, View
from waggle.core.summary import field, rho


@given(pairs(), ENTROPY)
def test_inverse_undoes(pair: tuple[View, Decision], entropy: int) -> None:
    view, decision = pair
    g = sample(view, entropy)
    assert g.inverse().view(g.view(view)) == view
    assert g.inverse().decision(g.decision(decision)) == decision
    check_view(g.view(view))


@given(pairs(legal=True), ENTROPY)
def test_legal_pairs_are_consistent(pair: tuple[View, Decision], entropy: int) -> None:
    view, decision = pair
    g = sample(view, entropy)
    assert consistent(view, decision, g)
    assert rho(g.view(view), g.decision(decision)) == rho(view, decision)
    assert field(g.view(view)) == field(view)


@given(views(), ENTROPY)
def test_sample_is_no_identity_where_there_is_a_name(view: View, entropy: int) -> None:
    moved = sample(view, entropy).view(view)
    named = bool(view.private.channels or claims_of(view))
    assert (encode_view(moved) != encode_view(view)) == named


def test_arguments_of_actions_are_renamed() -> None:
    g = sample(VIEW, 5)
    target = g.renaming.handles["hb"]
    assert g.decision(Decision("MATCH:hb", None, (), None)).task_action == f"MATCH:{target}"
    place = g.renaming.claims["z1"]
    assert g.decision(Decision("TRACK:z1", None, (), None)).task_action == f"TRACK:{place}"
    assert g.decision(GO) == GO


def test_free_content_is_left_alone() -> None:
    private = Private({"note": "ha z1"}, channels=VIEW.private.channels)
    view = View(CONTRACT, private, Proposal("GO", "ha"), (), None, 1)
    moved = sample(view, 9).view(view)
    assert moved.private.observation == {"note": "ha z1"} and moved.proposal.response == "ha"


def test_planted_inconsistency_is_caught() -> None:
    """A transformation that merges two claims, or forgets the decision, is no orbit element."""
    good = sample(VIEW, 3)
    merged = Orbit(
        Renaming(good.renaming.handles, {**good.renaming.claims, "z3": good.renaming.claims["z1"]}),
        good.evidence, good.ready, good.channels, good.claims, good.traces,
    )  # fmt: skip
    decision, tracking = (Decision(a, None, (), None) for a in ("MATCH:hb", "TRACK:z1"))

    class Forgetful(Orbit, frozen=True):
        def decision(self, decision: Decision) -> Decision:
            return decision

    forgetful = Forgetful(
        good.renaming, good.evidence, good.ready, good.channels, good.claims, good.traces
    )
    assert consistent(VIEW, decision, good)
    assert not consistent(VIEW, decision, forgetful)
    assert consistent(VIEW, tracking, good)
    assert not consistent(VIEW, tracking, forgetful)
    writing = Decision("GO", None, (VIEW.traces[0].__class__("hb", "z1", 4, 3, 0, 8, "N"),), None)
    assert consistent(VIEW, writing, good)
    assert not consistent(VIEW, writing, merged)
