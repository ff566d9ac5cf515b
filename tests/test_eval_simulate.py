"""Intervals, tests and power on made-up data whose truth is known: quick draws here, every check in the slow test.

A check fails when it is off by more than three standard errors of the simulation, so that chance fails about one in a thousand.
"""

from __future__ import annotations

import pytest
from scipy.stats import binom, norm

from envs.stats import clopper_pearson
from eval.power import MOST, detectable, pairs_needed, power, statement
from eval.simulate import Coverage, cover, coverage_checks, error_checks, reject

INTERVALS = {check.name: check for check in coverage_checks()}
TESTS = {check.name: check for check in error_checks()}
KNOWN = {
    # Below 95 %, as measured with 1,000 draws (docs/statistics.md): held here so that it gets no worse.
    "tokens, σ 1, 1 family of 4 bases": 0.91,
    "tokens, σ 1, 1 family of 20 bases": 0.93,
    "tokens, σ 1, 8 families of 4 bases": 0.93,
    "tokens, σ 1, 8 families of 30 bases": 0.94,
    "difference of tokens, σ 1, 1 family of 20 bases": 0.91,
    "difference of tokens, σ 1, 8 families of 4 bases": 0.93,
    "families in general (t), 8 families, share 0.95, unlike": 0.88,
}
QUICK = (
    "share 0.5, 8 families of 30 bases, variants alike",
    "share 0.95, 8 families of 4 bases",
    "tokens, σ 0.3, 1 family of 4 bases",
    "tokens, σ 1, 8 families of 4 bases",
    "difference +0.25, 35% differ, 8 families of 4 bases",
    "difference of tokens, σ 0.3, 1 family of 4 bases",
    "families in general (t), 8 families, share 0.5, unlike",
)


def covers(check, draws):
    found = cover(check, draws)
    assert found.share >= KNOWN.get(check.name, 0.95) - 3 * found.error, found


def errs(check, draws):
    found = reject(check, draws)
    if check.kind == "error":
        assert found.share <= check.limit + 3 * found.error, found
    else:
        assert found.share >= check.limit - 3 * found.error, found


@pytest.mark.parametrize("name", QUICK)
def test_an_interval_holds_the_truth_as_often_as_it_says(name):
    covers(INTERVALS[name], 150)


def test_an_interval_that_forgets_the_bases_fails_its_check():
    # Three variants alike, taken for three bases: the check must see it.
    check = INTERVALS["share 0.5, 8 families of 30 bases, variants alike"]

    def apart(rng):
        units, _ = check.draw(rng)
        return [type(u)(u.family, u.key, u.num, u.den, u.key) for u in units], None

    with pytest.raises(AssertionError):
        covers(Coverage("apart", apart, check.truth, check.bounds), 150)


@pytest.mark.parametrize("name", [name for name in TESTS if "8 families of 4" in name or name.startswith("gate then cost")])
def test_a_test_errs_no_more_often_than_it_says(name):
    errs(TESTS[name], 200)


def test_holm_holds_the_error_of_all_claims_together():
    errs(TESTS["Holm, any of 5 claims, none true, 8 families of 15"], 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERVALS)
def test_every_interval(name):
    covers(INTERVALS[name], 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_every_test(name):
    errs(TESTS[name], 500)


@pytest.mark.parametrize("n", [1, 3, 8, 28])
def test_the_exact_interval_covers_every_share_also_where_all_outcomes_are_equal(n):
    ends = [clopper_pearson(k / n, n) for k in range(n + 1)]
    for share in (0.001, 0.02, 0.1, 0.3, 0.5, 0.77, 0.98, 0.999):
        held = sum(binom.pmf(k, n, share) for k, (low, high) in enumerate(ends) if low <= share <= high)
        assert held >= 0.95 - 1e-12
    assert ends[0][1] == pytest.approx(1 - 0.025 ** (1 / n))
    assert clopper_pearson(1.0, n, 0.9)[0] == pytest.approx(0.05 ** (1 / n))


def test_the_gate_takes_about_1400_pairs():
    needed = pairs_needed(discordance=0.2, margin=0.03, power_wanted=0.8)
    normal = (norm.ppf(0.95) + norm.ppf(0.8)) ** 2 * 0.2 / 0.03**2
    assert normal == pytest.approx(1374, abs=1)
    assert normal < needed < 1.05 * normal
    assert (
        power(needed, discordance=0.2, null=-0.03, level=0.9) >= 0.8 > power(needed - 1, discordance=0.2, null=-0.03, level=0.9)
    )
    assert power(200, discordance=0.2, null=-0.03, level=0.9) < 0.25  # the managers' 200 pairs decide no gate
    assert pairs_needed(discordance=0.9, margin=0.005, power_wanted=0.9) is None  # above MOST


def test_power_is_the_share_of_draws_that_the_real_interval_decides():
    effect = detectable(120, discordance=0.2, power_wanted=0.8)
    errs(TESTS[f"power at the smallest detectable difference, {effect:.3f}, 120 bases"], 300)
    assert detectable(120, discordance=0.2, power_wanted=0.9) > effect > detectable(400, discordance=0.2, power_wanted=0.8)
    assert power(120, discordance=0.2, difference=effect) >= 0.8 > power(120, discordance=0.2, difference=effect - 0.002)
    # No difference is larger than the share of pairs that differ: few pairs find none of that size.
    assert detectable(28, discordance=0.2, power_wanted=0.8) is None
    with pytest.raises(ValueError, match="discordance 0.1: must lie between the difference, 0.3, and 1"):
        power(50, discordance=0.1, difference=0.3)


def test_power_errors_stay_below_their_level():
    for pairs in (50, 300, 1400):
        assert power(pairs, discordance=0.2, difference=-0.03, null=-0.03, level=0.9) <= 0.05
        assert power(pairs, discordance=0.2) <= 0.025


def test_the_statement_names_what_is_found_and_what_it_takes():
    line = statement(200, discordance=0.2, margin=0.03, power_wanted=0.8)
    assert "200 pairs" in line
    assert "is 0.090 (two-sided 5 %)" in line
    assert "21% power (one-sided 5 %), for 80% it takes 1,4" in line
    few = statement(10, discordance=0.2, margin=0.001, power_wanted=0.8)
    assert "no difference up to 0.2 is found" in few
    assert f"more than {MOST:,} pairs" in few
