"""Intervals, paired differences and their p-values, conditional on the listed families.

Every metric is a ratio of sums over units (a unit is a probe, a pair of probes, a check…): within a family the sums are taken
over all units, and families count equally. What varies is the base session: bases are resampled within their family, with all
their variants and repeats together, and paired arms are resampled by the same draw.

A percentile bootstrap is too narrow when there are few bases, and has no width at all when every outcome is the same. So for
metrics with bounds (shares, quality) the interval is the union of the bootstrap's and the Clopper-Pearson interval at the
effective number of bases (for differences: MOVER), and for amounts (tokens) the union of the percentile bootstrap's, a stratified
t interval and the studentised bootstrap, which follows the skew of token counts. Clopper-Pearson is exact for yes/no outcomes and
conservative for others, whose variance within the same bounds is smaller. A p-value is read off the same intervals: the level
at which the interval would just touch the hypothesis. Measured coverage and errors: docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import Any

import numpy as np
from scipy import special, stats

LEVEL = 0.95
Bounds = tuple[float, float] | None
"""Smallest and largest value of a metric; None for an amount, which is only known not to be negative."""
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit adds to a metric: ``num`` over ``den``, under its base session and family.

    ``key`` pairs it across arms, together with ``repeat``: which of the sample's repeats it is.
    """

    family: str
    base: str
    num: float
    den: float = 1.0
    key: str = ""
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval, 95 % unless asked otherwise. ``lo`` and ``hi`` are None where the data can't tell them (an
    amount of a single base).

    ``n`` counts units, ``bases`` the base sessions below them; ``method`` names the interval that set the bounds.
    """

    mean: float
    lo: float | None
    hi: float | None
    n: int
    bases: int
    method: str

    def as_dict(self) -> dict[str, Any]:
        """The four fields of ``results.json``."""
        return {"mean": self.mean, "lo": self.lo, "hi": self.hi, "n": self.n}


@dataclass(frozen=True)
class _Data:
    """A mean with what its intervals are made from: bootstrap draws, and the second interval as a function of the level."""

    mean: float
    n: int
    bases: int
    draws: np.ndarray
    other: Callable[[float], Ends | None]
    name: str

    def estimate(self, level: float) -> Estimate:
        found, method = _union(_percentiles(self.draws, level), self.other(level), self.name)
        return Estimate(self.mean, *found, n=self.n, bases=self.bases, method=method)

    def p_value(self, null: float) -> float | None:
        """Two-sided: one minus the largest level whose interval leaves ``null`` out; None where there is no interval."""

        def excluded(alpha: float) -> bool:
            value = self.estimate(1 - alpha)
            return value.lo is not None and value.hi is not None and not value.lo <= null <= value.hi

        if self.other(LEVEL) is None:
            return None
        low, high = log(2 / (len(self.draws) + 1)), 0.0  # no bootstrap tells less than two draws
        if excluded(exp(low)):
            return exp(low)
        for _ in range(18):
            middle = (low + high) / 2
            low, high = (low, middle) if excluded(exp(middle)) else (middle, high)
        return exp(high)


def estimate(units: Sequence[Unit], *, bounds: Bounds, resamples: int, seed: int, level: float = LEVEL) -> Estimate | None:
    """Mean over families of each family's ratio of sums, with its interval; None without units.

    Args:
        units: those with ``den`` 0 say nothing and are left out.
        bounds: of the metric; (0, 1) for a share.
        resamples: bootstrap draws.
        seed: of the draws.
        level: of the interval.
    """
    families = by_family(units)
    if not families:
        return None
    sums = [np.array(list(bases.values())) for bases in families.values()]
    mean = _mean([s.sum(0) for s in sums])
    weights = _draws(sums, resamples, seed)
    draws = np.mean([(w @ s[:, 0]) / (w @ s[:, 1]) for s, w in zip(sums, weights, strict=True)], axis=0)
    other: Callable[[float], Ends | None]
    if bounds:
        low, width = bounds[0], bounds[1] - bounds[0]
        share, size = min(max((mean - low) / width, 0.0), 1.0), _effective([len(s) for s in sums])

        def other(level: float) -> Ends:
            exact = clopper_pearson(share, size, level)
            return low + exact[0] * width, low + exact[1] * width
    else:
        spread = _spread(sums, weights, draws, mean)

        def other(level: float) -> Ends | None:
            if spread is None:
                return None
            wide = spread.interval(level)
            return max(wide[0], 0.0), wide[1]

    count = sum(1 for u in units if u.den > 0)
    name = "Clopper-Pearson" if bounds else "t and studentised bootstrap"
    return _Data(mean, count, sum(len(s) for s in sums), draws, other, name).estimate(level)


def paired(
    a: Sequence[Unit], b: Sequence[Unit], *, bounds: Bounds, resamples: int, seed: int, level: float = LEVEL
) -> Estimate | None:
    """The difference a - b over the units that both have (matched by ``key``), bases resampled together; None without any.

    With bounds the exact part is the MOVER interval on the discordant shares: how much a is better, and how much b is.
    """
    data = _paired(a, b, bounds, resamples, seed)
    return None if data is None else data.estimate(level)


def paired_p(
    a: Sequence[Unit], b: Sequence[Unit], *, bounds: Bounds, resamples: int, seed: int, null: float = 0.0
) -> float | None:
    """Two-sided p-value of the difference a - b against ``null``, of the same intervals as :func:`paired`.

    Never below two of the resamples. None without shared units, or where the data tell no interval.
    """
    data = _paired(a, b, bounds, resamples, seed)
    return None if data is None else data.p_value(null)


def _paired(a: Sequence[Unit], b: Sequence[Unit], bounds: Bounds, resamples: int, seed: int) -> _Data | None:
    fam_a, fam_b, count = shared(a, b)
    if not fam_a:
        return None
    sums = [
        np.array([[*bases[base], *fam_b[family][base]] for base in bases])  # columns: num a, den a, num b, den b
        for family, bases in fam_a.items()
    ]
    mean = _mean([s.sum(0)[:2] for s in sums]) - _mean([s.sum(0)[2:] for s in sums])
    weights = _draws(sums, resamples, seed)
    draws = np.mean(
        [(w @ s[:, 0]) / (w @ s[:, 1]) - (w @ s[:, 2]) / (w @ s[:, 3]) for s, w in zip(sums, weights, strict=True)], axis=0
    )
    other: Callable[[float], Ends | None]
    if bounds:
        gaps = [s[:, 0] / s[:, 1] - s[:, 2] / s[:, 3] for s in sums]
        width, size = bounds[1] - bounds[0], _effective([len(g) for g in gaps])
        better, worse = (float(np.mean([np.maximum(sign * g / width, 0).mean() for g in gaps])) for sign in (1, -1))

        def other(level: float) -> Ends:
            low, high = mover(better, worse, size, level, mean / width)
            return float(low) * width, float(high) * width
    else:
        spread = _spread(sums, weights, draws, mean)

        def other(level: float) -> Ends | None:
            return None if spread is None else spread.interval(level)

    name = "MOVER" if bounds else "t and studentised bootstrap"
    return _Data(mean, count, sum(len(s) for s in sums), draws, other, name)


def clopper_pearson(share: float, n: float, level: float = LEVEL) -> Ends:
    """The exact binomial interval for a share of ``n`` trials; ``n`` may be a fraction (an effective sample size)."""
    low, high = _exact(np.asarray(share), n, level)
    return float(low), float(high)


def mover(better: Any, worse: Any, n: float, level: float = LEVEL, mean: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Interval of better - worse from the exact intervals of both shares, which are negatively correlated (one multinomial).

    Args:
        better: share, or array of shares, of ``n`` on which a is better than b.
        worse: the other way round.
        n: bases, or an effective number of them.
        level: of the interval.
        mean: the difference itself, where it is not better - worse.
    """
    better, worse = np.minimum(better, 1.0), np.minimum(worse, 1.0)
    mean = better - worse if mean is None else mean
    (low_b, high_b), (low_w, high_w) = (_exact(share, n, level) for share in (better, worse))
    rest = (1 - better) * (1 - worse)
    rho = -np.sqrt(np.minimum(better * worse / np.where(rest > 0, rest, 1.0), 1.0))

    def reach(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sqrt(x * x + y * y - 2 * rho * x * y)

    low = mean - reach(better - low_b, high_w - worse)
    high = mean + reach(high_b - better, worse - low_w)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def leave_one_out(units: Sequence[Unit], other: Sequence[Unit] | None = None) -> Ends | None:
    """Smallest and largest mean, or difference to ``other``, with one family left out; None below two families."""
    fam_a, fam_b = shared(units, other)[:2] if other is not None else (by_family(units), None)
    if len(fam_a) < 2:
        return None

    def left(side: dict[str, dict[str, np.ndarray]], out: str) -> float:
        return _mean([np.sum(list(bases.values()), 0) for name, bases in side.items() if name != out])

    means = [left(fam_a, out) - (left(fam_b, out) if fam_b is not None else 0.0) for out in fam_a]
    return float(min(means)), float(max(means))


def shared(
    a: Sequence[Unit], b: Sequence[Unit]
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, dict[str, np.ndarray]], int]:
    """Both sides by family and base over the units that both have, and how many there are; ValueError if a key stands twice."""
    left, right = ({(u.key, u.repeat): u for u in units if u.den > 0} for units in (a, b))
    if len(left) != sum(u.den > 0 for u in a) or len(right) != sum(u.den > 0 for u in b):
        raise ValueError("paired units need a key that is unique within an arm")
    keys = [key for key in left if key in right]
    return by_family([left[key] for key in keys]), by_family([right[key] for key in keys]), len(keys)


