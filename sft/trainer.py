"""A thin SFTTrainer: TRL's loss, with the batches, the clock, the records and the checkpoints of this project.

The loss is TRL's: the negative log-likelihood summed over trained tokens and divided by their number in the whole effective
batch, over accumulation steps and ranks.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Sampler
from tqdm import tqdm
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

from envs.runs import append_jsonl, read_json, write_json_atomic
from envs.tracking import Tracker
from sft.evaluate import teacher_forced, tracked
from sft.rows import IGNORE, Row
from sft.shared import Counter, add_shared_forward

if TYPE_CHECKING:
    from peft import PeftConfig
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerControl, TrainerState, TrainingArguments

COMPLETE = "complete.json"
"""Written into a checkpoint when all else is on disk; a checkpoint without it is torn."""
POOL = 8
"""Steps whose rows are sorted by length together when batches are padded."""


_NAMES = {"padding_share": "rows/padding", "shared_share": "rows/shared"}
"""What the tracker calls a figure of ``metrics.jsonl``."""


class RowSampler(Sampler[int]):
    """The order of rows, a function of seed and epoch: shuffled by base, then cut into steps of ``rows_per_step``.

    Rows of one base (twins, segments of one episode) stay next to each other. With ``share`` the rows of a step are sorted by
    their ids, so a batch shares long prefixes; otherwise rows are sorted by length inside pools of a few steps.
    """

    def __init__(self, rows: Sequence[Row], rows_per_step: int, seed: int, share: bool) -> None:
        self._rows, self._size, self._seed, self._share = rows, rows_per_step, seed, share
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the data loader at the start of an epoch, also of a resumed one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"{self._seed}:{self.epoch}")
        units: dict[str, list[int]] = {}
        for index, row in enumerate(self._rows):
            units.setdefault(row.group, []).append(index)
        order = list(units.values())
        rng.shuffle(order)
        flat = [i for unit in order for i in unit]
        if self._share:
            for step in _cut(flat, self._size):
                yield from sorted(step, key=lambda i: (self._rows[i].input_ids, i))
            return
        for pool in _cut(flat, POOL * self._size):
            steps = _cut(sorted(pool, key=lambda i: (len(self._rows[i].input_ids), i)), self._size)
            short = steps.pop() if len(steps[-1]) < self._size else []
            rng.shuffle(steps)
            yield from (i for step in [*steps, short] for i in step)


def _cut(items: list[int], size: int) -> list[list[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


class Clock:
    """Seconds of training, carried over a resume, against an optional budget."""

    def __init__(self, budget: float | None = None) -> None:
        self.budget = budget
        self.before = 0.0
        self._start: float | None = None
        self._last = 0.0

    @property
    def elapsed(self) -> float:
        return self.before + (time.monotonic() - self._start if self._start is not None else 0.0)

    @property
    def share(self) -> float:
        """Share of the budget that is used; 0 without one."""
        return self.elapsed / self.budget if self.budget else 0.0

    def start(self) -> None:
        self._start = time.monotonic()
        self._last = self.elapsed

    def stop(self) -> None:
        """Until :meth:`resume`, time doesn't count."""
        self.before, self._start = self.elapsed, None

    def resume(self) -> None:
        self._start = time.monotonic()

    def step_would_exceed(self) -> bool:
        """Call at the end of a step: whether another one as long as it passes the budget."""
        now = self.elapsed
        duration, self._last = now - self._last, now
        return self.budget is not None and now + duration > self.budget


class RunLog(TrainerCallback):
    """Progress bar, ``metrics.jsonl``, tracking, validation on the way, and the stop when the wall-clock budget is used up.

    Args:
        held, every: rows to validate on, and the steps between validations; None for none on the way.
    """

    def __init__(
        self, trainer: SegmentTrainer, folder: Path, tracker: Tracker, held: Sequence[Row] = (), every: int | None = None
    ) -> None:
        self._trainer, self._tracker = trainer, tracker
        self._held, self._every = held, every
        self._file = folder / "metrics.jsonl"
        self._bar: tqdm[Any] | None = None
        self._mark = (0.0, 0, 0)
        self._trained = 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        clock = self._trainer.clock
        clock.start()
        self._mark = (clock.elapsed, self._trainer.row_tokens, self._trainer.computed_tokens)
        if state.is_world_process_zero:
            self._bar = tqdm(total=state.max_steps, initial=state.global_step, desc="sft", unit="step", dynamic_ncols=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._bar is not None:
            self._bar.update()
        if self._every and state.global_step % self._every == 0 and self._held and state.is_world_process_zero:
            self._validate(state.global_step)
        if self._trainer.agree(self._trainer.clock.step_would_exceed()) and state.global_step < state.max_steps:
            self._trainer.stopped = "max_minutes"
            control.should_training_stop = control.should_save = control.should_log = True

    def _validate(self, step: int) -> None:
        """The model as it stands, on rows that it isn't trained on; outside the clock."""
        trainer = self._trainer
        trainer.clock.stop()
        model = trainer.accelerator.unwrap_model(trainer.model)
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        with trainer.accelerator.autocast():
            figures = tracked(teacher_forced(base, self._held))
        trainer.model.train()
        trainer.clock.resume()
        append_jsonl(self._file, {"step": step, **figures})
        self._tracker.log(figures, step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any], **_: Any
    ) -> None:
        if "loss" not in logs or not state.is_world_process_zero:
            return
        trainer = self._trainer
        mark = (trainer.clock.elapsed, trainer.row_tokens, trainer.computed_tokens)
        seconds, tokens, computed = (new - old for new, old in zip(mark, self._mark, strict=True))
        self._mark = mark
        rate = tokens / seconds if seconds > 0 else 0.0
        record = {
            "step": state.global_step,
            **logs,
            "tokens": trainer.row_tokens,
            "tokens_per_second": round(rate, 1),
            # Of what was computed, padding; or, where prefixes are shared, what was computed once for several rows.
            "padding_share": round(max(0.0, 1 - tokens / max(computed, 1)), 4),
            "shared_share": round(max(0.0, 1 - computed / max(tokens, 1)), 4),
            "elapsed_s": round(trainer.clock.elapsed, 2),
        }
        record = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        append_jsonl(self._file, record)
        figures = {_NAMES.get(k, k): v for k, v in record.items() if k != "step"}
        figures["rows/trained_share"] = (trainer.trained_tokens - self._trained) / max(tokens, 1)
        self._trained = trainer.trained_tokens
        self._tracker.log(figures, step=state.global_step)
        if self._bar is not None:
            self._bar.set_postfix(loss=f"{logs['loss']:.3f}", tok_s=f"{rate:.0f}", refresh=True)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._trainer.clock.stop()
        if self._bar is not None:
            self._bar.close()


