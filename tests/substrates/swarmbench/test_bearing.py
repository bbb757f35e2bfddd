"""Bearings: bins keep their places, sides and order, and a place passed on stays where it is."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from waggle.substrates.swarmbench.agent.bearing import EDGES, Bearing, bearing, estimate

LAST = len(EDGES)
bins = st.integers(-LAST, LAST)
cells = st.integers(-30, 30)


@given(bins, bins)
def test_the_cell_that_stands_for_bins_lies_in_them(down: int, right: int) -> None:
    assert bearing(estimate(Bearing(down, right))) == Bearing(down, right)


@given(cells, cells)
def test_a_place_passed_on_without_a_step_in_between_is_unchanged(i: int, j: int) -> None:
    told = estimate(bearing((i, j)))
    assert bearing(told) == bearing((i, j))
    assert estimate(bearing(told)) == told


@given(cells, cells)
def test_bins_grow_with_distance_and_mirror_with_the_side(a: int, b: int) -> None:
    near, far = sorted((a, b))
    assert bearing((near, 0)).down <= bearing((far, 0)).down
    assert bearing((-a, -b)) == Bearing(-bearing((a, b)).down, -bearing((a, b)).right)
    assert bearing((a, b)) == Bearing(bearing((a, 0)).down, bearing((b, 0)).down)


def test_near_places_are_exact_and_far_ones_coarse() -> None:
    for distance in range(3):
        assert estimate(bearing((distance, -distance))) == (distance, -distance)
    sizes = [hi - lo for lo, hi in pairwise(EDGES)]
    assert sizes == sorted(sizes) and sizes[-1] > 1
    assert bearing((EDGES[-1] + 1, 900)) == Bearing(LAST, LAST)
