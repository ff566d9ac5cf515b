"""Check the statistics on made-up data whose truth is known: coverage of every interval, errors of every test, power.

``python -m eval check-stats`` plays every check below and prints the tables of docs/statistics.md. Each check draws data again and
again by a seeded generator: outcomes of the variants of a base hang together, families differ and may be of unequal size, and
token counts are skewed. Intervals and tests are those of :mod:`envs.stats`, called as the evaluation calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from envs.stats import Bounds, Estimate, Unit, estimate, paired, paired_p
from eval.inference import holm, over_families
from eval.power import GATE_LEVEL, LEVEL, detectable, pairs_needed

RESAMPLES = 1000
SHARE: Bounds = (0.0, 1.0)
MARGIN = 0.03
Generator = np.random.Generator
Draw = Callable[[Generator], tuple[list[Unit], list[Unit] | None]]


@dataclass(frozen=True)
class Coverage:
    """An interval and data to try it on; ``truth`` is what it should hold in 95 of 100 draws."""

    name: str
    draw: Draw
    truth: float
    bounds: Bounds
    over: Literal["bases", "families"] = "bases"
    level: float = LEVEL


@dataclass(frozen=True)
class Errors:
    """A test and data to try it on. ``event`` says whether a draw rejects; it should in at most (power: at least) ``limit``."""

    name: str
    event: Callable[[Generator], bool]
    limit: float
    kind: Literal["error", "power"] = "error"


@dataclass(frozen=True, slots=True)
class Result:
    """What came out: the share of draws that covered or rejected, its Monte-Carlo error, and for intervals the misses and width."""

    name: str
    draws: int
    share: float
    error: float
    above: float = 0.0
    below: float = 0.0
    width: float = 0.0


def cover(check: Coverage, draws: int, seed: int = 0) -> Result:
    """How often the interval holds the truth; a draw that tells no interval counts as held."""
    rng = np.random.default_rng([seed, *check.name.encode()])
    above = below = 0
    widths = []
    for _ in range(draws):
        value = _interval(check, *check.draw(rng))
        if value is None or value.lo is None or value.hi is None:
            continue
        above += value.lo > check.truth + 1e-9
        below += value.hi < check.truth - 1e-9
        widths.append(value.hi - value.lo)
    share = 1 - (above + below) / draws
    return Result(check.name, draws, share, _error(share, draws), above / draws, below / draws, float(np.median(widths or [0.0])))


def reject(check: Errors, draws: int, seed: int = 0) -> Result:
    """How often the test rejects."""
    rng = np.random.default_rng([seed, *check.name.encode()])
    share = sum(check.event(rng) for _ in range(draws)) / draws
    return Result(check.name, draws, share, _error(share, draws))


def tables(draws: int, seed: int = 0) -> str:
    """All checks as Markdown."""
    intervals, tests = coverage_checks(), error_checks()
    lines = ["| interval | truth held in | too high | too low | median width |", "| --- | ---: | ---: | ---: | ---: |"]
    for c in tqdm(intervals, desc="intervals", unit="check"):
        r = cover(c, draws, seed)
        width = f"{r.width:,.0f}" if c.bounds is None else f"{r.width:.3f}"
        lines.append(f"| {r.name} | {r.share:.1%} ± {2 * r.error:.1%} | {r.above:.1%} | {r.below:.1%} | {width} |")
    lines += ["", "| test | wanted | measured |", "| --- | ---: | ---: |"]
    for e in tqdm(tests, desc="tests", unit="check"):
        r = reject(e, draws, seed)
        sign = "≤" if e.kind == "error" else "≥"
        lines.append(f"| {r.name} | {sign} {e.limit:.1%} | {r.share:.1%} ± {2 * r.error:.1%} |")
    return "\n".join(lines) + "\n"


def shares(sizes: Sequence[int], truths: Sequence[float], variants: int, alike: float) -> Draw:
    """Yes/no outcomes of families with ``sizes`` bases: a variant copies its base's outcome with chance ``alike``."""

    def draw(rng: Generator) -> tuple[list[Unit], None]:
        units = []
        for f, (size, truth) in enumerate(zip(sizes, truths, strict=True)):
            base, own = rng.uniform(size=(size, 1)) < truth, rng.uniform(size=(size, variants)) < truth
            values = np.where(rng.uniform(size=(size, variants)) < alike, base, own)
            units += _units(f, values.astype(float))
        return units, None

    return draw