class SegmentTrainer(SFTTrainer):
    """SFTTrainer on :class:`Row` objects.

    Args:
        share: compute prefixes that rows of a batch share once (see ``sft.shared``).
        clock: measures training time; its budget, if any, also drives the learning rate.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: SFTConfig,
        rows: Sequence[Row],
        tokenizer: PreTrainedTokenizerBase,
        *,
        share: bool,
        clock: Clock,
        peft_config: PeftConfig | None = None,
    ) -> None:
        from datasets import Dataset

        self._rows, self._share = rows, share
        self.clock = clock
        self.stopped = "planned"
        self.row_tokens = self.computed_tokens = self.trained_tokens = 0
        self._tree: Counter | None = None
        self._flat = bool(args.padding_free)
        dataset = Dataset.from_dict({"input_ids": [r.input_ids for r in rows], "labels": [r.labels for r in rows]})
        super().__init__(model=model, args=args, train_dataset=dataset, processing_class=tokenizer, peft_config=peft_config)
        if getattr(self.model, "is_loaded_in_4bit", False):
            # TRL puts the adapter of a 4-bit model in bf16, where AdamW rounds its own updates away.
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    parameter.data = parameter.data.float()
        if share:
            base = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
            self._tree = add_shared_forward(base)

    @property
    def rows_per_step(self) -> int:
        """Rows of one optimizer step, over ranks and accumulation."""
        return self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size

    def agree(self, stop: bool) -> bool:
        """Whether any rank wants to stop: clocks differ by a little, ranks must not."""
        if self.args.world_size == 1:
            return stop
        return bool(self.accelerator.reduce(torch.tensor(float(stop), device=self.accelerator.device)).item())

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return RowSampler(self._rows, self.rows_per_step, self.args.seed, self._share)

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        before = self._tree.computed if self._tree is not None else 0
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        self.row_tokens += inputs["input_ids"].numel() if self._flat else int(inputs["attention_mask"].sum())
        self.trained_tokens += int((inputs["labels"] != IGNORE).sum())
        self.computed_tokens += self._tree.computed - before if self._tree is not None else inputs["input_ids"].numel()
        return loss

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        """With a budget: down to zero by steps or by time, whichever is further. Without: TRL's own."""
        if self.clock.budget is None or getattr(self, "lr_scheduler", None) is not None:
            return super().create_scheduler(num_training_steps, optimizer)
        warmup = self.args.get_warmup_steps(num_training_steps)
        constant = str(getattr(self.args.lr_scheduler_type, "value", self.args.lr_scheduler_type)) == "constant"

        def factor(step: int) -> float:
            rise = min(1.0, (step + 1) / (warmup + 1))
            return rise if constant else rise * max(0.0, 1 - max(step / max(num_training_steps, 1), self.clock.share))

        schedule = LambdaLR(optimizer or self.optimizer, factor)
        self.lr_scheduler, self._created_lr_scheduler = schedule, True
        return schedule

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            done = {
                "step": self.state.global_step,
                "max_steps": self.state.max_steps,
                "stopped": self.stopped,
                "elapsed_s": self.clock.elapsed,
                "row_tokens": self.row_tokens,
                "computed_tokens": self.computed_tokens,
            }
            write_json_atomic(folder / COMPLETE, done)

    def restore(self, checkpoint: Path) -> dict[str, Any]:
        """Take over the counters of a complete checkpoint, not its weights; returns its record."""
        record: dict[str, Any] = read_json(checkpoint / COMPLETE)
        self.clock.before = record["elapsed_s"]
        self.row_tokens, self.computed_tokens, self.stopped = record["row_tokens"], record["computed_tokens"], record["stopped"]
        return record

    def load_weights(self, checkpoint: Path) -> None:
        """Only the weights of a checkpoint, for a run that had finished training."""
        self._load_from_checkpoint(str(checkpoint))


def last_complete(folder: Path) -> Path | None:
    """The newest checkpoint under ``folder`` that was written to its end."""
    found = []
    for path in folder.glob("checkpoint-*"):
        try:
            found.append((int(json.loads((path / COMPLETE).read_text())["step"]), path))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return max(found)[1] if found else None
