from __future__ import annotations

import numpy as np
import pytest

from waggle.core.errors import ConfigError
from waggle.core.seeds import generator
from waggle.evaluate import stats
from waggle.evaluate.stats import average_ranks, hierarchical, paired, ratio
from waggle.report.tables import bracketed


def test_paired_agrees_with_scipy() -> None:
    from scipy import stats as oracle  # half a second, for this test alone

    values = generator(1, "test").normal(0.2, 1.0, 60)
    ours = paired(values)
    theirs = oracle.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert ours.mean == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)
    assert ours.units == 60


def test_strata_weigh_equally_and_are_resampled_apart() -> None:
    fixed = paired({"a": [1.0] * 3, "b": [3.0] * 30})
    assert (fixed.mean, fixed.low, fixed.high, fixed.units) == (2.0, 2.0, 2.0, 33)


def test_same_seed_same_interval() -> None:
    values = generator(4, "test").normal(0, 1, 50)
    assert paired(values) == paired(values)
    assert paired(values, seed=1) != paired(values)


def test_draws_that_are_kept_are_those_of_drawing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = generator(5, "test")
    strata = {name: rng.normal(0, 1, size) for name, size in (("a", 7), ("b", 12), ("c", 20))}
    kept = paired(strata)
    monkeypatch.setattr(stats, "KEPT", 0)
    stats._paired.cache_clear()
    assert paired(strata) == kept


def test_a_ratio_draws_both_sides_together() -> None:
    values = generator(6, "test").uniform(1, 2, 20)
    exact = ratio({"a": 3 * values}, {"a": values})
    assert exact is not None and exact.mean == pytest.approx(3.0)
    assert exact.low == pytest.approx(3.0) and exact.high == pytest.approx(3.0)
    apart = ratio({"a": 3 * values}, {"a": values[::-1]})
    assert apart is not None and apart.mean == pytest.approx(3.0) and apart.low < 2.9


def test_a_ratio_needs_matched_units_and_a_divisor() -> None:
    assert ratio({"a": [1.0, 2.0]}, {"a": [0.0, 1.0]}) is None  # zero in some resamples
    for other in ({"a": [1.0]}, {"b": [1.0, 2.0]}, {}):
        with pytest.raises(ConfigError, match="same matched units"):
            ratio({"a": [1.0, 2.0]}, other)


def test_hierarchical_is_wider_where_training_seeds_differ() -> None:
    rng = generator(2, "test")
    within = [rng.normal(0.0, 0.1, 40) for _ in range(5)]
    between = [w + shift for w, shift in zip(within, (-1, -0.5, 0, 0.5, 1), strict=True)]
    flat = hierarchical({"s": within})
    spread = hierarchical({"s": between})
    assert spread.high - spread.low > 5 * (flat.high - flat.low)
    assert spread.mean == pytest.approx(np.mean(between))


def test_hierarchical_draws_a_training_seed_once_for_all_strata() -> None:
    """Opposite effects of one training seed in two strata cancel only if drawn together."""
    rows = {"a": [[1.0], [-1.0]], "b": [[-1.0], [1.0]]}
    found = hierarchical(rows)
    assert (found.low, found.high) == (0.0, 0.0)


def test_hierarchical_one_seed_equals_paired() -> None:
    values = generator(3, "test").normal(0, 1, 50)
    one, other = hierarchical({"s": [values]}), paired(values)
    assert one.low == pytest.approx(other.low, abs=0.03)
    assert one.high == pytest.approx(other.high, abs=0.03)


@pytest.mark.parametrize("bad", [{}, {"a": []}])
def test_empty_strata_are_refused(bad: dict[str, list[float]]) -> None:
    with pytest.raises(ConfigError, match="matched unit"):
        paired(bad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_what_was_not_measured_is_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="finite numbers"):
        paired([1.0, bad])
    with pytest.raises(ConfigError, match="finite numbers"):
        hierarchical({"a": [[1.0], [bad]]})


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = generator(6, "test")
    found = [paired(rng.normal(0.5, 1.0, 40), resamples=1_000) for _ in range(400)]
    assert 0.91 <= np.mean([each.low <= 0.5 <= each.high for each in found]) <= 0.98
    made = []
    for _ in range(200):
        rows = [rng.normal(shift, 1.0, 10) for shift in rng.normal(0.5, 0.5, 10)]
        made.append(hierarchical({"s": rows}, resamples=500))
    assert 0.88 <= np.mean([each.low <= 0.5 <= each.high for each in made]) <= 0.98


@pytest.mark.parametrize(
    ("cells", "units", "covered"), [(1, 5, 0.83), (3, 5, 0.89), (9, 5, 0.90), (1, 10, 0.90)]
)
def test_intervals_of_few_units_cover_as_little_as_the_docs_say(
    cells: int, units: int, covered: float
) -> None:
    rng = generator(7, "test")
    names = [str(cell) for cell in range(cells)]
    found = [
        paired(dict(zip(names, rng.normal(size=(cells, units)), strict=True)), resamples=500)
        for _ in range(600)
    ]
    assert np.mean([each.low <= 0 <= each.high for each in found]) == pytest.approx(
        covered, abs=0.03
    )


