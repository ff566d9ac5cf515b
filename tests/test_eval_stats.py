"""Intervals on data whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from envs.stats import Unit, clopper_pearson, estimate, leave_one_out, paired

SHARE = (0.0, 1.0)
OPTIONS = {"resamples": 500, "seed": 3}


def units(values, family="a", per_base=1):
    return [Unit(family, f"b{i // per_base}", v, 1.0, f"{family}/{i}") for i, v in enumerate(values)]


def test_families_count_equally_whatever_their_size():
    data = units([1.0] * 30, "large") + units([0.0] * 10, "small")
    value = estimate(data, bounds=SHARE, **OPTIONS)
    assert value.mean == 0.5
    assert value.n == 40
    assert value.bases == 40
    assert leave_one_out(data) == (0.0, 1.0)


def test_a_share_of_one_family_has_at_least_the_exact_binomial_interval():
    value = estimate(units([1, 0, 1, 1, 0, 1, 1, 1, 0, 1]), bounds=SHARE, **OPTIONS)
    exact = binomtest(7, 10).proportion_ci(0.95, "exact")
    assert value.lo <= exact.low + 1e-12
    assert value.hi >= exact.high - 1e-12
    assert clopper_pearson(0.7, 10) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_equal_outcomes_do_not_get_an_interval_without_width(outcome):
    value = estimate(units([outcome] * 8), bounds=SHARE, **OPTIONS)
    exact = binomtest(int(8 * outcome), 8).proportion_ci(0.95, "exact")
    assert (value.lo, value.hi) == pytest.approx((exact.low, exact.high))
    assert value.method == "Clopper-Pearson"


def test_variants_of_one_base_are_not_independent_evidence():
    alone = estimate(units([1.0] * 12), bounds=SHARE, **OPTIONS)
    together = estimate(units([1.0] * 12, per_base=3), bounds=SHARE, **OPTIONS)
    assert together.n == 12
    assert together.bases == 4
    assert together.lo < alone.lo


def test_an_amount_of_a_single_base_has_no_interval_and_nothing_has_no_estimate():
    value = estimate(units([420.0]), bounds=None, **OPTIONS)
    assert (value.mean, value.lo, value.hi) == (420.0, None, None)
    assert estimate([], bounds=SHARE, **OPTIONS) is None
    assert estimate([Unit("a", "b", 0.0, 0.0, "k")], bounds=SHARE, **OPTIONS) is None


def test_ratio_metrics_weigh_by_their_denominator():
    data = [Unit("a", "x", 1, 1, "1"), Unit("a", "y", 0, 3, "2")]
    assert estimate(data, bounds=SHARE, **OPTIONS).mean == 0.25


def test_pairing_takes_out_what_both_arms_share():
    # Hard and easy bases differ widely; arm a is exactly 10 tokens dearer on each.
    rng = np.random.default_rng(0)
    level = rng.uniform(100, 1000, 40)
    a, b = units(level + 10), units(level)
    value = paired(a, b, bounds=None, **OPTIONS)
    assert value.mean == pytest.approx(10)
    assert (value.lo, value.hi) == pytest.approx((10, 10))
    apart = estimate(a, bounds=None, **OPTIONS)
    assert apart.hi - apart.lo > 100


def test_only_shared_units_are_paired_and_the_sign_is_first_minus_second():
    a = [Unit("a", "x", 1, 1, "1"), Unit("a", "y", 1, 1, "2"), Unit("a", "z", 0, 1, "3")]
    b = [Unit("a", "x", 0, 1, "1"), Unit("a", "y", 1, 1, "2")]
    value = paired(a, b, bounds=SHARE, **OPTIONS)
    assert (value.mean, value.n) == (0.5, 2)
    assert paired(a, [], bounds=SHARE, **OPTIONS) is None


def test_equal_draws_and_seeds_give_equal_intervals_in_any_order():
    data = units([1, 0, 1, 0, 1, 1], "a") + units([0, 0, 1], "b")
    one, two = (estimate(d, bounds=SHARE, **OPTIONS) for d in (data, data[::-1]))
    assert one == two
    assert estimate(data, bounds=SHARE, resamples=500, seed=4).mean == one.mean


def test_no_discordant_pair_still_leaves_the_difference_open():
    same = units([1, 0] * 5)
    value = paired(same, same, bounds=SHARE, **OPTIONS)
    upper = binomtest(0, 10).proportion_ci(0.95, "exact").high
    assert (value.lo, value.mean, value.hi) == pytest.approx((-upper, 0, upper))


@pytest.mark.parametrize("size", [8, 40])
def test_paired_intervals_cover_the_true_difference(size):
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(150):
        level = rng.uniform(0, 1, 2 * size)
        a, b = (level < 0.7).astype(float), ((level + 0.2 * (rng.uniform(size=2 * size) < 0.5)) < 0.5).astype(float)
        true = 0.7 - (0.5 * 0.5 + 0.5 * 0.3)
        data_a, data_b = (units(x[:size], "a") + units(x[size:], "b") for x in (a, b))
        value = paired(data_a, data_b, bounds=SHARE, resamples=200, seed=1)
        covered += value.lo <= true <= value.hi
    assert covered >= 140  # 95 % of 150 is 142.5


@pytest.mark.parametrize("bounds", [SHARE, None])
def test_intervals_of_one_arm_cover_the_true_mean(bounds):
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(150):
        a, b = ((rng.uniform(size=6) < 0.8).astype(float) if bounds else rng.normal(0.8, 1.0, 6) for _ in "ab")
        value = estimate(units(a, "a") + units(b, "b"), bounds=bounds, resamples=200, seed=1)
        covered += value.lo <= 0.8 <= value.hi
    assert covered >= 139