def checks_of_turns(sizes: Sequence[int], right: float) -> Draw:
    """A ratio of sums: every base has one to six checks, right with a chance of its own that goes down with their number."""

    def draw(rng: Generator) -> tuple[list[Unit], None]:
        units = []
        for f, size in enumerate(sizes):
            for b, count in enumerate(rng.integers(1, 7, size)):
                units.append(Unit(f"f{f}", f"b{b}", float(rng.binomial(count, right - 0.05 * count)), float(count), f"{f}/{b}"))
        return units, None

    return draw


def amounts(sizes: Sequence[int], sigma: float) -> Draw:
    """Log-normal token counts, two variants a base; families differ in level."""

    def draw(rng: Generator) -> tuple[list[Unit], None]:
        return [
            u
            for f, size in enumerate(sizes)
            for u in _units(f, 1000 * (f + 1) * np.exp(rng.normal(0, sigma, (size, 1)) + rng.normal(0, 0.1, (size, 2))))
        ], None

    return draw


def outcomes(sizes: Sequence[int], better: float, worse: float, variants: int = 1, alike: float = 0.5) -> Draw:
    """Paired yes/no outcomes: a unit is better, worse or the same, a variant copies its base's with chance ``alike``."""

    def draw(rng: Generator) -> tuple[list[Unit], list[Unit]]:
        a, b = [], []
        for f, size in enumerate(sizes):
            base, own = rng.uniform(size=(size, 1)), rng.uniform(size=(size, variants))
            where = np.where(rng.uniform(size=own.shape) < alike, base, own)
            same = rng.uniform(size=own.shape) < 0.6
            up, down = where < better, where > 1 - worse
            a += _units(f, np.where(up, 1.0, np.where(down, 0.0, same)))
            b += _units(f, np.where(up, 0.0, np.where(down, 1.0, same)))
        return a, b

    return draw


def token_pairs(sizes: Sequence[int], ratio: float, sigma: float) -> Draw:
    """Paired token counts: log-normal bases, the first arm at ``ratio`` of the second in the mean, with noise of its own."""

    def draw(rng: Generator) -> tuple[list[Unit], list[Unit]]:
        a, b = [], []
        for f, size in enumerate(sizes):
            level = 1000 * np.exp(rng.normal(0, sigma, (size, 1)))
            noise = np.exp(rng.normal(0, 0.4, (2, size, 2)) - 0.08)
            a += _units(f, ratio * level * noise[0])
            b += _units(f, level * noise[1])
        return a, b

    return draw


def family_means(count: int, centre: float, spread: float, bases: int = 20) -> Draw:
    """Families drawn at random, their true shares from a beta distribution; twenty bases each."""
    a, b = centre * spread, (1 - centre) * spread

    def draw(rng: Generator) -> tuple[list[Unit], None]:
        return [u for f, p in enumerate(rng.beta(a, b, count)) for u in _units(f, (rng.uniform(size=(bases, 1)) < p) * 1.0)], None

    return draw


def family_gaps(count: int, better: float, spread: float, bases: int = 20) -> Draw:
    """Paired outcomes of families drawn at random: the share on which the first arm is better differs among them."""

    def draw(rng: Generator) -> tuple[list[Unit], list[Unit]]:
        a, b = [], []
        for f, p in enumerate(rng.beta(better * spread, (1 - better) * spread, count)):
            found = outcomes([bases], p, 0.05)(rng)
            a += [_renamed(u, f) for u in found[0]]
            b += [_renamed(u, f) for u in found[1] or ()]
        return a, b

    return draw


