"""The training pass: log-probabilities of rows that share their beginnings, the gap to sampling, what was computed."""

from __future__ import annotations

from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from rl.clock import Clock
from rl.gaps import Gaps
from rl.packing import MAX_TOKENS, Tree, tree_of
from rl.rows import real_tokens


class PackedPassTrainer(GRPOTrainer):
    """GRPO whose training pass reads what the rows of a chunk share once, and compares its log-probabilities with sampling's."""

    _buffered_inputs: Any
    _pack: bool
    """Rows of a chunk are computed as one tree where it is small enough."""
    _may_idle: bool
    """A chunk without any advantage may skip its backward pass."""
    _gap_stop: float
    _computed: int
    """Token positions that this step's training passes read, padding included."""
    _naive: int
    """Token positions that they would read with one row an inference, unpadded."""
    _clock: Clock
    _gaps: Gaps
    _train_logps: torch.Tensor | None
    _scored: torch.Tensor | None

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """TRL's log-probabilities of the completions, (rows, logits_to_keep); of shared beginnings where rows can be packed.

        Packed, tokens that aren't in the loss get 0: nothing reads them.
        """
        out = None
        if self._pack and self._scored is not None and model is not self.ref_model:
            with self._clock("host"):
                tree = tree_of(input_ids, attention_mask, logits_to_keep, self._scored)
            if tree.tokens.numel() <= MAX_TOKENS:
                out = self._climb(model, tree, self._scored.shape)
        if out is None:
            with self._clock("passes"):  # the host prepares these rows already: reference and vLLM need log-probabilities then
                out = super()._get_per_token_logps_and_entropies(
                    model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
                )
            self._computed += input_ids.numel()
        self._train_logps = out[0].detach()
        return out

    def _climb(self, model: Any, tree: Tree, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor, None]:
        device = self.accelerator.device
        with self.accelerator.autocast():
            logps, entropies = model(
                input_ids=tree.tokens.to(device), attention_mask=tree.mask.to(device), position_ids=tree.positions.to(device),
                tree_sources=tree.sources.to(device), tree_labels=tree.labels.to(device),
            )  # fmt: skip
        self._computed += tree.tokens.numel()
        where = (tree.rows.to(device), tree.columns.to(device))
        empty = torch.zeros(shape, dtype=logps.dtype, device=device)
        return empty.index_put(where, logps), empty.index_put(where, entropies), None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._scored = inputs["completion_mask"] * inputs["tool_mask"]
        # Without any advantage the gradient is zero: the pass is only needed for the figures that are logged.
        idle = self._may_idle and not inputs["advantages"].any()
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not idle):
                loss = super()._compute_loss(model, inputs)
        finally:
            self._scored = None
        if idle:
            loss = loss + 0.0 * next(p for p in self.model.parameters() if p.requires_grad).sum()
        if self.model.training:
            self._gaps.measure(self._train_logps, inputs)
            if (self._step + 1) % self.args.steps_per_generation == 0:
                self._log_rows()
                self._log_gaps()
        return loss

    def _log_rows(self) -> None:
        """Computed tokens against tokens of rows: more is padding and fillers, less is what rows share."""
        real = sum(real_tokens(part) for part in self._buffered_inputs)
        trained = sum(figures[1] for figures in self._gaps.sums.values())
        totals = torch.tensor(gather_object([[real, self._computed, self._naive, trained]])).sum(0).tolist()
        share = totals[1] / totals[0]
        # Trained tokens over positions read, ours against one row an inference: the trained tokens cancel out.
        self._metrics["train"]["rows/naive_ratio"].append(totals[2] / totals[1])
        self._metrics["train"]["rows/trained_forwarded"].append(totals[3] / totals[1])
        self._metrics["train"]["seconds/sample"].append(self._clock.take("sample"))
        self._metrics["train"]["seconds/host"].append(self._clock.take("host"))
        self._metrics["train"]["rows/padding"].append(max(0.0, 1.0 - 1.0 / share))
        self._metrics["train"]["rows/shared"].append(max(0.0, 1.0 - share))

    def _log_gaps(self) -> None:
        """Log the gaps of the whole batch; raise GapError beyond the bound, before the optimizer's step."""
        gaps = Gaps(gather_object([self._gaps.sums]))
        for name, value in gaps.metrics().items():
            self._metrics["train"][name].append(value)
        exact = not (self.args.bf16 or self.args.fp16 or self.use_vllm)
        gaps.check(self._gap_stop, exact, self.state.global_step + 1)
