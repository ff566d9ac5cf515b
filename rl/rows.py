"""Segments as training rows: fillers, one advantage an episode, equal chunks of rows that belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from envs.segments import Segment

FILLER = -1
"""Owner of a row that stands for no episode."""
LEFT = ("prompt_ids", "prompt_mask")
RIGHT = (
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "sampling_per_token_logps",
    "old_per_token_logps",
    "ref_per_token_logps",
    "importance_sampling_ratio",
)
"""Tensors padded on the left and on the right, by TRL's names."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Training rows of one process: each segment, the number of its episode and its place in it, from 1 (fillers: -1 and 0)."""

    segments: list[Segment]
    owner: list[int]
    place: list[int]

    @property
    def filler(self) -> int:
        """Rows that stand for no episode."""
        return self.owner.count(FILLER)

    @property
    def trained(self) -> int:
        """Sampled tokens, the ones in the loss."""
        return sum(sum(s.mask) for s in self.segments)


def make_rows(
    episodes: Sequence[Sequence[Segment]], chunks: int, filler_id: int, widest: Callable[[int], int] = lambda n: n
) -> Rows:
    """All segments as rows, filled up to the largest count over all processes and to a multiple of ``chunks``.

    TRL drops the rows that don't divide, without a word. A filler is one token after one token, with an all-zero mask: the
    loss's divisor counts unmasked tokens, so an advantage of zero alone would still change it.
    """
    segments = [s for e in episodes for s in e]
    owner = [i for i, e in enumerate(episodes) for _ in e]
    place = [k for e in episodes for k in range(1, len(e) + 1)]
    missing = -(-max(widest(len(segments)), chunks) // chunks) * chunks - len(segments)
    segments += [Segment([filler_id], [filler_id], [0], [0.0]) for _ in range(missing)]
    return Rows(segments, owner + [FILLER] * missing, place + [0] * missing)


def spread(advantages: Sequence[float], rows: Rows, weighting: str, mean_tokens: float) -> torch.Tensor:
    """Advantage of each row: its episode's, 0 for fillers.

    With ``weighting="token"`` every sampled token of an episode weighs its advantage, in however many rows it stands.
    ``"episode"`` divides by the episode's share of sampled tokens (``mean_tokens`` an episode over the whole batch).
    """
    weights = [1.0] * len(advantages)
    if weighting == "episode":
        tokens = [0] * len(advantages)
        for segment, episode in zip(rows.segments, rows.owner, strict=True):
            if episode != FILLER:
                tokens[episode] += sum(segment.mask)
        weights = [mean_tokens / max(n, 1) for n in tokens]
    return torch.tensor([0.0 if e == FILLER else advantages[e] * weights[e] for e in rows.owner], dtype=torch.float32)


def naive_positions(segment: Segment) -> int:
    """Token positions that a training pass would read if each inference of the segment were a row of its own."""
    ends = [i + 1 for i, m in enumerate(segment.mask) if m and not any(segment.mask[i + 1 : i + 2])]
    return sum(len(segment.prompt_ids) + end for end in ends)


def lengths(batch: dict[str, Any]) -> torch.Tensor:
    """Real tokens of each row (prompt and completion)."""
    return batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)


def chunk(batch: dict[str, Any], chunks: int, order: torch.Tensor | None = None) -> list[dict[str, Any]]:
    """Split a padded batch into equal chunks of rows, each without columns that are all padding.

    Args:
        batch: TRL's padded tensors, and others with one entry a row.
        chunks: number of chunks; it divides the number of rows.
        order: order of the rows before they are cut; default: by length, so that a chunk pads little. The longest come
            first: memory is short at once or never.
    """
    n_rows = batch["prompt_ids"].size(0)
    if n_rows % chunks:
        raise ValueError(f"{n_rows} rows don't divide into {chunks} chunks: some would be lost")
    if order is None:
        order = torch.argsort(lengths(batch), descending=True, stable=True)
    parts = []
    for rows in order.view(chunks, -1):
        part = {k: v[rows] if isinstance(v, torch.Tensor) and v.ndim and v.size(0) == n_rows else v for k, v in batch.items()}
        parts.append(trim(part))
    return parts


def alike(batch: dict[str, Any]) -> torch.Tensor:
    """Order of the rows by their prompts' ids, so that rows that begin alike stand together."""
    prompts = [
        [t for t, m in zip(*row, strict=True) if m]
        for row in zip(batch["prompt_ids"].tolist(), batch["prompt_mask"].tolist(), strict=True)
    ]
    return torch.tensor(sorted(range(len(prompts)), key=lambda i: prompts[i]), device=batch["prompt_ids"].device)


def trim(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch without the columns that are padding in every row."""
    left, right = int(batch["prompt_mask"].sum(1).max()), int(batch["completion_mask"].sum(1).max())
    out = dict(batch)
    for keys, part in ((LEFT, slice(-left, None)), (RIGHT, slice(0, right))):
        for key in keys:
            # A sequence-level tensor has one column, which isn't a position.
            if isinstance(out.get(key), torch.Tensor) and out[key].ndim == 2 and out[key].size(1) > 1:
                out[key] = out[key][:, part]
    return out


def real_tokens(part: dict[str, Any]) -> int:
    """Tokens of a chunk without padding and fillers."""
    return int(lengths(part).masked_fill(part["place"] == 0, 0).sum())
