"""One SFT run in one folder; the same call resumes it.

The folder holds

    out/config.yaml      the resolved config            out/metrics.jsonl   one line a step
    out/run.json         hashes, counts, versions       out/checkpoints/    complete ones carry complete.json
    out/arguments.json   TRL's resolved arguments       out/model/          the trained model and its tokenizer
    out/warnings.jsonl   what failed beside the run     out/done.json       the result; a finished run returns it at once
    out/adapter/         with lora: the adapter alone
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.chat import get_chat
from envs.config import ConfigError, dump_config, load_config
from envs.hardware import NOT_TRAINING, launched_sharded, refuse_sharded_adapter
from envs.hashes import rules_record
from envs.runs import (
    DataError,
    provenance,
    read_json,
    read_jsonl,
    sha256_file,
    write_json_atomic,
    write_jsonl_atomic,
    write_text_atomic,
)
from envs.samples import Picker
from envs.tracking import Tracker
from envs.trajectory import Trajectory
from sft import quantised
from sft.config import SFTStageConfig, trainer_arguments
from sft.packing import check_flat, flash_attention, layout
from sft.rows import Counts, Row, build_rows, split_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from trl import SFTConfig

    from sft.trainer import SegmentTrainer


def run(config: SFTStageConfig, where: str = "config") -> dict[str, Any]:
    """Train, validate and save; returns what ``done.json`` holds.

    ``where`` names the config's file in error messages. Raises UserError (one line) for a mistake in config or data. A Ctrl-C
    or a kill loses the steps since the last complete checkpoint and nothing else.
    """
    out = Path(config.out).expanduser()
    _check_folder(config, out, where)
    if (out / "done.json").is_file():
        result: dict[str, Any] = read_json(out / "done.json")
        print(f"{out}: finished already (loss {result['loss']}): nothing to do")
        return result
    if config.qlora:
        quantised.require()
    arguments = trainer_arguments(config, where)
    _check_processes(config, arguments)
    train, held, counts, shown, rules = read_data(config)
    _claim(config, out, counts, rules, arguments)
    with Tracker(
        config.wandb.mode if _is_main() else "disabled", out, project=config.wandb.project, config=config.model_dump()
    ) as tracker:
        if not (out / "model").is_dir():
            _train(config, out, arguments, train, held, tracker)
        summary = read_json(out / "trained.json")
        validation = _validate(config, out, held, shown, summary["steps"], tracker)
        result = {**summary, "rows": counts.as_dict(), "held_out": validation, "model": str(out / "model")}
        tracker.summary(result)
    if _is_main():
        write_json_atomic(out / "done.json", result)
    return result


def read_rows(config: SFTStageConfig, progress: bool = True) -> tuple[list[Row], list[Row], Counts]:
    """Training rows, held-out rows, counts of a config's data. Raises DataError."""
    return read_data(config, progress)[:3]


def read_data(
    config: SFTStageConfig, progress: bool = True
) -> tuple[list[Row], list[Row], Counts, list[Trajectory], dict[str, Any]]:
    """Those, a few whole trajectories of the held-out rows, for people to look at, and hashes of the rules that were played.

    Raises DataError.
    """
    source, chat = config.data_file, get_chat(config.model)
    trajectories = read_jsonl(source, model=Trajectory)
    try:
        rules = rules_record([(t.profile, t.prompt) for t in trajectories], chat)
    except ValueError as error:
        raise DataError(f"{source}: {error}, or generate the data again with this version") from None
    rows, counts = build_rows(trajectories, chat, config.max_row_tokens, str(source), progress and _is_main())
    train, held = split_rows(rows, config.eval_share, config.seed)
    names, picker = {row.trajectory for row in held}, Picker()
    return train, held, counts, [t for t in trajectories if t.id in names and picker.wants(t)], rules


def _check_folder(config: SFTStageConfig, out: Path, where: str) -> None:
    """Refuse a folder that another config has taken. Raises ConfigError."""
    file = out / "config.yaml"
    if not file.is_file():
        return
    before, now = (c.model_dump(mode="json") for c in (load_config(SFTStageConfig, file), _resolved(config)))
    for key in before:
        if key not in ("wandb", "world_size", *NOT_TRAINING) and before[key] != now[key]:
            raise ConfigError(
                f"{where}: {key}: {now[key]!r}, but {file} was started with {before[key]!r}: "
                "choose another 'out', or give the old value to resume"
            )


def _check_processes(config: SFTStageConfig, arguments: SFTConfig) -> None:
    """Refuse what this launch can't do. Raises ConfigError."""
    if config.world_size and arguments.world_size != config.world_size:
        raise ConfigError(
            f"world_size: {arguments.world_size} process(es) started, not {config.world_size}: check the launcher's settings"
        )
    if config.eval_every is not None and launched_sharded():
        raise ConfigError(
            f"eval_every: {config.eval_every}, but one process validates and the weights are cut over all of them: "
            "set it to null (the saved model is validated at the end), or launch with DDP"
        )


