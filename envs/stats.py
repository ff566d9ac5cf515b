"""Intervals and paired differences, conditional on the listed families.

Every metric is a ratio of sums over units (a unit is a probe, a pair of probes, a check…): within a family the sums are taken
over all units, and families count equally. What varies is the base session: bases are resampled within their family, with all
their variants together, and paired arms are resampled by the same draw.

A percentile bootstrap is too narrow when there are few bases, and has no width at all when every outcome is the same. So for
metrics with bounds (shares, quality) the interval is the union of the bootstrap's and the Clopper-Pearson interval at the
effective number of bases, and for amounts (tokens) the union of the bootstrap's and a stratified t interval. Clopper-Pearson is
exact for yes/no outcomes and conservative for others, whose variance within the same bounds is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.95
Bounds = tuple[float, float] | None
"""Smallest and largest value of a metric; None for an amount, which is only known not to be negative."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit adds to a metric: ``num`` over ``den``, under its base session and family. ``key`` pairs it across arms."""

    family: str
    base: str
    num: float
    den: float = 1.0
    key: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval. ``lo`` and ``hi`` are None where the data can't tell them (an amount of a single base).

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


def estimate(units: Sequence[Unit], *, bounds: Bounds, resamples: int, seed: int) -> Estimate | None:
    """Mean over families of each family's ratio of sums, with its interval; None without units.

    Args:
        units: those with ``den`` 0 say nothing and are left out.
        bounds: of the metric; (0, 1) for a share.
        resamples: bootstrap draws.
        seed: of the draws.
    """
    families = _by_family([u for u in units if u.den > 0])
    if not families:
        return None
    sums = [np.array(list(bases.values())) for bases in families.values()]
    mean = _mean([s.sum(0) for s in sums])
    draws = np.mean([(w @ s[:, 0]) / (w @ s[:, 1]) for s, w in zip(sums, _draws(sums, resamples, seed), strict=True)], axis=0)
    boot = _percentiles(draws)
    if bounds:
        low, high = bounds
        exact = clopper_pearson(min(max((mean - low) / (high - low), 0.0), 1.0), _effective(sums))
        found, method = _union(boot, (low + exact[0] * (high - low), low + exact[1] * (high - low)), "Clopper-Pearson")
    else:
        wide = _t_interval(sums)
        found, method = _union(boot, wide and (max(wide[0], 0.0), wide[1]), "t")
    count = sum(1 for u in units if u.den > 0)
    return Estimate(float(mean), *found, n=count, bases=sum(len(s) for s in sums), method=method)


def paired(a: Sequence[Unit], b: Sequence[Unit], *, bounds: Bounds, resamples: int, seed: int) -> Estimate | None:
    """The difference a - b over the units that both have (matched by ``key``), bases resampled together; None without any.

    With bounds the exact part is the MOVER interval on the discordant shares: how much a is better, and how much b is.
    """
    left, right = ({u.key: u for u in units if u.den > 0} for units in (a, b))
    if len(left) != sum(u.den > 0 for u in a) or len(right) != sum(u.den > 0 for u in b):
        raise ValueError("paired units need a key that is unique within an arm")
    shared = [key for key in left if key in right]
    if not shared:
        return None
    fam_a, fam_b = (_by_family([side[key] for key in shared]) for side in (left, right))
    sums = [
        np.array([[*bases[base], *fam_b[family][base]] for base in bases])  # columns: num a, den a, num b, den b
        for family, bases in fam_a.items()
    ]
    mean = _mean([s.sum(0)[:2] for s in sums]) - _mean([s.sum(0)[2:] for s in sums])
    draws = np.mean(
        [
            (w @ s[:, 0]) / (w @ s[:, 1]) - (w @ s[:, 2]) / (w @ s[:, 3])
            for s, w in zip(sums, _draws(sums, resamples, seed), strict=True)
        ],
        axis=0,
    )
    boot = _percentiles(draws)
    gaps = [s[:, 0] / s[:, 1] - s[:, 2] / s[:, 3] for s in sums]
    if bounds:
        width = bounds[1] - bounds[0]
        low, high = _mover([g / width for g in gaps], mean / width)
        found, method = _union(boot, (low * width, high * width), "MOVER")
    else:
        found, method = _union(boot, _t_interval([np.column_stack([g, np.ones_like(g)]) for g in gaps], mean), "t")
    return Estimate(float(mean), *found, n=len(shared), bases=sum(len(s) for s in sums), method=method)


def clopper_pearson(share: float, n: float) -> tuple[float, float]:
    """The exact binomial interval for a share of ``n`` trials; ``n`` may be a fraction (an effective sample size)."""
    k, tail = share * n, (1 - LEVEL) / 2
    low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
    return low, high


