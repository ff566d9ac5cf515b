"""Weights of a run: the start model, its adapter, the final model and the best one as folders that are whole or absent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from envs.config import ConfigError
from envs.hardware import launched_sharded, refuse_sharded_adapter
from envs.runs import write_json_atomic
from rl.config import RLConfig

BEST = "best"


def load_weights(config: RLConfig) -> Any:
    """The start model in the precision it is trained in. Raises ModelError, or ConfigError for a bare adapter."""
    import torch

    from envs.policies.smollm2 import load_model, resolve_model

    if config.lora:
        refuse_sharded_adapter()
    source = Path(resolve_model(config.model))
    if (source / "adapter_config.json").is_file():
        raise ConfigError(f"model: {source} is an adapter: name the merged model folder beside it")
    # Adapters are fp32 on whatever base; weights that are trained themselves must be fp32, or small updates round away.
    dtype = "bfloat16" if config.lora and config.precision == "bf16" else "float32"
    # Whole fp32 weights need not fit on a GPU that will hold a part of them.
    there = torch.cuda.is_available() and not launched_sharded()
    model = load_model(config.model, dtype=dtype, device="cuda" if there else "cpu")
    if config.freeze_embeddings:
        model.get_input_embeddings().weight.requires_grad_(False)
    return model.train()


def lora_config(config: RLConfig) -> Any:
    """The adapter's settings, or None."""
    if not config.lora:
        return None
    from peft import LoraConfig

    given = config.lora if isinstance(config.lora, dict) else {}
    return LoraConfig(**{"r": 16, "lora_alpha": 32, "target_modules": "all-linear", **given}, task_type="CAUSAL_LM")


def save(trainer: Any, config: RLConfig, out: Path) -> None:
    """Write the final model (and the adapter alone); a folder that is there is whole."""
    import torch

    if config.lora:
        trainer.save_model(str(out / "adapter"))
    if not config.lora:
        _replace(out / "model", lambda folder: trainer.save_model(str(folder)), trainer)
        return
    if trainer.accelerator.is_main_process:
        model = trainer.accelerator.unwrap_model(trainer.model).to(torch.float32)  # merging in bf16 would round the adapter away
        merged = model.merge_and_unload()

        def write(folder: Path) -> None:
            merged.save_pretrained(str(folder))
            trainer.processing_class.save_pretrained(str(folder))

        _replace(out / "model", write, trainer)


def _replace(target: Path, write: Any, trainer: Any) -> None:
    """Write a folder beside ``target`` and rename it. ``write`` runs on every process that gets here."""
    partial = target.with_name(target.name + ".partial")
    if trainer.accelerator.is_main_process:
        shutil.rmtree(partial, ignore_errors=True)
    write(partial)
    if trainer.accelerator.is_main_process:
        shutil.rmtree(target, ignore_errors=True)
        (partial / "training_args.bin").unlink(missing_ok=True)  # a pickle that no reader of the model needs
        partial.rename(target)


def save_best(trainer: Any, config: RLConfig, out: Path, about: dict[str, Any]) -> None:
    """Write weights, tokenizer and ``best.json`` (``about``) into ``<out>/best``; training goes on untouched."""

    def write(folder: Path) -> None:
        trainer.save_model(str(folder / "adapter" if config.lora else folder))
        if trainer.accelerator.is_main_process:
            if config.lora:
                _merge_apart(config, folder)
                trainer.processing_class.save_pretrained(str(folder))
            write_json_atomic(folder / "best.json", about)

    _replace(out / BEST, write, trainer)


def _merge_apart(config: RLConfig, folder: Path) -> None:
    """Merge ``<folder>/adapter`` into a fresh copy of the start model: merging in place would round what is being trained."""
    from peft import PeftModel

    from envs.policies.smollm2 import load_model

    base = load_model(config.model, dtype="float32", device="cpu")
    PeftModel.from_pretrained(base, str(folder / "adapter")).merge_and_unload().save_pretrained(str(folder))
