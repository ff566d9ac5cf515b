"""The CPU forward of SFT: a prefix that rows share is computed once, and the LM head runs on labelled positions only.

The rows of one step start alike: the same system prompt, twin probes, segments of one episode. A batch is walked as a prefix
tree; a node's tokens run once, on the keys and values of its parent, and their gradient is the sum over the rows below. The
loss is that of the padded batch, without padding and without the repeated tokens (tests/test_sft_trainer.py compares gradients).

A GPU is better served by wide padded batches and TRL's own fused head, so this is used where neither exists.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import DynamicCache, PreTrainedModel

IGNORE = -100
MIN_SHARED = 16
"""Tokens below which a node isn't worth its fixed cost: a pass over all weights' gradients, about 20 tokens' work."""
_VOCABULARY_TILE = 32768


def can_share(model: PreTrainedModel) -> bool:
    """Whether every layer attends to the whole past through keys and values, which is what a prefix tree relies on."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return kinds == {"full_attention"} and not getattr(config, "output_router_logits", False) and model._supports_sdpa


class TreeForward:
    """Hidden states of rows that share prefixes.

    Args:
        backbone: the model without its LM head; takes ``input_ids`` and ``past_key_values``.
    """

    def __init__(self, backbone: Callable[..., Any]) -> None:
        self.backbone = backbone
        self.computed = 0
        """Tokens that went through the backbone so far."""

    def __call__(self, rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Last hidden states ``(length, hidden)`` of each 1-d tensor of token ids."""
        self._rows = rows
        self._ids = [row.tolist() for row in rows]
        self._out: dict[int, torch.Tensor] = {}
        self._visit(list(range(len(rows))), 0, None, [])
        return [self._out[i] for i in range(len(rows))]

    def _visit(self, group: list[int], start: int, past: DynamicCache | None, parts: list[torch.Tensor]) -> None:
        """Run the rows of ``group``, which agree up to ``start``, whose hidden states so far are ``parts``."""
        stop = _agree(self._ids, group, start)
        run = stop - start >= (MIN_SHARED if len(group) > 1 else 1)
        if run:
            past = _branch(past)
            output = self.backbone(input_ids=self._rows[group[0]][None, start:stop], past_key_values=past, use_cache=True)
            self.computed += stop - start
            parts = [*parts, output.last_hidden_state[0]]
        below: dict[int, list[int]] = {}
        for i in group:
            if len(self._ids[i]) > stop:
                below.setdefault(self._ids[i][stop], []).append(i)
            elif run or len(group) == 1:
                self._out[i] = torch.cat(parts)
            else:
                self._visit([i], start, past, parts)
        for members in below.values():
            # Too short a node isn't run by itself: the rows below it take its tokens along.
            self._visit(members, stop if run else start, past, parts)


def add_shared_forward(model: PreTrainedModel) -> TreeForward:
    """Make ``model(..., labels=labels, fused_lm_head=True)`` the forward of this module; returns its counter.

    It takes the place of TRL's patch of the same call (``trl.trainer.utils.add_fused_lm_head``, 1.16), whose CPU branch
    projects every position onto the vocabulary, and returns the same fields. Other calls are unchanged.
    """
    from trl.kernels import ChunkedLogProbFunction
    from trl.trainer.utils import FusedCausalLMOutput

    original = model.forward
    tree = TreeForward(model.base_model)

    def forward(self: PreTrainedModel, *args: Any, fused_lm_head: bool = False, **kwargs: Any) -> Any:
        if not fused_lm_head:
            return original(*args, **kwargs)
        input_ids, attention_mask, labels = kwargs["input_ids"], kwargs["attention_mask"], kwargs["labels"]
        rows = [ids[mask.bool()] for ids, mask in zip(input_ids, attention_mask, strict=True)]
        mask = labels[:, 1:] != IGNORE
        hidden = torch.cat([h[: len(h) - 1][m[: len(h) - 1]] for h, m in zip(tree(rows), mask, strict=True)])
        head = self.get_output_embeddings()
        log_probs, entropy, _, _, is_top1 = ChunkedLogProbFunction.apply(
            hidden,
            head.weight,
            head.bias,
            labels[:, 1:][mask],
            1.0,
            _VOCABULARY_TILE,
            None,
            1.0,
            ("log_probs", "entropy", "is_top1"),
        )

        def spread(values: torch.Tensor) -> torch.Tensor:
            return values.new_zeros(mask.shape).masked_scatter(mask, values)

        log_probs = spread(log_probs)
        loss = -log_probs.sum() / mask.sum().clamp(min=1)
        return FusedCausalLMOutput(
            loss=loss, log_probs=log_probs, entropy=spread(entropy), is_top1=spread(is_top1), label_mask=mask
        )

    model.forward = types.MethodType(forward, model)
    return tree


def _agree(ids: Sequence[Sequence[int]], group: Sequence[int], start: int) -> int:
    """The first position at or after ``start`` where the rows of ``group`` differ or one of them ends."""
    first = ids[group[0]]
    stop = min(len(ids[i]) for i in group)
    for i in group[1:]:
        row = ids[i]
        stop = next((j for j in range(start, stop) if row[j] != first[j]), stop)
    return stop


def _branch(past: DynamicCache | None) -> DynamicCache:
    """A cache that starts as ``past`` and grows by itself."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for index, layer in enumerate(past.layers if past is not None else ()):
        cache.update(layer.keys, layer.values, index)
    return cache


def computed_tokens(rows: Sequence[Sequence[int]]) -> int:
    """Tokens that a batch of rows costs, counted without a model."""

    def nothing(input_ids: torch.Tensor, **_: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(last_hidden_state=torch.empty(*input_ids.shape, 0))

    tree = TreeForward(nothing)
    tree([torch.tensor(row) for row in rows])
    return tree.computed
