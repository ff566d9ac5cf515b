"""Ablations of the training and its control: named switches, each of which changes one thing. None is on by default."""

from __future__ import annotations

import random
import statistics
from collections.abc import Collection, Sequence

from envs.config import nearest
from envs.rewards import COST_SHARE
from envs.rewards import advantages as group_advantages
from envs.scoring import Score

ABLATIONS: dict[str, str] = {
    "no_cost": "saving never counts: groups that are all right teach nothing",
    "additive_cost": "saving counts in every group, not only where every episode is fully right",
    "std_scaling": "the advantages of a group are divided by their standard deviation",
    "rows_as_samples": "the baseline is the mean over rows (segments), not over episodes",
    "episode_weighting": "every episode has the same total weight in the loss, however many tokens it sampled",
    "no_constraint_weight": "checks of constraints weigh 1 in q, like all others",
    "mask_overlong": "episodes that hit a limit are left out of the loss; they still count in the baseline",
    "permuted_advantages": "control: the advantages of a batch are dealt out to its episodes at random",
}
"""What each changes."""

_STD_FLOOR = 1e-4  # TRL's


def check_ablations(names: Collection[str]) -> None:
    """Raise ValueError for a name that isn't one, with the nearest that is, and for one that stands twice."""
    for name in names:
        if name not in ABLATIONS:
            raise ValueError(f"no ablation is called {name!r}: {nearest(name, ABLATIONS)}")
    if {"no_cost", "additive_cost"} <= set(names):
        raise ValueError("no_cost and additive_cost contradict each other: name one of them")
    if len(set(names)) < len(names):
        raise ValueError("an ablation is named twice: name each once")


def advantages_of_group(
    q: Sequence[float],
    s: Sequence[float],
    right: Sequence[bool],
    step: float,
    rows: Sequence[int],
    ablation: Collection[str],
    cost_share: float = COST_SHARE,
) -> list[float]:
    """Advantages of one group's episodes, under the ablations that change them.

    Args:
        q: quality, one an episode.
        s: saving.
        right: whether every check holds.
        step: the smallest step of ``q``.
        rows: segments of each episode.
        ablation: names from :data:`ABLATIONS`.
        cost_share: what saving weighs, as a share of ``step``.
    """
    copies = list(rows) if "rows_as_samples" in ablation else [1] * len(q)
    of = [i for i, n in enumerate(copies) for _ in range(n)]
    gate = ["additive_cost" in ablation or (right[i] and "no_cost" not in ablation) for i in of]
    values = group_advantages([q[i] for i in of], [s[i] for i in of], gate, step, cost_share)
    if "std_scaling" in ablation:
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        values = [v / (spread + _STD_FLOOR) for v in values]
    return [values[of.index(i)] for i in range(len(q))]


def permuted(values: Sequence[float], movable: Sequence[bool], seed: str) -> list[float]:
    """The values dealt out anew among the places that are ``movable``, the same for the same seed on every process."""
    places = [i for i, may in enumerate(movable) if may]
    dealt = [values[i] for i in places]
    random.Random(f"permuted advantages {seed}").shuffle(dealt)
    out = list(values)
    for place, value in zip(places, dealt, strict=True):
        out[place] = value
    return out


def quality(score: Score, ablation: Collection[str]) -> tuple[float, float]:
    """``q`` and its smallest step, as the training sees them."""
    if "no_constraint_weight" not in ablation or not score.checks:
        return score.q, score.quality_step
    return sum(c.credit for c in score.checks) / len(score.checks), 0.25 / len(score.checks)
