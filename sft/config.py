"""The SFT stage's schema, and how its ``trainer`` section becomes TRL's ``SFTConfig``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from pydantic import Field, field_validator, model_validator

from envs.config import ConfigError, Strict, check_fields
from envs.hardware import Expect, Hardware, ModelSize, Status
from sft.packing import check_precision, layout

if TYPE_CHECKING:
    from trl import SFTConfig

TRAINER_DEFAULTS: dict[str, Any] = {
    "learning_rate": 2e-4,
    "lr_scheduler_type": "linear",
    "warmup_steps": 5,
    "weight_decay": 0.0,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_train_epochs": 1,
    "optim": "adamw_torch_fused",
    "gradient_checkpointing": False,
    "pad_to_multiple_of": 32,
    "logging_steps": 1,
    "save_steps": 50,
    "save_total_limit": 2,
}
"""What the ``trainer`` section starts from: 8 rows a step at 2e-4 is what the 135M model was tried with."""

_OWN = "this stage sets it"
_REWRITES = "rows are trained as they were recorded, one segment a row"
RESERVED: dict[str, str] = {
    "output_dir": f"{_OWN}: use the top-level 'out'",
    "seed": f"{_OWN}: use the top-level 'seed'",
    "data_seed": f"{_OWN}: use the top-level 'seed'",
    "report_to": f"{_OWN}: use the top-level 'wandb'",
    "run_name": f"{_OWN}: use the top-level 'wandb'",
    "resume_from_checkpoint": "the same command resumes by itself",
    "disable_tqdm": f"{_OWN}: there is one progress bar",
    "packing": f"{_OWN}: use the top-level 'packing'",
    "packing_strategy": f"{_REWRITES}: leave it out",
    "eval_packing": f"{_REWRITES}: leave it out",
    "padding_free": f"{_OWN}: use the top-level 'packing'",
    "truncation_mode": f"{_REWRITES}: leave it out",
    "assistant_only_loss": "labels come from the recorder, which knows what was sampled: leave it out",
    "completion_only_loss": "labels come from the recorder, which knows what was sampled: leave it out",
    "chat_template_path": "rows are token ids already: leave it out",
    "dataset_text_field": "rows are token ids already: leave it out",
    "dataset_kwargs": "rows are token ids already: leave it out",
    "eos_token": "the model's own end-of-turn token is used: leave it out",
    "pad_token": "the tokenizer's own is used: leave it out",
    "model_init_kwargs": f"{_OWN}: use the top-level 'model'",
    "train_sampling_strategy": f"{_OWN}: rows of one base stay together, batches are cut by length or shared prefix",
    "eval_strategy": f"{_OWN}: use the top-level 'eval_share'",
    "do_eval": f"{_OWN}: use the top-level 'eval_share'",
    "eval_steps": f"{_OWN}: use the top-level 'eval_every'",
    "load_best_model_at_end": "the model that is saved is the last one",
    "save_only_model": "a checkpoint without its optimizer can't be resumed",
    "push_to_hub": "upload the finished model by hand: leave it out",
}


class Lora(Strict):
    """A low-rank adapter, merged into the final model."""

    r: int = Field(32, ge=1)
    alpha: int = Field(64, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: Literal["all-linear"] | list[str] = "all-linear"

    @field_validator("target_modules")
    @classmethod
    def _no_head(cls, value: str | list[str]) -> str | list[str]:
        if "lm_head" in value or "embed_tokens" in value:
            raise ValueError(
                "lm_head and embed_tokens can't carry an adapter (the loss multiplies by lm_head's own weight): leave them out"
            )
        return value


class Wandb(Strict):
    """Tracking; a failure of it never stops the run."""

    mode: Literal["online", "offline", "disabled"] = "disabled"
    project: str = "ctxctl"


class SFTStageConfig(Strict):
    """One SFT run. Unknown keys are refused; ``trainer`` goes straight to TRL's ``SFTConfig``."""

    model: str = "smollm2"
    """``smollm2``, ``tiny``, a model folder or a hub id."""
    data: str
    """``trajectories.jsonl``, or the folder that holds it."""
    out: str
    """The run folder."""
    seed: int = 0
    max_row_tokens: int = Field(1024, ge=16)
    """A longer row is an error: nothing is ever cut."""
    lora: Lora | None = None
    """``null`` trains the weights themselves."""
    qlora: bool = False
    """Hold the frozen weights in 4 bits under the adapter ``lora`` (the default one if none is given). A GPU and bitsandbytes."""
    freeze_embeddings: bool = True
    freeze_layers: int = Field(0, ge=0)
    """Lowest layers left as they are (with ``lora``: without an adapter): their backward pass, the larger part of their cost, falls away."""
    share_prefix: bool | None = None
    """Compute a prefix that rows of a batch share once. ``null``: on a CPU only."""
    packing: Literal["off", "auto"] = "off"
    """``auto``: no padding, by shared prefixes on a CPU, end to end with flash attention on a GPU; refused where neither is
    exact. ``off``: ``share_prefix`` alone decides."""
    max_minutes: float | None = Field(None, gt=0)
    """Wall clock of training. The learning rate then falls by steps or time, whichever is further, to zero at the end."""
    eval_share: float = Field(0.05, ge=0, lt=1)
    """Share of base sessions held out whole, twins together, for validation at the end."""
    eval_every: int | None = Field(None, ge=1)
    """Steps between validations on them during training, too; ``null``: only at the end."""
    save_dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the final model. RL goes on in float32; bfloat16 halves the folder and rounds every weight once."""
    wandb: Wandb = Wandb()
    world_size: int | None = Field(None, ge=1)
    """Processes expected; a launcher that started another number is refused."""
    status: Status | None = None
    """Of a recipe: has it run on the hardware it is written for?"""
    hardware: Hardware | None = None
    """The GPUs that a plan reckons with; ``null``: this machine."""
    model_size: ModelSize | None = None
    """Sizes of the model, for a plan without it; ``null``: from the model's ``config.json``."""
    expect: Expect | None = None
    """Rows of a plan without data."""
    trainer: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _adapter_of_qlora(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("qlora") is True and data.get("lora") is None:
            return {**data, "lora": {}}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> SFTStageConfig:
        if self.eval_every is not None and not self.eval_share:
            raise ValueError("eval_every: nothing is held out to validate on: set eval_share above 0, or eval_every to null")
        if self.share_prefix and self.trainer.get("gradient_checkpointing"):
            raise ValueError(
                "share_prefix needs the keys and values that trainer.gradient_checkpointing throws away: drop one of them"
            )
        schedule = self.trainer.get("lr_scheduler_type", "linear")
        if self.max_minutes is not None and schedule not in ("linear", "constant"):
            raise ValueError(
                f"max_minutes goes with a linear or constant schedule, not {schedule!r}: change trainer.lr_scheduler_type"
            )
        return self

    @property
    def data_file(self) -> Path:
        """The trajectories file."""
        path = Path(self.data).expanduser()
        return path / "trajectories.jsonl" if path.is_dir() else path

    @property
    def trainer_settings(self) -> dict[str, Any]:
        """The ``trainer`` section over this stage's defaults."""
        return {**TRAINER_DEFAULTS, **self.trainer}


def fast_bf16() -> bool:
    """Whether this machine multiplies bf16 faster than fp32. A CPU without such instructions is ten times slower at it."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported()
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def trainer_arguments(config: SFTStageConfig, where: str = "config") -> SFTConfig:
    """TRL's arguments for a run. Raises ConfigError naming the setting, its value and the remedy."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import torch
    from trl import SFTConfig

    settings = config.trainer_settings
    check_trainer(config.trainer, where)
    cuda = torch.cuda.is_available()
    own = {
        "output_dir": str(Path(config.out) / "checkpoints"),
        "seed": config.seed,
        "report_to": "none",
        "disable_tqdm": True,
        "max_length": None,
        "eval_strategy": "no",
        "dataset_kwargs": {"skip_prepare_dataset": True},
    }
    machine = {"bf16": fast_bf16() and not settings.get("fp16"), "use_cpu": not cuda, "dataloader_pin_memory": cuda}
    flat = layout(config, bool(settings.get("use_cpu", not cuda))) == "flat"
    if flat:
        own["padding_free"] = True
        own["pad_to_multiple_of"] = None  # nothing is padded
    try:
        arguments = SFTConfig(**{**machine, **settings, **own})
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ConfigError(f"{where}: trainer: not accepted by SFTConfig: {' '.join(str(error).split())}") from error
    if flat:
        check_precision(arguments.bf16 or arguments.fp16)
    if arguments.save_total_limit is not None and arguments.save_total_limit < 2:
        raise ConfigError(
            f"{where}: trainer.save_total_limit: {arguments.save_total_limit!r} not allowed here: "
            "a kill while saving would leave nothing to resume from: use 2 or more"
        )
    return arguments


def check_trainer(trainer: Mapping[str, Any], where: str) -> None:
    """Refuse settings that SFTConfig lacks, that this stage sets, or whose value has the wrong type. Raises ConfigError."""
    from pydantic import TypeAdapter, ValidationError
    from trl import SFTConfig

    section = f"{where}: trainer"
    if trainer.get("max_length") is not None:
        raise ConfigError(
            f"{section}.max_length: {trainer['max_length']!r} not allowed here: TRL would cut rows without a word: "
            "leave it out and set max_row_tokens, which refuses"
        )
    check_fields(SFTConfig, trainer, section, reserved=RESERVED)
    hints = get_type_hints(SFTConfig)
    for key, value in trainer.items():
        if hints[key] in (int, float, bool, int | None, float | None, bool | None):
            try:
                TypeAdapter(hints[key]).validate_python(value, strict=True)
            except ValidationError as error:
                problem = error.errors(include_url=False)[0]["msg"]
                raise ConfigError(
                    f"{section}.{key}: {value!r} not accepted: {problem[0].lower() + problem[1:]}: correct it"
                ) from None