def _resolved(config: SFTStageConfig) -> SFTStageConfig:
    return config.model_copy(update={"trainer": config.trainer_settings})


def _claim(config: SFTStageConfig, out: Path, counts: Counts, rules: dict[str, Any], arguments: SFTConfig) -> None:
    """Take the run folder once config and data are known to be good. Raises DataError when the data isn't what it began with."""
    digest = sha256_file(config.data_file)
    file = out / "run.json"
    if file.is_file() and (before := read_json(file)["data_sha256"]) != digest:
        raise DataError(f"{config.data_file}: has changed since this run began ({file}: {before[:12]}…): choose another 'out'")
    if _is_main():
        write_text_atomic(out / "config.yaml", dump_config(_resolved(config)))
        write_json_atomic(file, {"data_sha256": digest, "rules": rules, "rows": counts.as_dict(), **provenance()})
        write_json_atomic(out / "arguments.json", arguments.to_dict())


def build(config: SFTStageConfig, arguments: SFTConfig, rows: Sequence[Row]) -> SegmentTrainer:
    """The trainer of a run, its model loaded. Raises ConfigError or ModelError."""
    from transformers.utils.logging import disable_progress_bar

    from envs.policies.smollm2 import load_tokenizer
    from sft.shared import can_share
    from sft.trainer import Clock, SegmentTrainer

    disable_progress_bar()  # there is one bar: ours
    if config.lora is not None:
        refuse_sharded_adapter()
    if config.qlora:
        quantised.require()
    kind = layout(config, bool(arguments.use_cpu))
    model = _load(config, arguments, flash_attention() if kind == "flat" else None)
    if kind == "flat":
        check_flat(model, config.model)
    if kind == "tree" and not can_share(model):
        for name, value in (("share_prefix", config.share_prefix), ("packing", config.packing == "auto")):
            if value:
                raise ConfigError(
                    f"{name}: asked for, but {config.model!r} doesn't attend to its whole past in every layer: "
                    f"set {name} to {'off' if name == 'packing' else 'false'}"
                )
        kind = "padded"
    clock = Clock(config.max_minutes * 60 if config.max_minutes is not None else None)
    return SegmentTrainer(
        model,
        arguments,
        rows,
        load_tokenizer(config.model),
        share=kind == "tree",
        clock=clock,
        peft_config=_adapter(config, model),
    )


def _train(
    config: SFTStageConfig, out: Path, arguments: SFTConfig, rows: Sequence[Row], held: Sequence[Row], tracker: Tracker
) -> None:
    """From the last complete checkpoint, or from the start, to ``out/model`` and ``out/trained.json``."""
    from transformers import PrinterCallback

    from sft.trainer import RunLog

    trainer = build(config, arguments, rows)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(RunLog(trainer, out, tracker, held, config.eval_every))
    record = _fit(trainer, out)
    if trainer.stopped != "planned":
        print(f"{out}: stopped after step {record['step']} of {record['max_steps']}: max_minutes={config.max_minutes} is used up")
    _save(config, out, trainer)
    if _is_main():
        last = [line for line in read_jsonl(out / "metrics.jsonl", torn="drop_last") if "loss" in line][-1:]
        seconds = trainer.clock.elapsed
        write_json_atomic(
            out / "trained.json",
            {
                "steps": record["step"],
                "planned_steps": record["max_steps"],
                "stopped": trainer.stopped,
                "loss": last[0]["loss"] if last else None,
                "minutes": round(seconds / 60, 3),
                "tokens": trainer.row_tokens,
                "computed_tokens": trainer.computed_tokens,
                "tokens_per_second": round(trainer.row_tokens / seconds, 1) if seconds else None,
            },
        )
        (out / "model.partial").rename(out / "model")
    trainer.accelerator.wait_for_everyone()


def _fit(trainer: SegmentTrainer, out: Path) -> dict[str, Any]:
    """Train from the last complete checkpoint or from the start; returns ``step`` and ``max_steps``."""
    from sft.trainer import last_complete

    checkpoint = last_complete(Path(trainer.args.output_dir))
    if checkpoint is None:
        _keep_metrics(out / "metrics.jsonl", 0)
        trainer.train()
    else:
        record = trainer.restore(checkpoint)
        print(f"{out}: resumes from step {record['step']} of {record['max_steps']}")
        _keep_metrics(out / "metrics.jsonl", record["step"])
        if record["step"] >= record["max_steps"] or record["stopped"] != "planned":
            trainer.load_weights(checkpoint)
            return record
        trainer.train(resume_from_checkpoint=str(checkpoint))
    return {"step": trainer.state.global_step, "max_steps": trainer.state.max_steps}