def by_family(units: Sequence[Unit]) -> dict[str, dict[str, np.ndarray]]:
    """Family -> base -> [num, den], in order of name so that seeded draws don't hang on the order of a file."""
    families: dict[str, dict[str, list[float]]] = {}
    for u in units:
        if u.den > 0:
            total = families.setdefault(u.family, {}).setdefault(u.base, [0.0, 0.0])
            total[0] += u.num
            total[1] += u.den
    return {name: {base: np.array(total) for base, total in sorted(bases.items())} for name, bases in sorted(families.items())}


def _mean(totals: Sequence[np.ndarray]) -> float:
    return float(np.mean([t[0] / t[1] for t in totals]))


def _draws(sums: Sequence[np.ndarray], resamples: int, seed: int) -> list[np.ndarray]:
    """For every family, how often each base was drawn: (resamples, bases). Equal shapes and seed give equal draws."""
    return [_multinomial(len(s), resamples, seed, position) for position, s in enumerate(sums)]


@lru_cache(maxsize=64)
def _multinomial(bases: int, resamples: int, seed: int, family: int) -> np.ndarray:
    generator = np.random.default_rng([seed, family])
    return generator.multinomial(bases, np.full(bases, 1 / bases), size=resamples).astype(np.float64)


def _percentiles(draws: np.ndarray, level: float) -> Ends:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _effective(sizes: Sequence[int]) -> float:
    """Bases that carry as much as the equally weighted families do (Kish): the number of bases if families are of one size."""
    return len(sizes) ** 2 / sum(1 / size for size in sizes)


