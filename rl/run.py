"""One RL run: from a config to a final model in one run folder. The same call resumes; a finished run is left as it is.

<out>/config.yaml      resolved config
      provenance.jsonl commit, versions, machine of each start; hashes of its data and rules
      metrics.jsonl    one line a step, and one a validation
      validation.jsonl one line a probe and validation, step 0 included
      checkpoint-<n>/  optimizer, random state, weights; whole when complete.json is there
      model/           final weights and tokenizer (an adapter is merged in)
      adapter/         the adapter alone, with lora
      best/            weights and tokenizer that did best in validation, with best.json
      done.json        written last
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from envs.chat import ChatML, get_chat
from envs.config import ConfigError, dump_config
from envs.hashes import rules_record
from envs.profiles import get_profile, prompt_text
from envs.runs import (
    DataError,
    append_jsonl,
    provenance,
    read_json,
    read_jsonl,
    sha256_file,
    write_json_atomic,
    write_text_atomic,
)
from envs.tracking import Tracker
from rl.config import VLLM_MODES, RLConfig, micro_batches
from rl.resume import CONFIG, CONSTANT, DONE, PROVENANCE, check_same_config, drop_after, last_checkpoint


def run(config: RLConfig, *, progress: bool = True, callbacks: list[Any] | None = None) -> dict[str, Any]:
    """Train, or go on training, the run that ``config`` describes.

    Args:
        config: the run.
        progress: draw a progress bar.
        callbacks: further transformers callbacks.

    Returns:
        The content of ``done.json``: ``status`` ("finished"), ``steps``, ``model`` (folder), ``seconds``, the last metrics, and
        with validation ``best`` (step, metrics and folder of the weights that did best, or None).
        A run stopped by Ctrl-C returns ``status`` "interrupted" and writes no ``done.json``.

    Raises:
        UserError: a config, data or model that can't be used, or a log-probability gap beyond the bound.
    """
    out = Path(config.out)
    checkpoint, first = last_checkpoint(out)
    finished = (out / DONE).is_file()
    if checkpoint or finished:
        check_same_config(config, out)
    if finished and read_json(out / DONE)["steps"] >= config.steps:
        print(f"{out}: finished before; choose another out to train again", file=sys.stderr)
        return dict(read_json(out / DONE))
    main = _rank() == 0
    if main:
        about = {**provenance(), **made_of(config, out)}
        (out / DONE).unlink(missing_ok=True)  # it was finished with fewer steps
        write_text_atomic(out / CONFIG, dump_config(config))
        append_jsonl(out / PROVENANCE, about)
        drop_after(out, first if checkpoint else -1)

    # Heavy imports wait until the config is known to be good.
    from rl.best import kept
    from rl.callbacks import RunCallback, Stop
    from rl.weights import BEST, save

    stop = Stop()
    tracker = Tracker(
        config.wandb.mode if main else "disabled", out, project=config.wandb.project, config=config.model_dump(mode="json")
    )
    watch = RunCallback(out, tracker, stop, total=config.steps, first=first, progress=progress, main=main)
    started = time.monotonic()
    try:
        with stop.on_interrupt():
            trainer = build(config, first=first, on_turn=watch.on_turn, on_sample=watch.on_sample)
            for callback in [*(callbacks or []), watch, *keepers(trainer, config)]:
                trainer.add_callback(callback)
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        watch.close()
    if trainer.state.global_step < config.steps:
        return {"status": "interrupted", "steps": trainer.state.global_step, "out": str(out)}
    save(trainer, config, out)
    done = {
        "status": "finished",
        "steps": config.steps,
        "model": str(out / "model"),
        "seconds": round(time.monotonic() - started, 1),
        "metrics": _last_metrics(trainer),
    }
    if best := kept(out):
        done["best"] = {"model": str(out / BEST), **best}
    if main:
        write_json_atomic(out / DONE, done)
    return done


def made_of(config: RLConfig, out: Path) -> dict[str, Any]:
    """What a run is made of besides config and code: SHA-256 of its data files (``data``), hashes of the rules (``rules``).

    Raises DataError for a file that isn't there or has changed since the run began, ConfigError for an unknown profile or prompt.
    """
    names = ("probes", "sessions", "val_probes")
    data = {name: sha256_file(path) for name in names if (path := getattr(config, name))}
    file = out / PROVENANCE
    for name, before in (read_jsonl(file, torn="drop_last")[0].get("data", {}) if file.is_file() else {}).items():
        if data.get(name) != before:
            raise DataError(
                f"{getattr(config, name)}: has changed since this run began ({file}: {name} {before[:12]}…): choose another out"
            )
    try:
        return {"data": data, "rules": rules_record([(config.profile, config.prompt)], get_chat(config.model))}
    except ValueError as error:
        raise ConfigError(str(error)) from None


def build(config: RLConfig, *, first: int = 0, on_turn: Any = None, on_sample: Any = None) -> Any:
    """The trainer of a run that has done ``first`` steps: tasks, tokenizer, weights and settings.

    Raises ConfigError, DataError or ModelError.
    """
    import torch
    from transformers.trainer_callback import PrinterCallback, ProgressCallback

    from envs.policies.smollm2 import load_tokenizer
    from rl.curriculum import make_plan
    from rl.probes import ProbeGame, load_probes, load_sessions
    from rl.trainer import EpisodeGRPOTrainer
    from rl.validation import lines_of, metrics_of
    from rl.weights import load_weights, lora_config

    try:
        profile = get_profile(config.profile)
        prompt_text(config.prompt, profile.managed, profile.syntax)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    tasks: list[Any] = load_probes(config.probes, "probes") if config.probes else []
    tasks += load_sessions(config.sessions) if config.sessions else []
    val_probes = load_probes(config.val_probes, "val_probes")[: config.val_limit] if config.val_probes else []
    args = trainer_args(config, profile.reply_tokens, cuda=torch.cuda.is_available(), validate=bool(val_probes), first=first)
    if config.world_size and args.world_size != config.world_size:
        raise ConfigError(
            f"world_size: {args.world_size} process(es) started, not {config.world_size}: check the launcher's settings"
        )
    tokenizer = load_tokenizer(config.model)
    tokenizer.padding_side = "left"
    chat = ChatML(tokenizer)
    groups = config.episodes_per_step // config.group_size
    plan = make_plan(tasks, config.curriculum, steps=config.steps, groups=groups, seed=config.seed, count=chat.count)
    game = ProbeGame(profile, chat, config.prompt, config.ablation)
    trainer = EpisodeGRPOTrainer(
        load_weights(config),
        args,
        start=game.start,
        judge=game.judge,
        tasks=plan.tasks,
        pool=plan.pool,
        about_step=(lambda step: {"curriculum/stage": float(plan.stage_of(step))}) if config.curriculum else None,
        val_tasks=val_probes,
        chat=chat,
        max_turns=config.max_turns,
        max_segments=config.max_segments,
        ablation=config.ablation,
        cost_share=config.cost_share,
        val_temperature=config.val_temperature,
        measure=lambda outcomes: metrics_of(lines_of(val_probes, outcomes, 0)),
        redraw=config.redraw,
        reuse_tokens=config.reuse_tokens,
        gap_stop=config.gap_stop,
        on_turn=on_turn,
        peft_config=lora_config(config),
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    if on_sample:
        game.on_judged = lambda trajectory, q: None if trainer.model.training else on_sample(trajectory, q)
    return trainer


def keepers(trainer: Any, config: RLConfig) -> list[Any]:
    """The callback of validation, if there is any."""
    from rl.best import ValidationCallback

    return [ValidationCallback(trainer, trainer.val_tasks, config)] if trainer.val_tasks else []


def trainer_args(config: RLConfig, reply_tokens: int, *, cuda: bool, validate: bool, first: int = 0) -> Any:
    """TRL's settings: ours, and the ``trainer`` section as it is. Raises ConfigError when they don't fit together."""
    from trl import GRPOConfig

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    chunks = micro_batches(config, processes)
    settings: dict[str, Any] = {
        "learning_rate": 1e-6,
        "lr_scheduler_type": CONSTANT,
        "use_cpu": not cuda,
        "dataloader_pin_memory": cuda,
        "gradient_checkpointing": cuda,
        "logging_steps": 1,
        **config.trainer,
        "output_dir": config.out,
        "run_name": Path(config.out).name,
        "max_steps": config.steps,
        "num_generations": config.group_size,
        "per_device_train_batch_size": config.micro_batch,
        "gradient_accumulation_steps": chunks,
        "steps_per_generation": chunks,
        "num_generations_eval": 1,
        "per_device_eval_batch_size": config.val_batch,
        "max_completion_length": reply_tokens,
        "temperature": config.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "seed": config.seed,
        "bf16": config.precision == "bf16",
        "fp16": False,
        "loss_type": "dapo",
        "scale_rewards": "none",
        "reward_weights": [1.0, 0.0],
        "shuffle_dataset": False,
        "remove_unused_columns": False,
        "save_strategy": "steps",
        "save_steps": config.save_every,
        "save_total_limit": config.keep_checkpoints,
        "eval_strategy": "steps" if validate else "no",
        "eval_steps": config.val_every if validate else None,
        "eval_on_start": validate and config.val_at_start and first == 0,
        "report_to": "none",
        "disable_tqdm": True,
    }
    if settings.get("use_vllm"):
        settings.setdefault("vllm_importance_sampling_mode", VLLM_MODES[0])
    try:
        return GRPOConfig(**settings)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"trainer: TRL refuses the settings: {' '.join(str(error).split())}") from error


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _last_metrics(trainer: Any) -> dict[str, Any]:
    from rl.callbacks import clean

    lines = [line for line in trainer.state.log_history if "reward/q" in line]
    return clean(lines[-1]) if lines else {}
