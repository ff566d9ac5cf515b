"""What an SFT run would take: memory of one GPU by part, rows and tokens of a step. Nothing is loaded or trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.config import UserError, load_config
from envs.hardware import Launch, size_of
from envs.memory import BF16, FP32, NF4, Work
from envs.planning import Plan, launches, plan_or_refuse, where_it_runs
from envs.policies.smollm2 import gpu_gib
from sft.config import SFTStageConfig, check_trainer

TILE = (4096, 32_768)
"""Rows and columns of the vocabulary that TRL's fused head holds at once."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a run, of its data or as the config expects them; ``widest`` positions, mask entries and scored tokens of one pass."""

    count: int | None
    tokens: float
    longest: int
    basis: str
    widest: tuple[int, int, int] | None = None


def plan(config: SFTStageConfig, where: str = "config") -> Plan:
    """The plan of a run. Raises ConfigError where the config leaves something open that a plan needs."""
    check_trainer(config.trainer, where)
    settings = config.trainer_settings
    launch, device, limit = where_it_runs(config.hardware, config.world_size, gpu_gib())
    size = size_of(config.model, config.model_size)
    micro, chunks = int(settings["per_device_train_batch_size"]), int(settings["gradient_accumulation_steps"])
    checkpointing = bool(settings["gradient_checkpointing"])
    tree = config.share_prefix if config.share_prefix is not None else device == "cpu" and not checkpointing
    flat = device == "cuda" and config.packing == "auto"
    rows = measured(config, micro, tree) or expected(config)
    padded = micro * -(-rows.longest // 32) * 32
    tokens, mask, scored = rows.widest or (padded, 0 if flat else padded * rows.longest, padded)
    half = bool(settings.get("bf16", device == "cuda" or _fast_bf16()))
    work = Work(
        size=size,
        device="cuda" if device == "cuda" else "cpu",
        tokens=tokens,
        scored=scored,
        mask=mask,
        strategy=launch.strategy,
        gpus=launch.gpus,
        half=half,
        base=NF4 if config.qlora else BF16 if config.lora and half and device == "cuda" else FP32,
        rank=config.lora.r if config.lora else 0,
        frozen_embeddings=config.freeze_embeddings and not config.lora,
        frozen_layers=config.freeze_layers,
        optimizer=str(settings["optim"]),
        passes=chunks,
        checkpointing=checkpointing,
        tile=TILE,
    )
    size_of_step = micro * chunks * launch.gpus
    step: dict[str, Any] = {
        "rows": size_of_step,
        "tokens of the rows": round(size_of_step * rows.tokens),
        "rows a pass": micro,
        "passes a GPU": chunks,
        "positions a pass, at most": tokens,
    }
    notes = [f"rows: {rows.basis}"]
    if rows.count is not None:
        most = int(settings.get("max_steps", -1))
        step["steps"] = most if most > 0 else int(-(-rows.count // size_of_step) * float(settings["num_train_epochs"]))
        if config.expect and config.expect.tokens_per_second:
            seconds = step["steps"] * size_of_step * rows.tokens / config.expect.tokens_per_second
            step["minutes of all steps"] = round(seconds / 60, 1)
            notes.append(f"time: {config.expect.tokens_per_second:,} tokens a second, from expect.tokens_per_second")
    return Plan(work, _about(config, launch, work), step, limit, notes)


def _about(config: SFTStageConfig, launch: Launch, work: Work) -> dict[str, Any]:
    kind = f"adapter of rank {work.rank}{' on 4-bit weights' if config.qlora else ''}" if work.rank else "full"
    return {
        "status": config.status or "not told",
        "model": config.model,
        "parameters": work.size.params,
        "trained": f"{work.trained:,} ({kind}, {'bf16' if work.half else 'fp32'})",
        "processes": f"{launch.gpus} on {launch.nodes} node(s), {launch.strategy}",
        "launch": f"accelerate launch --config_file {launch.file}" if launch.file else "python",
        "checkpointing": "on" if work.checkpointing else "off",
    }


def expected(config: SFTStageConfig) -> Rows:
    """Rows as the config expects them, at the least as its cap allows them."""
    told = config.expect
    if told is None:
        basis = f"no data at hand: every row reckoned as long as max_row_tokens, {config.max_row_tokens}"
        return Rows(None, config.max_row_tokens, config.max_row_tokens, basis)
    return Rows(told.rows, told.row_tokens, min(told.longest_row, config.max_row_tokens), "as the config expects them (expect)")


def measured(config: SFTStageConfig, micro: int, tree: bool) -> Rows | None:
    """Rows of the data, and the widest pass in the order of the first epoch; None where data or tokenizer aren't at hand."""
    if not config.data_file.is_file():
        return None
    from sft.run import read_rows
    from sft.shared import build_tree
    from sft.trainer import RowSampler

    try:
        train = read_rows(config, progress=False)[0]
    except UserError:
        return None
    chunks = int(config.trainer_settings["gradient_accumulation_steps"])
    order = [train[i] for i in RowSampler(train, micro * chunks, config.seed, tree)]
    passes = []
    for first in range(0, len(order), micro):
        batch = order[first : first + micro]
        scored = sum(row.trained for row in batch)
        if tree:
            laid = build_tree([row.input_ids for row in batch])
            # A node's mask is as wide as the path to it; one without a mask attends causally.
            mask = sum(m.numel() for m in laid.masks if m is not None)
            passes.append((len(laid.ids), mask, scored))
        else:
            width = max(len(row.input_ids) for row in batch)
            passes.append((len(batch) * width, len(batch) * width * width, scored))
    lengths = [len(row.input_ids) for row in train]
    basis = f"of the data in {config.data_file}"
    return Rows(len(train), sum(lengths) / len(lengths), max(lengths), basis, max(passes))


def _fast_bf16() -> bool:
    from sft.config import fast_bf16

    return fast_bf16()


def report(path: Path, overrides: Sequence[str]) -> tuple[Plan, str]:
    """The plan of a config file and its refusal, as :func:`envs.planning.plan_or_refuse` gives them."""
    return plan_or_refuse(
        lambda more: load_config(SFTStageConfig, path, [*overrides, *more]), lambda config: plan(config, str(path)), _changes
    )


def _changes(config: SFTStageConfig, found: Plan) -> list[list[str]]:
    """Changes that take less memory, the mildest first."""
    out: list[list[str]] = []
    settings = config.trainer_settings
    if not found.work.checkpointing and not config.share_prefix:
        out.append(["trainer.gradient_checkpointing=true"])
    micro, chunks = int(settings["per_device_train_batch_size"]), int(settings["gradient_accumulation_steps"])
    smaller = micro
    while smaller > 1 and smaller % 2 == 0:
        smaller //= 2
        more = chunks * (micro // smaller)  # the step stays the same
        out.append([f"trainer.per_device_train_batch_size={smaller}", f"trainer.gradient_accumulation_steps={more}"])
    if found.work.device == "cuda" and config.hardware is not None:
        for file, launch in launches(config.hardware):
            more_of_it = launch.gpus > found.work.gpus or launch.strategy != found.work.strategy
            if more_of_it and not (config.lora and launch.sharded):
                out.append([f"hardware.accelerate={os.path.relpath(file)}", f"world_size={launch.gpus}"])
    if config.lora is None:
        out.append(["lora={r: 32, alpha: 64}"])
    if not config.qlora and found.work.device == "cuda":
        out.append(["qlora=true"])
    return out
