"""What a run would do, before it does it: rows, tokens, padding, steps, and the time they take on this machine."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envs.config import UserError
from sft.config import SFTStageConfig, trainer_arguments
from sft.packing import layout
from sft.rows import Row, padding_share

if TYPE_CHECKING:
    from trl import SFTConfig


SLOW_S = 2.0
"""A first pass on a CPU that takes longer than this is not repeated."""


def plan(config: SFTStageConfig, where: str = "config") -> dict[str, Any]:
    """Rows, steps, tokens, the shares of padding and of shared prefixes in the batches, and minutes. Trains nothing.

    ``minutes`` comes from one forward and backward pass of a middle batch, so it leaves out the optimizer and checkpoints; it is
    None, with the reason on stderr, where the weights can't be loaded here. Raises UserError for a mistake in config or data.
    """
    from sft.run import read_rows
    from sft.shared import computed_tokens
    from sft.trainer import RowSampler

    arguments = trainer_arguments(config, where)
    train, held, counts = read_rows(config)
    kind = layout(config, bool(arguments.use_cpu))
    micro = arguments.per_device_train_batch_size
    size = micro * arguments.gradient_accumulation_steps * arguments.world_size
    order = [train[i] for i in RowSampler(train, size, config.seed, kind == "tree")]
    batches = [order[i : i + micro] for i in range(0, len(order), micro)]
    tokens = sum(len(r.input_ids) for r in train)
    costs = [computed_tokens([r.input_ids for r in b]) if kind == "tree" else sum(len(r.input_ids) for r in b) for b in batches]
    if kind == "tree":
        counts.shared_share = 1 - sum(costs) / tokens
    elif kind == "padded":
        counts.padding_share = padding_share(batches, arguments.pad_to_multiple_of or 1)
    epochs = arguments.num_train_epochs
    steps = arguments.max_steps if arguments.max_steps > 0 else int(-(-len(train) // size) * epochs)
    middle = sorted(range(len(batches)), key=lambda i: costs[i])[len(batches) // 2]
    seconds = _seconds(config, arguments, batches[middle])
    # Of all tokens computed in an epoch, by those of the batch that was timed; an epoch may be cut short by max_steps.
    whole = seconds and seconds * sum(costs) / costs[middle] * steps * size / len(train) / arguments.world_size
    return {
        **counts.as_dict(),
        "layout": kind,
        "train_rows": len(train),
        "held_out_rows": len(held),
        "train_tokens": tokens,
        "steps": steps,
        "tokens_per_second": seconds and round(sum(len(r.input_ids) for r in batches[middle]) / seconds, 1),
        "minutes": whole and round(whole / 60, 2),
        "max_minutes": config.max_minutes,
    }


def _seconds(config: SFTStageConfig, arguments: SFTConfig, batch: Sequence[Row]) -> float | None:
    """Of one forward and backward pass of ``batch`` on this machine."""
    import torch

    from sft.run import build

    # A trainer makes its folder when it is built; a plan leaves nothing behind.
    scratch = tempfile.TemporaryDirectory()
    arguments.output_dir = scratch.name
    try:
        trainer = build(config, arguments, batch)
        trainer.model.to(trainer.args.device).train()
        inputs = trainer._prepare_inputs(trainer.data_collator([{"input_ids": r.input_ids, "labels": r.labels} for r in batch]))
        seconds = 0.0
        for _ in range(2):
            started = time.perf_counter()
            with trainer.compute_loss_context_manager():
                loss = trainer.compute_loss(trainer.model, dict(inputs))
            loss.backward()
            if not arguments.use_cpu:
                torch.cuda.synchronize()
            seconds = time.perf_counter() - started
            if arguments.use_cpu and seconds > SLOW_S:  # what a first pass has to set up is small beside it
                break
        return seconds
    except (UserError, OSError, RuntimeError) as error:
        print(f"plan: no time: {' '.join(str(error).split())[:300]}", file=sys.stderr)
        return None
    finally:
        scratch.cleanup()
