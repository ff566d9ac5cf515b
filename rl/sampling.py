"""One turn for many contexts: sampled ids and the log-probability of each, from whatever holds the weights.

- unsharded weights: ``envs.policies.hf.HFPolicy``, which evaluation uses too. What contexts share is read once, and what a view
  keeps from turn to turn isn't read again. Every turn has its own random stream, so a resumed run samples what it would have.
- sharded weights (FSDP, ZeRO-3): plain ``generate``, since every process must make the same number of forward passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList


@dataclass(frozen=True, slots=True)
class Turn:
    """Sampled ids, the end of the turn included if it was reached, their log-probabilities (nats), and whether the cap cut it."""

    ids: list[int]
    logps: list[float]
    cut: bool


class _KeepLogps(LogitsProcessor):
    """Keeps the log-probability of each sampled token: of the scores of a step, by the token that the next step shows.

    ``output_scores`` would hold the scores of every step: rows x vocabulary x turn.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.columns: list[torch.Tensor] = []
        self._held: torch.Tensor | None = None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        self.take(input_ids)
        self._held = torch.log_softmax(scores.float() / self.temperature, dim=-1)
        return scores

    def take(self, sequences: torch.Tensor) -> None:
        if self._held is not None:
            self.columns.append(self._held.gather(1, sequences[:, -1:]))
            self._held = None


def generate_turns(
    model: Any, contexts: Sequence[Sequence[int]], *, generation_config: Any, stop_ids: frozenset[int], pad_id: int
) -> list[Turn]:
    """Sample one turn a context with ``model.generate``; the random numbers are torch's.

    Args:
        model: an unwrapped causal model.
        contexts: ids of each context.
        pad_id: any id; the attention mask hides it.
        generation_config: plain sampling, without any cut of the distribution.
        stop_ids: ids that end a turn.
    """
    width = max(len(context) for context in contexts)
    ids = torch.tensor([[pad_id] * (width - len(c)) + list(c) for c in contexts], device=model.device)
    attention = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts], device=model.device)
    keep = _KeepLogps(generation_config.temperature)
    sequences = model.generate(
        input_ids=ids,
        attention_mask=attention,
        generation_config=generation_config,
        logits_processor=LogitsProcessorList([keep]),
    )
    keep.take(sequences)
    logps = torch.cat(keep.columns, 1).tolist()
    return [cut_turn(row, values, stop_ids) for row, values in zip(sequences[:, width:].tolist(), logps, strict=True)]


def cut_turn(ids: list[int], logps: list[float], stop_ids: frozenset[int]) -> Turn:
    """The turn up to and with its first stop id."""
    end = next((i + 1 for i, token in enumerate(ids) if token in stop_ids), len(ids))
    return Turn(ids[:end], logps[:end], ids[end - 1] not in stop_ids)
