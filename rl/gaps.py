"""Log-probabilities of sampled tokens, sampling against training, by the place of their segment in the episode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from envs.config import UserError


class GapError(UserError):
    """Sampling and training disagree about log-probabilities: the gradient would be of another policy."""


class Gaps:
    """Sums, counts and maxima of |difference| by segment place, from 1."""

    def __init__(self, parts: Iterable[dict[int, tuple[float, int, float]]] = ()) -> None:
        self.sums: dict[int, tuple[float, int, float]] = {}
        for part in parts:
            for place, figures in part.items():
                self._add(place, *figures)

    def _add(self, place: int, total: float, count: int, largest: float) -> None:
        held = self.sums.get(place, (0.0, 0, 0.0))
        self.sums[place] = (held[0] + total, held[1] + count, max(held[2], largest))

    def measure(self, training: torch.Tensor, batch: dict[str, Any]) -> None:
        """Add a chunk: its training log-probabilities (rows, columns) against the sampling ones it carries."""
        mask = (batch["completion_mask"] * batch["tool_mask"]).bool() & ~batch["sampling_per_token_logps"].isnan()
        gap = (training - batch["sampling_per_token_logps"]).abs().float()
        for place in batch["place"].unique().tolist():
            here = gap[mask & (batch["place"] == place).unsqueeze(1)]
            if here.numel():
                # A token of infinite or undefined gap must stop the run, not vanish in a maximum.
                here = here.nan_to_num(nan=float("inf"))
                self._add(place, here.sum().item(), here.numel(), here.max().item())

    @property
    def mean(self) -> float:
        return sum(v[0] for v in self.sums.values()) / max(sum(v[1] for v in self.sums.values()), 1)

    @property
    def max(self) -> float:
        return max((v[2] for v in self.sums.values()), default=0.0)

    def metrics(self) -> dict[str, float]:
        """``logp_gap/seg<k>`` (mean), ``logp_gap/seg<k>_max``, ``logp_gap/mean`` and ``logp_gap/max``."""
        out = {"logp_gap/mean": self.mean, "logp_gap/max": self.max}
        for place, (total, count, largest) in sorted(self.sums.items()):
            out |= {f"logp_gap/seg{place}": total / count, f"logp_gap/seg{place}_max": largest}
        return out

    def check(self, bound: float, exact: bool, step: int) -> None:
        """Raise GapError beyond the bound: of the maximum where both passes are fp32 (``exact``), else of the mean."""
        value, kind = (self.max, "maximum") if exact else (self.mean, "mean")
        if value > bound:
            worst = max(self.sums, key=lambda place: self.sums[place][2])
            raise GapError(
                f"step {step}: log-probabilities of sampling and training differ by {value:.2g} ({kind}; bound {bound:g}; worst "
                f"in segment {worst}): the two passes don't compute the same policy; set precision=fp32, or logp_gap_stop if the "
                "difference is understood"
            )
