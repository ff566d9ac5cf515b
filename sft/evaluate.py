"""Teacher-forced validation: the loss on held-out rows, and how many turns greedy decoding would reproduce exactly.

A turn is exact when, given the recorded text before each of its tokens, every one is the model's first choice. That is a
necessary condition for playing it; whether sessions are solved is the evaluation stage's question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from sft.rows import IGNORE, Row
from sft.shared import build_tree, can_share, tree_states

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BATCH = 16


@torch.no_grad()
def teacher_forced(model: PreTrainedModel, rows: Sequence[Row], progress: bool = False) -> dict[str, Any]:
    """Loss in nats a token, token accuracy, and exact turns, in all and by kind of trajectory (``None`` without rows)."""
    model.eval()
    loss = correct = tokens = 0.0
    turns: dict[str, list[bool]] = defaultdict(list)
    ordered = sorted(rows, key=lambda r: r.input_ids)  # neighbours share prefixes
    for start in tqdm(range(0, len(ordered), BATCH), desc="held out", unit="batch", disable=not progress):
        batch = ordered[start : start + BATCH]
        for row, hidden in zip(batch, _states(model, batch), strict=True):
            labels = torch.tensor(row.labels[1:], device=hidden.device)
            mask = labels != IGNORE
            logits = model.get_output_embeddings()(hidden[:-1][mask]).float()
            loss += torch.nn.functional.cross_entropy(logits, labels[mask], reduction="sum").item()
            hits = torch.ones_like(mask)
            hits[mask] = logits.argmax(-1) == labels[mask]
            correct += hits[mask].sum().item()
            tokens += mask.sum().item()
            turns[row.kind] += [bool(hits[a - 1 : b - 1].all()) for a, b in row.turns()]
    every = [exact for kind in turns.values() for exact in kind]
    return {
        "rows": len(rows),
        "turns": len(every),
        "loss": loss / tokens if tokens else None,
        "token_accuracy": correct / tokens if tokens else None,
        "exact_turns": sum(every) / len(every) if every else None,
        "exact_turns_by_kind": {kind: sum(v) / len(v) for kind, v in sorted(turns.items())},
    }


def _states(model: PreTrainedModel, batch: Sequence[Row]) -> Iterator[torch.Tensor]:
    """Last hidden states of each row."""
    rows = [row.input_ids for row in batch]
    if can_share(model):
        tree = build_tree(rows)
        packed = tree_states(model, tree)
        yield from (packed[index.to(packed.device)] for index in tree.index)
    else:
        yield from (model.base_model(torch.tensor([ids], device=model.device)).last_hidden_state[0] for ids in rows)
