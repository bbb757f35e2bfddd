"""Canonical order: one text for an orbit, different texts for different orbits, and fast."""

from __future__ import annotations

import time
from itertools import permutations, product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.examples import SYMMETRIC, VIEW, symmetric
from tests.core.strategies import ENTROPY, fresh_views, pairs, views
from waggle.core import orbit, order
from waggle.core.canon import check_view, encode_view
from waggle.core.errors import ContractError
from waggle.core.naming import Renaming, claims_of, handles_of
from waggle.core.order import canonical, shuffle
from waggle.core.schema import ClaimRow, Decision, Private, Proposal, View

EMPTY = View(VIEW.contract, Private({}), Proposal("GO"), (), None, 4)


def _text(view: View) -> bytes:
    return encode_view(canonical(view)[0])


@given(views(), ENTROPY)
def test_canonical_is_constant_on_orbits(view: View, entropy: int) -> None:
    assert _text(orbit.sample(view, entropy).view(view)) == _text(view)


def test_a_claim_that_the_proposed_action_names_is_like_no_other() -> None:
    rows = (ClaimRow("z1", {"kind": "prey"}), ClaimRow("z2", {"kind": "prey"}))
    private = msgspec.structs.replace(EMPTY.private, claims=rows)
    one, other = (
        msgspec.structs.replace(EMPTY, private=private, proposal=Proposal(f"TRACK:{claim}"))
        for claim in ("z1", "z2")
    )
    assert _text(one) == _text(other)
    assert orbit.stabiliser_trivial(one)


@given(fresh_views(traces=12))
def test_canonical_is_idempotent_and_valid(view: View) -> None:
    found, renaming = canonical(view)
    check_view(found)
    assert canonical(found)[0] == found
    strengths = [(t.novelty, t.support, t.conflict, t.ttl) for t in found.traces]
    assert strengths == sorted(strengths, reverse=True)
    back = renaming.inverse().view(found)
    assert sorted(map(repr, back.traces)) == sorted(map(repr, view.traces))
    assert (back.proposal, back.commitment) == (view.proposal, view.commitment)


@given(pairs())
def test_renaming_round_trip(pair: tuple[View, Decision]) -> None:
    view, decision = pair
    renaming = canonical(view)[1]
    assert renaming.inverse().decision(renaming.decision(decision)) == decision
    assert renaming.inverse().view(renaming.view(view)) == view


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_views_have_one_text_and_are_fast(name: str) -> None:
    view = SYMMETRIC[name]
    start = time.process_time()
    texts = {_text(orbit.sample(view, entropy).view(view)) for entropy in range(40)}
    assert texts == {_text(view)}
    assert (time.process_time() - start) / 40 < 0.1
    assert not orbit.stabiliser_trivial(view)


def test_refinement_alone_cannot_tell_these_apart() -> None:
    assert _text(SYMMETRIC["one cycle"]) != _text(SYMMETRIC["two cycles"])


def test_names_are_counted_in_row_order() -> None:
    found = canonical(VIEW)[0]
    assert [port.channel for port in found.private.channels] == ["h1", "h2", "h3"]
    assert [port.lot for port in found.private.channels] == [7, 7, 3]


def test_too_many_traces_are_refused() -> None:
    with pytest.raises(ContractError, match="cut them"):
        canonical(msgspec.structs.replace(VIEW, traces=VIEW.traces * 5))


small = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=5).map(
    lambda links: symmetric(3, links)
)


def _renamings(view: View) -> list[Renaming]:
    hs, zs = list(handles_of(view)), list(claims_of(view))
    return [
        Renaming.of(dict(zip(hs, a, strict=True)), dict(zip(zs, b, strict=True)))
        for a, b in product(permutations(hs), permutations(zs))
    ]


def _rows(view: View) -> tuple[object, ...]:
    p = view.private
    rows = (p.evidence, p.ready, p.channels, p.claims, view.traces)
    return (*(sorted(map(repr, r)) for r in rows), view.proposal, view.commitment)


def _onto(one: View, other: View) -> bool:
    """Whether some bijection of references maps one view to the other, by trying them all."""
    hs, zs = list(handles_of(one)), list(claims_of(one))
    targets = permutations(handles_of(other)), permutations(claims_of(other))
    if (len(hs), len(zs)) != (len(handles_of(other)), len(claims_of(other))):
        return False
    return any(
        _rows(Renaming.of(dict(zip(hs, a, strict=True)), dict(zip(zs, b, strict=True))).view(one))
        == _rows(other)
        for a, b in product(*map(list, targets))
    )


@given(small, small)
def test_same_text_means_same_orbit(one: View, other: View) -> None:
    assert (_text(one) == _text(other)) == _onto(one, other)


@given(st.one_of(small, fresh_views(handles=4, claims=1), fresh_views(handles=4, claims=3)))
def test_ranks_without_a_search_are_those_of_the_search(view: View) -> None:
    searched = order._searched(view, None, list(handles_of(view)), list(claims_of(view)))
    assert order.relabel(view) == searched


@given(fresh_views(handles=3, claims=3))
def test_stabiliser_agrees_with_trying_everything(view: View) -> None:
    fixing = sum(_rows(g.view(view)) == _rows(view) for g in _renamings(view))
    assert orbit.stabiliser_trivial(view) == (fixing == 1)


@given(fresh_views(handles=3, claims=3), ENTROPY, ENTROPY)
def test_equality_modulo_the_stabiliser(view: View, one: int, other: int) -> None:
    from waggle.core.templates import sample

    d, e = sample(view, one), sample(view, other)
    moves = [g for g in _renamings(view) if _rows(g.view(view)) == _rows(view)]
    assert orbit.equal_modulo_stabiliser(view, d, e) == any(g.decision(d) == e for g in moves)
    assert all(orbit.equal_modulo_stabiliser(view, d, g.decision(d)) for g in moves)


def _contents(view: View) -> list[list[str]]:
    p = view.private
    return [sorted(map(repr, r)) for r in (p.evidence, p.ready, p.channels, p.claims, view.traces)]


@given(views(), ENTROPY)
def test_shuffle_permutes_and_is_named_by_its_entropy(view: View, entropy: int) -> None:
    found = shuffle(view, entropy)
    assert _contents(found) == _contents(view)
    assert found == shuffle(view, entropy)


def test_shuffle_moves_every_table() -> None:
    orders = {tuple(t.channel for t in shuffle(VIEW, e).traces) for e in range(100)}
    assert len(orders) == 6