def _union(boot: Ends, other: Ends | None, name: str) -> tuple[tuple[float | None, float | None], str]:
    if other is None:
        return (None, None), "none: a single base"
    bounds = (min(boot[0], other[0]), max(boot[1], other[1]))
    if bounds == boot:
        return bounds, "bootstrap"
    return bounds, name if bounds == other else f"bootstrap and {name}"


def _exact(share: np.ndarray, n: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    k, tail = np.asarray(share * n), (1 - level) / 2
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1e-12), n - k + 1, tail), 0.0)
    high = np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1e-12), 1 - tail), 1.0)
    return low, high


@dataclass(frozen=True)
class _Spread:
    """Standard error of a stratified mean with its degrees of freedom, and the bootstrap's studentised deviations from it."""

    mean: float
    error: float
    freedom: float
    pivots: np.ndarray

    def interval(self, level: float) -> Ends:
        half = float(stats.t.ppf((1 + level) / 2, self.freedom)) * self.error
        low, high = np.quantile(self.pivots, [(1 - level) / 2, (1 + level) / 2]) * self.error
        return self.mean - max(half, float(high)), self.mean + max(half, -float(low))


def _spread(sums: Sequence[np.ndarray], weights: Sequence[np.ndarray], draws: np.ndarray, mean: float) -> _Spread | None:
    """Of equally weighted family ratios, or differences of ratios (Welch-Satterthwaite); None if no family has two bases.

    Args:
        sums: of every family, (bases, 2 or 4): num, den, and num, den of the other arm.
        weights: of every family, (resamples, bases).
        draws: (resamples,) the means of the resamples.
        mean: of the data.

    A family with a single base borrows the variance of the others.
    """
    ones = [np.ones((1, len(s))) for s in sums]
    if not (variances := _variances(sums, ones)):
        return None
    parts = [float(v[0]) for v in variances]
    total = sum(parts)
    if total == 0:
        return _Spread(mean, 0.0, 1.0, np.zeros_like(draws))
    freedom = total**2 / sum(p**2 / max(len(s) - 1, 1) for p, s in zip(parts, sums, strict=True))
    errors = np.sqrt(np.sum(_variances(sums, weights), 0))
    errors[errors < 1e-9 * total**0.5] = total**0.5  # one base drawn throughout has no spread of its own
    return _Spread(mean, total**0.5, freedom, (draws - mean) / errors)


def _variances(sums: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What every family adds to the variance of the mean, for every row of its ``weights``; empty if none has two bases."""
    found: list[np.ndarray | None] = []
    for s, w in zip(sums, weights, strict=True):
        size = len(s)
        residual = np.zeros((len(w), size))
        for sign, num, den in ((1, 0, 1), (-1, 2, 3))[: s.shape[1] // 2]:
            ratio = (w @ s[:, num]) / (w @ s[:, den])  # linearised: the variance of a ratio of sums
            residual += sign * (s[:, num] - np.outer(ratio, s[:, den])) / ((w @ s[:, den]) / size)[:, None]
        found.append((w * residual**2).sum(1) / (size - 1) if size > 1 else None)
    known = [(v, len(s)) for v, s in zip(found, sums, strict=True) if v is not None]
    if not known:
        return []
    pooled = np.sum([v * (n - 1) for v, n in known], 0) / sum(n - 1 for _, n in known)
    return [(pooled if v is None else v) / len(s) / len(sums) ** 2 for v, s in zip(found, sums, strict=True)]
