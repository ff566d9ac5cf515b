"""The CPU forward of SFT: a prefix that rows share is computed once, and the LM head runs on labelled positions only.

The rows of one step start alike: the same system prompt, twin probes, segments of one episode. A batch is laid out as a prefix
tree: each distinct stretch of tokens (a node) stands once in one packed sequence, and its queries attend to the stretches that
lead to it and to itself. Everything but attention runs over the packed sequence at once. Loss and gradient are those of the
padded batch, without padding and without repeated tokens (tests/test_sft_trainer.py compares them with TRL's).

A GPU is better served by wide padded batches and TRL's own fused head, so this is used where neither exists.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IGNORE = -100
MIN_NODE = 8
"""Fewer shared tokens than this are computed with each row: a node of its own costs an attention call in every layer."""
_ATTENTION = "shared_prefix"
_VOCABULARY_TILE = 32768


@dataclass(slots=True)
class PrefixTree:
    """Rows laid out as distinct stretches of tokens, one after the other.

    ``ids`` and ``positions`` are 1-d over the packed tokens; ``sizes[n]`` is the length of node ``n``, ``paths[n]`` the nodes from
    the root to it, ``masks[n]`` what its queries may see along that path (None at a root: plain causal attention), and
    ``index[r]`` the packed place of every token of row ``r``.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    sizes: list[int]
    paths: list[list[int]]
    masks: list[torch.Tensor | None]
    index: list[torch.Tensor]


def build_tree(rows: Sequence[Sequence[int]]) -> PrefixTree:
    """The prefix tree of rows of token ids."""
    ids: list[int] = []
    positions: list[int] = []
    sizes: list[int] = []
    paths: list[list[int]] = []
    masks: list[torch.Tensor | None] = []
    index: dict[int, list[int]] = {}

    def visit(group: list[int], start: int, path: list[int], places: list[int]) -> None:
        """Lay out the rows of ``group``, which agree up to ``start``; ``path`` and ``places`` are what they have so far."""
        stop = _agree(rows, group, start)
        place = stop - start >= (MIN_NODE if len(group) > 1 else 1)
        if place:
            path = [*path, len(sizes)]
            places = [*places, *range(len(ids), len(ids) + stop - start)]
            ids.extend(rows[group[0]][start:stop])
            positions.extend(range(start, stop))
            sizes.append(stop - start)
            paths.append(path)
            masks.append(torch.ones(stop - start, stop, dtype=torch.bool).tril(start) if start else None)
            start = stop
        below: dict[int, list[int]] = {}
        for i in group:
            if len(rows[i]) > stop:
                below.setdefault(rows[i][stop], []).append(i)
            elif place or len(group) == 1:
                index[i] = places
            else:
                visit([i], start, path, places)
        for members in below.values():
            # A stretch too short to stand alone goes along with each of the rows below it.
            visit(members, start, path, places)

    visit(list(range(len(rows))), 0, [], [])
    packed = [torch.tensor(index[i]) for i in range(len(rows))]
    return PrefixTree(torch.tensor(ids), torch.tensor(positions), sizes, paths, masks, packed)


def _agree(rows: Sequence[Sequence[int]], group: Sequence[int], start: int) -> int:
    """The first position at or after ``start`` where the rows of ``group`` differ or one of them ends."""
    first = rows[group[0]]
    stop = min(len(rows[i]) for i in group)
    for i in group[1:]:
        row = rows[i]
        stop = next((j for j in range(start, stop) if row[j] != first[j]), stop)
    return stop