def coverage_checks() -> list[Coverage]:
    """Every interval on data of few and many bases, like and unlike families, shares near the ends, skewed amounts."""

    def share(name: str, sizes: Sequence[int], truth: float, spread: float = 0.0, alike: float = 0.8) -> Coverage:
        truths = np.linspace(truth - spread, truth + spread, len(sizes)) if len(sizes) > 1 else np.array([truth])
        return Coverage(f"share {truth:g}, {name}", shares(sizes, truths.tolist(), 3, alike), float(truths.mean()), SHARE)

    def amount(name: str, sizes: Sequence[int], sigma: float) -> Coverage:
        truth = float(np.mean([1000 * (f + 1) for f in range(len(sizes))]) * np.exp(sigma**2 / 2 + 0.1**2 / 2))
        return Coverage(f"tokens, σ {sigma:g}, {name}", amounts(sizes, sigma), truth, None)

    def gap(name: str, sizes: Sequence[int], better: float, worse: float, variants: int = 2) -> Coverage:
        draw = outcomes(sizes, better, worse, variants)
        return Coverage(f"difference {better - worse:+.2f}, {better + worse:.0%} differ, {name}", draw, better - worse, SHARE)

    def token_gap(name: str, sizes: Sequence[int], sigma: float) -> Coverage:
        truth = -0.3 * 1000 * float(np.exp(sigma**2 / 2))
        return Coverage(f"difference of tokens, σ {sigma:g}, {name}", token_pairs(sizes, 0.7, sigma), truth, None)

    # In expectation over 1 to 6 checks: sum of n * (right - 0.05 n) over sum of n.
    counts = np.arange(1, 7)
    ratio = float((counts * (0.9 - 0.05 * counts)).sum() / counts.sum())
    one, few, many = "1 family of {} bases", "8 families of 4 bases", "8 families of 30 bases"
    return [
        *(share(one.format(n), [n], p) for n, p in ((4, 0.5), (10, 0.98), (20, 0.2))),
        *(share(few, [4] * 8, p, s) for p, s in ((0.02, 0.01), (0.5, 0.3), (0.95, 0.04))),
        *(share(many, [30] * 8, p, s) for p, s in ((0.02, 0.01), (0.5, 0.3))),
        share(many + ", variants alike", [30] * 8, 0.5, alike=1.0),
        share("families of 2, 40 and 40 bases", [2, 40, 40], 0.3, 0.2),
        Coverage("checks right, unequal numbers, 2 families of 10 bases", checks_of_turns([10, 10], 0.9), ratio, SHARE),
        *(amount(one.format(n), [n], s) for n, s in ((4, 0.3), (4, 1.0), (20, 1.0))),
        *(amount(few, [4] * 8, s) for s in (0.3, 1.0)),
        amount(many, [30] * 8, 1.0),
        *(gap(one.format(n), [n], b, w) for n, b, w in ((4, 0.1, 0.1), (10, 0.3, 0.05), (20, 0.02, 0.0))),
        *(gap(few, [4] * 8, b, w) for b, w in ((0.1, 0.1), (0.3, 0.05))),
        *(gap(many, [30] * 8, b, w) for b, w in ((0.1, 0.1), (0.08, 0.11))),
        gap("families of 2, 40 and 40 bases", [2, 40, 40], 0.25, 0.05),
        *(token_gap(one.format(n), [n], s) for n, s in ((4, 0.3), (20, 1.0))),
        *(token_gap(few, [4] * 8, s) for s in (0.3, 1.0)),
        token_gap(many, [30] * 8, 1.0),
        *(
            Coverage(f"families in general (t), {n} families, share {c:g}, {name}", family_means(n, c, s), c, SHARE, "families")
            for n, c, s, name in ((8, 0.5, 6, "unlike"), (8, 0.5, 100, "alike"), (8, 0.95, 20, "unlike"), (3, 0.5, 6, "unlike"))
        ),
        Coverage("families in general (t), 8 families, difference +0.15", family_gaps(8, 0.2, 10), 0.15, SHARE, "families"),
    ]


