"""Rule-based laws are exactly equivariant and always admissible, on any view and its orbit."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from tests.core.strategies import views
from tests.testing.planted import NameReader
from waggle import plugins
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.protocols import Law, Request
from waggle.core.schema import Decision, View, private_decision
from waggle.laws import moves

EXACT = ("expert", "heuristic", "max-offer", "private-only", "random-port", "round-robin")


def decided(law: Law, view: View, entropy: int = 3) -> Decision:
    output = law.decide([Request(view, entropy)])[0].output
    assert isinstance(output, Decision)
    return output


# Making a view up takes longer than deciding on it, so every law gets the same ones.
@given(view=views(), entropy=st.integers(0, 2**64 - 1))
def test_the_image_of_a_view_gets_the_image_of_the_decision(view: View, entropy: int) -> None:
    g = orbit.sample(view, entropy)
    for name in EXACT:
        law = plugins.get_law(name)
        assert decided(law, g.view(view)) == g.decision(decided(law, view)), name


@given(view=views(), entropy=st.integers(0, 2**64 - 1))
def test_whatever_they_decide_is_admissible(view: View, entropy: int) -> None:
    # A substrate that proposes what its contract forbids fails its own conformance check.
    assume(violations(view, private_decision(view)) == ())
    # The expert's rules for a substrate may rely on that substrate's own contract.
    strange = msgspec.structs.replace(view.contract, task="unknown/task")
    view = msgspec.structs.replace(view, contract=strange)
    for name in (*EXACT, "first-listed", "random-legal"):
        assert violations(view, decided(plugins.get_law(name), view, entropy)) == (), name


def test_the_property_catches_a_law_that_reads_names() -> None:
    # That it fails is asked, not the smallest view on which it does.
    @settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate])
    @given(view=views(), entropy=st.integers(0, 2**64 - 1))
    def holds(view: View, entropy: int) -> None:
        assume(view.private.channels)
        g = orbit.sample(view, entropy)
        assert decided(NameReader(), g.view(view)) == g.decision(decided(NameReader(), view))

    with pytest.raises(AssertionError):
        holds()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], None),
        ([(1, 1)], (1, 1)),
        ([(1, 1), (2, 0)], (2, 0)),
        ([(2, 5), (2, 7), (3, 0), (3, 0)], (2, 7)),
        ([(2, 5), (2, 5), (1, 1)], (1, 1)),
        ([(2, 5), (2, 5)], None),
    ],
)
def test_the_largest_unshared_candidate_wins(
    rows: list[tuple[int, int]], expected: tuple[int, int] | None
) -> None:
    assert moves.distinguished(rows, lambda r: (r[0],), lambda r: (r[1],)) == expected