def can_share(model: PreTrainedModel) -> bool:
    """Whether every layer attends to the whole past and lets its attention be chosen, which is what a prefix tree relies on."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = bool(getattr(config, "sliding_window", None)) and kinds != {"full_attention"}
    routed = bool(getattr(config, "output_router_logits", False))
    return kinds == {"full_attention"} and not windowed and not routed and bool(model._supports_attention_backend)


def tree_states(model: PreTrainedModel, tree: PrefixTree) -> torch.Tensor:
    """Last hidden states ``(packed tokens, hidden)`` of a tree; row ``r``'s are those at ``tree.index[r]``."""
    from transformers import AttentionInterface

    AttentionInterface.register(_ATTENTION, _attend)
    config = model.base_model.config
    before = config._attn_implementation
    device = model.get_input_embeddings().weight.device
    config._attn_implementation = _ATTENTION
    try:
        output = model.base_model(
            input_ids=tree.ids[None].to(device),
            position_ids=tree.positions[None].to(device),
            attention_mask=torch.empty(1, 1, 1, 1, device=device),  # four dimensions: taken as it is, so none is built
            use_cache=False,
            tree=tree,
        )
    finally:
        config._attn_implementation = before
    return output.last_hidden_state[0]


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    tree: PrefixTree,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of every node to its path: ``(1, heads, packed tokens, width)`` in, ``(1, packed tokens, heads, width)`` out."""
    copies = query.shape[1] // key.shape[1]
    queries = query.split(tree.sizes, dim=2)
    keys, values = (x.repeat_interleave(copies, dim=1).split(tree.sizes, dim=2) for x in (key, value))
    out = []
    for q, path, mask in zip(queries, tree.paths, tree.masks, strict=True):
        k, v = (x[path[0]] if len(path) == 1 else torch.cat([x[n] for n in path], dim=2) for x in (keys, values))
        mask = None if mask is None else mask.to(q.device)
        out.append(
            torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, scale=scaling, dropout_p=dropout
            )
        )
    return torch.cat(out, dim=2).transpose(1, 2).contiguous(), None


class Counter:
    """Tokens that went through the backbone."""

    computed = 0


def add_shared_forward(model: PreTrainedModel) -> Counter:
    """Make ``model(..., labels=labels, fused_lm_head=True)`` the forward of this module; returns its counter.

    It takes the place of TRL's patch of the same call (``trl.trainer.utils.add_fused_lm_head``, 1.16), whose CPU branch
    projects every position onto the vocabulary, and returns the same fields. Other calls are unchanged.
    """
    from trl.kernels import ChunkedLogProbFunction
    from trl.trainer.utils import FusedCausalLMOutput

    original = model.forward
    counter = Counter()

    def forward(self: PreTrainedModel, *args: Any, fused_lm_head: bool = False, **kwargs: Any) -> Any:
        if not fused_lm_head:
            return original(*args, **kwargs)
        labels = kwargs["labels"]
        tree = build_tree(
            [ids[mask.bool()].tolist() for ids, mask in zip(kwargs["input_ids"], kwargs["attention_mask"], strict=True)]
        )
        counter.computed += len(tree.ids)
        mask = labels[:, 1:] != IGNORE
        # The state at a token predicts the next one; padding is never labelled, so a row's own places suffice.
        places = torch.cat([index[m[: len(index)].nonzero()[:, 0].cpu()] for index, m in zip(tree.index, mask, strict=True)])
        hidden = tree_states(self, tree)[places.to(labels.device)]
        head, outputs = self.get_output_embeddings(), ("log_probs", "entropy", "is_top1")
        log_probs, entropy, _, _, is_top1 = ChunkedLogProbFunction.apply(
            hidden, head.weight, head.bias, labels[:, 1:][mask], 1.0, _VOCABULARY_TILE, None, 1.0, outputs
        )
        spread = [x.new_zeros(mask.shape).masked_scatter(mask, x) for x in (log_probs, entropy, is_top1)]
        loss = -spread[0].sum() / mask.sum().clamp(min=1)
        return FusedCausalLMOutput(loss=loss, log_probs=spread[0], entropy=spread[1], is_top1=spread[2], label_mask=mask)

    model.forward = types.MethodType(forward, model)
    return counter


def computed_tokens(rows: Sequence[Sequence[int]]) -> int:
    """Tokens that a batch of rows costs."""
    return len(build_tree(rows).ids)
