"""What the data can show, said before any is seen: power, pairs needed and smallest detectable difference of a paired comparison.

Exact for the interval that judges shares (MOVER, :func:`envs.stats.mover`) and one pair a base: every outcome of ``n`` pairs,
some better, some worse, weighs with its multinomial probability. Counting bases, not probes, takes the variants of a base for
one piece of evidence, which is the cautious end.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import stats

from envs.stats import mover

LEVEL = 0.95
"""Two-sided level of a claim that one arm is better than another."""
GATE_LEVEL = 0.90
"""Two-sided level whose lower end decides non-inferiority: one-sided 5 %."""
MOST = 20_000
"""No more pairs than these are looked for."""


def power(pairs: int, *, discordance: float, difference: float = 0.0, null: float = 0.0, level: float = LEVEL) -> float:
    """Chance that the interval of ``pairs`` pairs lies above ``null``, if the true difference is ``difference``.

    Args:
        pairs: independent pairs, one a base.
        discordance: share of pairs whose two outcomes differ; not below ``abs(difference)``.
        difference: true difference of the two shares.
        null: what the interval must leave below it; minus the margin for non-inferiority.
        level: of the interval.
    """
    if not abs(difference) <= discordance <= 1:
        raise ValueError(f"discordance {discordance}: must lie between the difference, {abs(difference)}, and 1")
    more, less = (discordance + difference) / 2, (discordance - difference) / 2
    better, worse = (np.arange(pairs + 1)[_likely(pairs, share)] for share in (more, less))
    rest = (less / (1 - more)) if more < 1 else 0.0
    grid_b, grid_w = np.meshgrid(better, worse, indexing="ij")
    chance = stats.binom.pmf(grid_b, pairs, more) * stats.binom.pmf(grid_w, pairs - grid_b, min(rest, 1.0))
    low, _ = mover(grid_b / pairs, grid_w / pairs, pairs, level)
    return float(min(chance[(low > null) & (grid_b + grid_w <= pairs)].sum(), 1.0))


@lru_cache(maxsize=64)
def pairs_needed(*, discordance: float, margin: float, power_wanted: float, level: float = GATE_LEVEL) -> int | None:
    """Pairs for which equal arms are found non-inferior by ``margin`` with the power wanted; None above 20,000."""
    normal = float(stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power_wanted)) ** 2 * discordance / margin**2
    low, high = 1, int(1.5 * normal) + 50  # the exact test asks for more than the normal approximation, at most some tens more
    if high > MOST:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(middle, discordance=discordance, null=-margin, level=level) >= power_wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(maxsize=64)
def detectable(pairs: int, *, discordance: float, power_wanted: float, level: float = LEVEL) -> float | None:
    """The smallest true difference that ``pairs`` pairs show with the power wanted; None if not even the discordance itself."""

    def found(difference: float) -> bool:
        return power(pairs, discordance=discordance, difference=difference, level=level) >= power_wanted

    if not found(discordance):
        return None
    low, high = 0.0, discordance
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def statement(pairs: int, *, discordance: float, margin: float, power_wanted: float) -> str:
    """The line of the lock: what a paired comparison over ``pairs`` bases can show."""
    effect = detectable(pairs, discordance=discordance, power_wanted=power_wanted)
    needed = pairs_needed(discordance=discordance, margin=margin, power_wanted=power_wanted)
    chance = power(pairs, discordance=discordance, null=-margin, level=GATE_LEVEL)
    shown = (
        f"the smallest difference found with {power_wanted:.0%} power is {effect:.3f}"
        if effect is not None
        else f"no difference up to {discordance:g} is found with {power_wanted:.0%} power"
    )
    return (
        f"{pairs} pairs, one a base, of which {discordance:.0%} differ: {shown} (two-sided 5 %); equal arms pass as not worse by "
        f"{margin:g} with {chance:.0%} power (one-sided 5 %), for {power_wanted:.0%} it takes "
        f"{f'{needed:,}' if needed else f'more than {MOST:,}'} pairs an arm"
    )


def _likely(pairs: int, share: float) -> slice:
    """Counts but for a chance of about 1e-9 at either end."""
    low, high = stats.binom.ppf([1e-9, 1 - 1e-9], pairs, share)
    return slice(int(max(low - 1, 0)), int(min(high + 2, pairs + 1)))