def error_checks(*, large: bool = True) -> list[Errors]:
    """Every test where its hypothesis is just true, and power where the lock states it; ``large``: with 1,400 pairs too."""
    needed = pairs_needed(discordance=0.2, margin=MARGIN, power_wanted=0.8) or 0
    effect = detectable(120, discordance=0.2, power_wanted=0.8) or 0.0
    checks = [
        *(
            Errors(f"paired shares, no difference, {name}", _excludes(outcomes(sizes, share, share, 2), SHARE), 0.05)
            for name, sizes, share in (
                ("1 family of 10 bases", [10], 0.2), ("8 families of 4", [4] * 8, 0.1), ("8 families of 30", [30] * 8, 0.1),
                ("8 families of 15, 1 % differ each way", [15] * 8, 0.01),
            )
        ),
        *(
            Errors(f"paired tokens, no difference, {name}", _excludes(token_pairs(sizes, 1.0, 1.0), None), 0.05)
            for name, sizes in (("1 family of 10 bases", [10]), ("8 families of 4", [4] * 8), ("8 families of 30", [30] * 8))
        ),
        *(
            Errors(f"not worse by 3 points, truly 3 points worse, {name}", _passes(outcomes(sizes, b, b + MARGIN)), 0.05)
            for name, sizes, b in (
                ("8 families of 4 bases", [4] * 8, 0.085), ("8 families of 30", [30] * 8, 0.085),
                ("8 families of 30, nothing better", [30] * 8, 0.0),
            )
        ),
        Errors("Holm, any of 5 claims, none true, 8 families of 15", _family_wise([0.0] * 5), 0.05),
        Errors("Holm, any of 3 claims that are not true beside 2 that are", _family_wise([0.0] * 3 + [0.3] * 2), 0.05),
        Errors("gate then cost, 3 points worse and truly cheaper", _gated(0.085, 0.115, 0.5), 0.05),
        Errors("gate then cost, as right and not cheaper", _gated(0.1, 0.1, 1.0), 0.05),
        Errors(f"power at the smallest detectable difference, {effect:.3f}, 120 bases",
               _excludes(outcomes([15] * 8, 0.1 + effect / 2, 0.1 - effect / 2), SHARE, above=True), 0.8, "power"),
    ]  # fmt: skip
    if large:
        sizes = [b - a for a, b in pairwise(needed * f // 8 for f in range(9))]
        checks += [
            Errors(
                f"power of the gate, equal arms, {needed:,} pairs in 8 families", _passes(outcomes(sizes, 0.1, 0.1)), 0.8, "power"
            ),
            Errors(f"gate at {needed:,} pairs, truly 3 points worse", _passes(outcomes(sizes, 0.085, 0.115)), 0.05),
        ]
    return checks


def _interval(check: Coverage, a: list[Unit], b: list[Unit] | None) -> Estimate | None:
    if check.over == "families":
        return over_families(a, b, bounds=check.bounds, level=check.level)
    options: dict[str, Any] = {"bounds": check.bounds, "resamples": RESAMPLES, "seed": 1, "level": check.level}
    return estimate(a, **options) if b is None else paired(a, b, **options)


def _excludes(draw: Draw, bounds: Bounds, *, above: bool = False) -> Callable[[Generator], bool]:
    """Whether the interval of the difference leaves out 0 (``above``: and lies above it)."""

    def event(rng: Generator) -> bool:
        value = _difference(draw(rng), bounds, LEVEL)
        return value.lo is not None and value.hi is not None and (value.lo > 0 or (value.hi < 0 and not above))

    return event


def _passes(draw: Draw) -> Callable[[Generator], bool]:
    """Whether the gate of correctness holds."""

    def event(rng: Generator) -> bool:
        value = _difference(draw(rng), SHARE, GATE_LEVEL)
        return value.lo is not None and value.lo > -MARGIN

    return event


def _family_wise(effects: Sequence[float]) -> Callable[[Generator], bool]:
    """Whether Holm lets any claim pass whose effect is 0."""

    def event(rng: Generator) -> bool:
        found = []
        for effect in effects:
            a, b = outcomes([15] * 8, 0.1 + effect, 0.1, 2)(rng)
            found.append(paired_p(a, b or [], bounds=SHARE, resamples=RESAMPLES, seed=1) or 0.0)
        return any(p <= 0.05 for p, effect in zip(holm(found), effects, strict=True) if effect == 0)

    return event


def _gated(better: float, worse: float, ratio: float) -> Callable[[Generator], bool]:
    """Whether an arm passes as cheaper without loss."""
    sizes = [30] * 8

    def event(rng: Generator) -> bool:
        if not _passes(outcomes(sizes, better, worse))(rng):
            return False
        value = _difference(token_pairs(sizes, ratio, 0.5)(rng), None, LEVEL)
        return value.hi is not None and value.hi < 0

    return event


def _difference(units: tuple[list[Unit], list[Unit] | None], bounds: Bounds, level: float) -> Estimate:
    value = paired(units[0], units[1] or [], bounds=bounds, resamples=RESAMPLES, seed=1, level=level)
    assert value is not None
    return value


def _units(family: int, values: np.ndarray) -> list[Unit]:
    """One unit a value: rows are bases, columns variants."""
    return [
        Unit(f"f{family}", f"b{b}", v, 1.0, f"{family}/{b}/{i}")
        for b, row in enumerate(values.tolist())
        for i, v in enumerate(row)
    ]


def _renamed(unit: Unit, family: int) -> Unit:
    return Unit(f"f{family}", unit.base, unit.num, unit.den, f"{family}{unit.key}")


def _error(share: float, draws: int) -> float:
    return float((max(share * (1 - share), 1 / draws * (1 - 1 / draws)) / draws) ** 0.5)
