"""Templates and grammar say exactly what admission admits, with at most one deposit."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given

from tests.core import oracle
from tests.core.containment import contains, matches
from tests.core.examples import CONTRACT, VIEW
from tests.core.grammars import accepts, max_length, spell
from tests.core.strategies import ENTROPY, mutate, pairs, views
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.canon import encode_decision, encode_view
from waggle.core.decode import parse
from waggle.core.grammar import grammar, longest
from waggle.core.options import actions, channels, writes
from waggle.core.schema import WAIT, Decision, Trace, View
from waggle.core.templates import Templates, sample

SPARE = 64
"""Bytes: of a commitment that a view does not allow, of names that may not go where they fit."""


@given(views(), ENTROPY)
def test_samples_are_admissible_and_contained(view: View, entropy: int) -> None:
    decision = sample(view, entropy)
    assert oracle.legal(oracle.read(encode_view(view)), encode_decision(decision))
    assert contains(view, decision)
    assert accepts(grammar(view), encode_decision(decision).decode())


@given(pairs())
def test_contains_is_admission_for_at_most_one_deposit(pair: tuple[View, Decision]) -> None:
    view, decision = pair
    decision = msgspec.structs.replace(decision, deposits=decision.deposits[:1])
    admissible = violations(view, decision) == ()
    assert contains(view, decision) == admissible
    assert accepts(grammar(view), encode_decision(decision).decode()) == admissible


@given(pairs())
def test_contained_decisions_are_admissible(pair: tuple[View, Decision]) -> None:
    view, decision = pair
    if contains(view, decision):
        assert violations(view, decision) == ()


@given(views(), ENTROPY)
def test_every_text_of_the_grammar_is_admissible(view: View, entropy: int) -> None:
    text = spell(grammar(view), random.Random(entropy))
    decision = parse(text).decision
    assert decision is not None and violations(view, decision) == ()
    assert encode_decision(decision).decode() == text


@given(views(), ENTROPY)
def test_the_sequence_is_consistent(view: View, entropy: int) -> None:
    found = Templates(view)
    template = found[entropy % len(found)]
    decision = template.decision(entropy)
    assert matches(template, decision) and contains(view, decision)
    with pytest.raises(IndexError):
        found[len(found)]


@given(views(), ENTROPY, ENTROPY)
def test_samples_move_with_a_renaming(view: View, names: int, entropy: int) -> None:
    renaming = orbit.sample(view, names).renaming
    assert sample(renaming.view(view), entropy) == renaming.decision(sample(view, entropy))


def test_templates_are_distinct() -> None:
    legal = Templates(VIEW)
    found = [legal[i] for i in range(len(legal))]
    assert len(set(found)) == len(found)


def test_fan_out_reaches_every_channel() -> None:
    wide = msgspec.structs.replace(VIEW, contract=msgspec.structs.replace(CONTRACT, deposits=3))
    fan = tuple(Trace(c, "z1", 4, 3, 0, 8, "N") for c in ("ha", "hb", "hc"))
    decision = Decision("GO", None, fan, None)
    assert contains(wide, decision) and not contains(VIEW, decision)
    assert accepts(grammar(wide), encode_decision(decision).decode())


def test_samples_reach_every_mode_of_the_example() -> None:
    from waggle.core.modes import Mode, mode

    assert {mode(VIEW, sample(VIEW, i)) for i in range(2000)} == set(Mode)


def test_a_planted_amplifying_relay_is_not_contained() -> None:
    amplified = Decision("GO", None, (Trace("ha", "z2", 3, 4, 0, 4, "E"),), None)
    assert not contains(VIEW, amplified)
    assert not accepts(grammar(VIEW), encode_decision(amplified).decode())
    rng = random.Random(1)
    assert any(not contains(VIEW, mutate(sample(VIEW, i), rng)) for i in range(50))


@given(views())
def test_no_text_is_longer_than_foretold(view: View) -> None:
    """And what is foretold is near: caches are laid out for it."""
    found, most = max_length(grammar(view)), longest(view)
    assert found <= most
    if writes(view) and channels(view) and {*actions(view)} > {WAIT}:
        assert most <= found + SPARE