@pytest.mark.parametrize(("seeds", "covered"), [(3, 0.78), (5, 0.85)])
def test_intervals_of_few_training_seeds_cover_as_little_as_the_docs_say(
    seeds: int, covered: float
) -> None:
    rng = generator(8, "test")
    found = [
        hierarchical(
            {"s": [*(rng.normal(size=(seeds, 1)) + rng.normal(size=(seeds, 20)))]}, resamples=400
        )
        for _ in range(500)
    ]
    assert np.mean([each.low <= 0 <= each.high for each in found]) == pytest.approx(
        covered, abs=0.04
    )


@pytest.mark.parametrize(("seeds", "cases", "hard"), [(5, 10, 1.0), (3, 45, 0.5), (5, 40, 0.0)])
def test_what_is_hard_for_every_training_seed_is_not_taken_for_chance(
    seeds: int, cases: int, hard: float
) -> None:
    """Cases drawn for each training seed alone covered .74, .88 and .94."""
    rng = generator(9, "test")
    found = [
        hierarchical(
            {"s": [*(hard * rng.normal(size=cases) + rng.normal(size=(seeds, cases)))]},
            resamples=400,
        )
        for _ in range(300)
    ]
    assert np.mean([each.low <= 0 <= each.high for each in found]) >= 0.90


def test_hierarchical_draws_a_case_once_for_all_training_seeds() -> None:
    """Two training seeds that agree on every case are worth one."""
    found = hierarchical({"s": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]}), paired([1.0, 2.0, 3.0])
    assert [(each.low, each.high) for each in found] == [(1.0, 3.0)] * 2


def test_uneven_training_seeds_are_refused() -> None:
    with pytest.raises(ConfigError, match="same training seeds"):
        hierarchical({"a": [[1.0]], "b": [[1.0], [2.0]]})


def test_average_ranks_average_ties() -> None:
    ranks = average_ranks({"x": [3.0, 3.0], "y": [3.0, 2.0], "z": [1.0, 1.0]})
    assert ranks == {"x": (1.5 + 1) / 2, "y": (1.5 + 2) / 2, "z": 3.0}


def test_one_unit_per_stratum_gives_no_interval() -> None:
    alone, some = paired({"a": [1.0], "b": [3.0]}), paired({"a": [1.0], "b": [3.0, 3.0]})
    assert alone.mean == some.mean == 2.0
    assert alone.single and not alone.above_zero
    assert not some.single and some.above_zero
    assert bracketed(alone, "+.1f") == "+2.0"
    assert bracketed(some, "+.1f") == "+2.0 [+2.0, +2.0]"
    assert bracketed(some, ".0f", scale=100.0) == "200 [200, 200]" and bracketed(None, "") == "—"


def test_hierarchical_of_two_constant_seeds_is_their_range() -> None:
    """The mean of two drawn seeds is -1, 0 or 1 with chances 1/4, 1/2, 1/4."""
    found = hierarchical({"s": [[-1.0] * 7, [1.0] * 3]})
    assert (found.mean, found.low, found.high, found.units) == (0.0, -1.0, 1.0, 10)
    assert not found.single


def test_hierarchical_strata_weigh_equally_whatever_their_units() -> None:
    found = hierarchical({"a": [[1.0] * 3, [1.0] * 4], "b": [[3.0] * 30, [3.0] * 2]})
    assert (found.mean, found.low, found.high) == (2.0, 2.0, 2.0)


def test_hierarchical_spread_is_of_seeds_and_of_units_within_them() -> None:
    """The bootstrap variance: between seeds over S, plus within seeds over S and their units."""
    rng = generator(5, "test")
    shifts = (-0.5, -0.25, 0.0, 0.25, 0.5, 0.1, -0.1, 0.3)
    rows = [rng.normal(shift, 1.0, 50 + k % 2) for k, shift in enumerate(shifts)]
    found = hierarchical({"s": rows})
    between = np.var([row.mean() for row in rows]) / 8
    within = np.mean([row.var() / 50 for row in rows]) / 8
    half = 1.96 * float(np.sqrt(between + within))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.06)


def test_one_seed_with_one_unit_has_no_interval() -> None:
    assert hierarchical({"a": [[1.0]], "b": [[2.0]]}).single
    assert not hierarchical({"a": [[1.0]], "b": [[2.0, 2.0]]}).single
    assert not hierarchical({"a": [[1.0], [1.5]]}).single


def test_ranks_of_methods_that_all_tie_are_the_middle() -> None:
    found = average_ranks({name: [1.0, 0.0] for name in "abcd"})
    assert set(found.values()) == {2.5}