def leave_one_out(units: Sequence[Unit]) -> tuple[float, float] | None:
    """Smallest and largest mean with one family left out; None below two families."""
    totals = {family: np.array(list(bases.values())).sum(0) for family, bases in _by_family(units).items()}
    if len(totals) < 2:
        return None
    means = [_mean([t for name, t in totals.items() if name != out]) for out in totals]
    return float(min(means)), float(max(means))


def _by_family(units: Sequence[Unit]) -> dict[str, dict[str, np.ndarray]]:
    """Family -> base -> [num, den], in order of name so that seeded draws don't hang on the order of a file."""
    families: dict[str, dict[str, np.ndarray]] = {}
    for u in units:
        if u.den > 0:
            bases = families.setdefault(u.family, {})
            bases[u.base] = bases.get(u.base, 0.0) + np.array([u.num, u.den])
    return {family: dict(sorted(families[family].items())) for family in sorted(families)}


def _mean(totals: Sequence[np.ndarray]) -> float:
    return float(np.mean([t[0] / t[1] for t in totals]))


def _draws(sums: Sequence[np.ndarray], resamples: int, seed: int) -> list[np.ndarray]:
    """For every family, how often each base was drawn: (resamples, bases). Equal shapes and seed give equal draws."""
    return [_multinomial(len(s), resamples, seed, position) for position, s in enumerate(sums)]


@lru_cache(maxsize=64)
def _multinomial(bases: int, resamples: int, seed: int, family: int) -> np.ndarray:
    generator = np.random.default_rng([seed, family])
    return generator.multinomial(bases, np.full(bases, 1 / bases), size=resamples).astype(np.float64)


def _percentiles(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _effective(sums: Sequence[np.ndarray]) -> float:
    """Bases that carry as much as the equally weighted families do (Kish): the number of bases if families are of one size."""
    return len(sums) ** 2 / sum(1 / len(s) for s in sums)


def _union(
    boot: tuple[float, float], other: tuple[float, float] | None, name: str
) -> tuple[tuple[float | None, float | None], str]:
    if other is None:
        return (None, None), "none: a single base"
    bounds = (min(boot[0], other[0]), max(boot[1], other[1]))
    if bounds == boot:
        return bounds, "bootstrap"
    return bounds, name if bounds == other else f"bootstrap and {name}"


def _t_interval(sums: Sequence[np.ndarray], mean: float | None = None) -> tuple[float, float] | None:
    """Stratified t interval of equally weighted family ratios (Welch-Satterthwaite); None if no family has two bases.

    A family with a single base borrows the variance of the others.
    """
    variances, sizes = [], []
    for s in sums:
        ratio = s[:, 0].sum() / s[:, 1].sum()
        residual = (s[:, 0] - ratio * s[:, 1]) / s[:, 1].mean()  # linearised: the variance of a ratio of sums
        variances.append(float((residual**2).sum() / (len(s) - 1)) if len(s) > 1 else None)
        sizes.append(len(s))
    known = [(v, n) for v, n in zip(variances, sizes, strict=True) if v is not None]
    if not known:
        return None
    pooled = sum(v * (n - 1) for v, n in known) / sum(n - 1 for _, n in known)
    parts = [(pooled if v is None else v) / n / len(sums) ** 2 for v, n in zip(variances, sizes, strict=True)]
    total = sum(parts)
    centre = _mean([s.sum(0) for s in sums]) if mean is None else mean
    if total == 0:
        return centre, centre
    freedom = total**2 / sum(p**2 / max(n - 1, 1) for p, n in zip(parts, sizes, strict=True))
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * total**0.5
    return centre - half, centre + half


def _mover(gaps: Sequence[np.ndarray], mean: float) -> tuple[float, float]:
    """Interval of better - worse from the exact intervals of both shares, which are negatively correlated (one multinomial)."""
    n = len(gaps) ** 2 / sum(1 / len(g) for g in gaps)
    better = float(np.mean([np.maximum(g, 0).mean() for g in gaps]))
    worse = float(np.mean([np.maximum(-g, 0).mean() for g in gaps]))
    (low_b, high_b), (low_w, high_w) = (clopper_pearson(min(share, 1.0), n) for share in (better, worse))
    rho = -((better * worse / ((1 - better) * (1 - worse))) ** 0.5) if better * worse > 0 else 0.0

    def reach(x: float, y: float) -> float:
        return (x * x + y * y - 2 * rho * x * y) ** 0.5

    low = mean - reach(better - low_b, high_w - worse)
    high = mean + reach(high_b - better, worse - low_w)
    return max(low, -1.0), min(high, 1.0)
