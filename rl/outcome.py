"""What the trainer keeps of a scored episode, and what follows from all of a batch: advantages and metrics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from envs.rewards import COST_SHARE
from envs.scoring import Score
from rl.ablation import advantages_of_group

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Outcome:
    """One episode's result. Small and plain: every process gathers those of all others.

    ``metrics`` are means over the batch under their names; ``counts`` are sums over the batch divided by its episodes.
    """

    q: float
    """Quality, the reward."""
    s: float
    """Saving; counts only between episodes of a group that is fully right."""
    fully_right: bool
    quality_step: float
    """Smallest step of ``q``; bounds what saving may weigh."""
    metrics: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    excluded: bool = False
    """The backend failed: no policy's doing, so no baseline and no gradient."""
    overlong: bool = False
    """A limit ended the episode."""
    rows: int = 1
    """Segments of the episode."""
    score: Score | None = None
    """Everything measured, as evaluation measures it, whatever the ablations."""


def advantages(
    outcomes: Sequence[Outcome], group_size: int, ablation: Collection[str] = (), cost_share: float = COST_SHARE
) -> list[float]:
    """Advantage of each episode; consecutive ``group_size`` outcomes are one group. Excluded episodes get 0."""
    out: list[float] = []
    for group in grouped(outcomes, group_size):
        kept = [o for o in group if not o.excluded]
        values = [0.0] * len(kept)
        if len(kept) > 1:
            columns = [o.q for o in kept], [o.s for o in kept], [o.fully_right for o in kept]
            step = min(o.quality_step for o in kept)
            values = advantages_of_group(*columns, step, [o.rows for o in kept], ablation, cost_share)
        left = iter(values)
        out += [0.0 if o.excluded else next(left) for o in group]
    # What rounding leaves of equal episodes is no advantage, and must not cost a training pass.
    return [a if abs(a) > _ROUNDING else 0.0 for a in out]


def batch_metrics(outcomes: Sequence[Outcome], group_size: int) -> dict[str, float]:
    """Metrics of a batch under their tracking names; excluded episodes count only in ``episode/excluded``."""
    kept = [o for o in outcomes if not o.excluded]
    out = {"episode/excluded": float(len(outcomes) - len(kept))}
    if not kept:
        return out
    out |= {"reward/q": mean([o.q for o in kept]), "reward/s": mean([o.s for o in kept])}
    for name in sorted({k for o in kept for k in o.metrics}):
        out[name] = mean([o.metrics[name] for o in kept if name in o.metrics])
    for name in sorted({k for o in kept for k in o.counts}):
        out[name] = sum(o.counts.get(name, 0.0) for o in kept) / len(kept)
    if group_size > 1:
        right = [all(o.fully_right for o in g) for g in grouped(outcomes, group_size)]
        out["groups/all_right"] = mean([float(r) for r in right])
        out["groups/zero_variance"] = len(flat_groups(outcomes, group_size)) / len(right)
    return out


def grouped(outcomes: Sequence[Outcome], group_size: int) -> list[Sequence[Outcome]]:
    """Consecutive groups."""
    return [outcomes[i : i + group_size] for i in range(0, len(outcomes), group_size)]


def flat_groups(outcomes: Sequence[Outcome], group_size: int) -> list[int]:
    """Numbers of the groups that teach nothing: all of one quality, and not all right (there, saving still teaches)."""
    return [
        number
        for number, group in enumerate(grouped(outcomes, group_size))
        if max(o.q for o in group) - min(o.q for o in group) < 1e-9 and not all(o.fully_right for o in group)
    ]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of a non-empty sequence."""
    return sum(values) / len(values)
