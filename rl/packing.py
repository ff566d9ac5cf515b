"""Rows that begin alike, computed as one tree: the training pass of a group reads the view its episodes share once.

Rows of a group start from the same view, and in a probe that view is most of their length. Here each token that rows have in
common stands once; a token attends to its own ancestors, so every row computes exactly what it computes alone:

    row 1:  a b c | d e          tokens:     a b c d e f g
    row 2:  a b c | f g          positions:  0 1 2 3 4 3 4

The head scores only the tokens of the loss, a few per cent of all.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

MAX_TOKENS = 16_384
"""Largest tree: its attention mask takes a byte for every pair of tokens."""
_HEAD_ROWS = 512


@dataclass(frozen=True, slots=True)
class Tree:
    """Rows as a prefix tree in depth-first order.

    ``tokens`` and ``positions`` are (1, N), ``mask`` (1, 1, N, N) is true where a token may be seen. Scored token i stands in
    row ``rows[i]``, column ``columns[i]`` of the completions, has id ``labels[i]`` and is predicted at tree token ``sources[i]``.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    sources: torch.Tensor
    labels: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor


def plant(prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], scored: Sequence[Sequence[int]]) -> Tree:
    """The tree of rows. ``scored`` marks the completion tokens that need a log-probability.

    Only prompts are shared, and of those all but the last token: what predicts a sampled token belongs to one row.
    """
    tokens: list[int] = []
    positions: list[int] = []
    sources, labels, rows, columns = [], [], [], []
    paths: list[tuple[int, int, list[int]]] = []  # where a row's own tokens start, how many it shares, its path through the tree
    before: Sequence[int] = ()
    path: list[int] = []
    # In lexicographic order a row shares most with the one before it.
    for row in sorted(range(len(prompts)), key=lambda i: list(prompts[i][:-1])):
        shareable = prompts[row][:-1]
        shared = _common(before, shareable)
        own = [*prompts[row][shared:], *completions[row]]
        start = len(tokens)
        path = path[:shared] + list(range(start, start + len(own)))
        tokens += own
        positions += range(shared, shared + len(own))
        paths.append((start, shared, path))
        before = shareable
        first = len(prompts[row])
        for column, (token, wanted) in enumerate(zip(completions[row], scored[row], strict=True)):
            if wanted:
                sources.append(path[first + column - 1])
                labels.append(token)
                rows.append(row)
                columns.append(column)
    size = len(tokens)
    mask = torch.zeros(size, size, dtype=torch.bool)
    for start, shared, way in paths:
        end = start + len(way) - shared
        mask[start:end, torch.tensor(way[:shared], dtype=torch.long)] = True
        mask[start:end, start:end] = torch.ones(end - start, end - start, dtype=torch.bool).tril()
    long = [torch.tensor(x, dtype=torch.long) for x in (tokens, positions, sources, labels, rows, columns)]
    return Tree(long[0][None], long[1][None], mask[None, None], *long[2:])


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def tree_of(input_ids: torch.Tensor, attention_mask: torch.Tensor, width: int, scored: torch.Tensor) -> Tree:
    """The tree of a padded batch whose last ``width`` columns are completions; ``scored`` is (rows, width)."""
    split = input_ids.size(1) - width
    ids, real, marks = input_ids.tolist(), attention_mask.tolist(), scored.tolist()
    prompts = [[t for t, m in zip(r[:split], k[:split], strict=True) if m] for r, k in zip(ids, real, strict=True)]
    completions = [[t for t, m in zip(r[split:], k[split:], strict=True) if m] for r, k in zip(ids, real, strict=True)]
    return plant(prompts, completions, [m[: len(c)] for m, c in zip(marks, completions, strict=True)])


def can_pack(model: Any) -> bool:
    """Whether a model computes a tree as it computes rows: full attention through SDPA, and a plain linear head."""
    text = model.config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    full = set(kinds) <= {"full_attention"} if kinds else not getattr(text, "sliding_window", None)
    plain = not any(
        getattr(text, name, None) not in (None, 1.0)
        for name in ("final_logit_softcapping", "logit_scale", "logits_scaling", "output_multiplier", "lm_head_multiplier")
    )
    experts = hasattr(text, "output_router_logits")
    return full and plain and not experts and text._attn_implementation == "sdpa"


def add_tree_scoring(model: Any, temperature: float) -> None:
    """Let ``model(..., tree_sources=, tree_labels=)`` return log-probabilities and entropies at tree tokens instead of logits.

    It goes through the model's own forward call, so that wrappers (DDP, PEFT, checkpointing) see a usual pass.
    """
    original = model.forward

    @functools.wraps(type(model).forward)  # generation checks its arguments against the signature
    def forward(
        self: Any, *args: Any, tree_sources: torch.Tensor | None = None, tree_labels: torch.Tensor | None = None, **kwargs: Any
    ) -> Any:
        if tree_sources is None or tree_labels is None:
            return original(*args, **kwargs)
        hidden = self.base_model(*args, use_cache=False, **kwargs).last_hidden_state[0, tree_sources]
        head = self.get_output_embeddings()
        parts = [
            checkpoint(_score, h, head.weight, head.bias, y, temperature, use_reentrant=False)
            for h, y in zip(hidden.split(_HEAD_ROWS), tree_labels.split(_HEAD_ROWS), strict=True)
        ]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    model.forward = types.MethodType(forward, model)


def _score(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logps = torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias).float() / temperature, dim=-1)
    return logps.gather(-1, labels[:, None]).squeeze(-1), -(logps.exp() * logps).sum(-1)