def _load(config: SFTStageConfig, arguments: SFTConfig, attention: str | None) -> PreTrainedModel:
    """fp32 weights, or bf16 or 4-bit ones under an fp32 adapter on a GPU: pure bf16 AdamW rounds its updates away."""
    from envs.policies.smollm2 import load_model

    half = config.lora is not None and arguments.bf16 and not arguments.use_cpu
    if config.qlora:
        model = quantised.load_4bit(config.model, attention)
    else:
        model = load_model(config.model, dtype="bfloat16" if half else "float32", device="cpu", attention=attention)
    layers = getattr(model.base_model, "layers", None)
    if config.freeze_layers and (layers is None or config.freeze_layers >= len(layers)):
        depth = "no list of layers" if layers is None else f"{len(layers)} layers"
        raise ConfigError(f"freeze_layers: {config.freeze_layers}, but {config.model!r} has {depth}: use a smaller number")
    if config.lora is None:
        if config.freeze_embeddings:
            model.get_input_embeddings().requires_grad_(False)
            model.get_output_embeddings().requires_grad_(False)
        for layer in list(layers or ())[: config.freeze_layers]:
            layer.requires_grad_(False)
    model.config.use_cache = False
    return model


def _adapter(config: SFTStageConfig, model: PreTrainedModel) -> Any:
    if config.lora is None:
        return None
    from peft import LoraConfig

    lora = config.lora
    targets: Any = lora.target_modules
    if config.freeze_layers:  # PEFT's own choice of layers doesn't go together with "all-linear"
        targets = _linears_above(model, config.freeze_layers, None if targets == "all-linear" else targets)
    return LoraConfig(r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="CAUSAL_LM")


def _linears_above(model: PreTrainedModel, first: int, names: Sequence[str] | None) -> list[str]:
    """Linear modules of the layers from ``first`` on, with these last names (None: all)."""
    import torch

    found = []
    for number, layer in enumerate(model.base_model.layers):
        for name, module in layer.named_modules():
            if number >= first and isinstance(module, torch.nn.Linear) and (names is None or name.split(".")[-1] in names):
                found.append(f"layers.{number}.{name}")
    return found


def _save(config: SFTStageConfig, out: Path, trainer: SegmentTrainer) -> None:
    """The model and tokenizer into ``out/model.partial``, the adapter merged in; the caller renames it when all is written."""
    import torch

    from envs.policies.smollm2 import load_model

    partial = out / "model.partial"
    if _is_main():
        shutil.rmtree(partial, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    dtype = getattr(torch, config.save_dtype)
    if config.qlora:
        trainer.model = quantised.merged(trainer.model)
    elif config.lora is not None:
        if _is_main():
            _save_adapter(out, trainer)
        trainer.model = trainer.model.to(dtype=torch.float32).merge_and_unload()
    elif dtype == torch.float32 or launched_sharded():
        trainer.model.config.use_cache = True
        trainer.save_model(str(partial))  # every process brings its part
        if dtype != torch.float32 and _is_main():
            load_model(partial, dtype=config.save_dtype, device="cpu").save_pretrained(partial)
        return
    if _is_main():
        model = trainer.accelerator.unwrap_model(trainer.model).to(dtype=dtype)
        model.config.use_cache = True
        model.save_pretrained(partial)
        trainer.processing_class.save_pretrained(partial)


def _save_adapter(out: Path, trainer: SegmentTrainer) -> None:
    """The adapter alone into ``out/adapter``, in the precision that it was trained in; a folder that is there is whole."""
    partial = out / "adapter.partial"
    shutil.rmtree(partial, ignore_errors=True)
    trainer.accelerator.unwrap_model(trainer.model).save_pretrained(str(partial))
    shutil.rmtree(out / "adapter", ignore_errors=True)
    partial.rename(out / "adapter")


def _validate(
    config: SFTStageConfig, out: Path, held: Sequence[Row], shown: Sequence[Trajectory], step: int, tracker: Tracker
) -> dict[str, Any] | None:
    """Validation on the model as saved, so a model that can't be loaded back is noticed here."""
    if not held or not _is_main():
        return None
    from envs.policies.smollm2 import load_model
    from sft.evaluate import SAMPLE_COLUMNS, sample_rows, teacher_forced, tracked

    model = load_model(out / "model")
    result = teacher_forced(model, held, progress=True)
    tracker.log(tracked(result), step)
    if tracker.active:
        with tracker.guard("samples"):
            tracker.table("samples", SAMPLE_COLUMNS, sample_rows(model, get_chat(config.model), shown, held), step)
    return result


def _keep_metrics(file: Path, step: int) -> None:
    """Drop the lines that a resumed run will write again."""
    if file.is_file() and _is_main():
        lines = read_jsonl(file, torn="drop_last")
        if any(line["step"] > step for line in lines):
            write_jsonl_atomic(file, [line for line in lines if line["step"] <= step])


def _is_main() -> bool:
    return int(os.environ.get("RANK", "0")) == 0
