"""The schema of an RL run, and the trainer settings that this stage decides itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from envs.config import ConfigError, Strict, check_fields
from envs.hardware import Expect, Hardware, ModelSize, Status
from envs.rewards import COST_SHARE
from rl.ablation import check_ablations
from rl.curriculum import Stage, check_stages

_ROWS = "one episode is several rows, which this setting doesn't know"
_SAMPLING = "log-probabilities of training and sampling must be of the same, whole distribution"
_FIELD = "set the run's own field instead: "

RESERVED: dict[str, str] = {
    "output_dir": _FIELD + "out",
    "max_steps": _FIELD + "steps",
    "num_train_epochs": _FIELD + "steps",
    "num_generations": _FIELD + "group_size",
    "generation_batch_size": _FIELD + "episodes_per_step",
    "per_device_train_batch_size": _FIELD + "micro_batch",
    "per_device_eval_batch_size": _FIELD + "val_batch",
    "max_completion_length": "the profile's reply_tokens caps a turn",
    "temperature": _FIELD + "temperature",
    "seed": _FIELD + "seed",
    "data_seed": _FIELD + "seed",
    "bf16": _FIELD + "precision",
    "fp16": _FIELD + "precision",
    "report_to": _FIELD + "wandb.mode",
    "run_name": "the run folder's name is the run's name",
    "save_steps": _FIELD + "save_every",
    "save_strategy": _FIELD + "save_every",
    "eval_steps": _FIELD + "val_every",
    "eval_strategy": _FIELD + "val_probes and val_every",
    "eval_on_start": _FIELD + "val_at_start",
    "metric_for_best_model": _FIELD + "keep_best",
    "resume_from_checkpoint": "the same command resumes from the last whole checkpoint",
    "disable_tqdm": "this stage draws its own progress bar",
    "loss_type": "must be dapo: the only divisor that doesn't change when an episode is cut into more segments",
    "scale_rewards": "must be none: dividing by the standard deviation would put cost before correctness",
    "reward_weights": "the advantage is made of the columns q and s in the trainer",
    "multi_objective_aggregation": "the advantage is made of the columns q and s in the trainer",
    "gradient_accumulation_steps": "follows from episodes_per_step and micro_batch",
    "steps_per_generation": "must equal gradient_accumulation_steps: all segments of an episode train in one step",
    "num_iterations": "must be 1: more would need sampling log-probabilities in the ratio",
    "num_generations_eval": "validation plays each probe once",
    "importance_sampling_level": "must be token: " + _ROWS,
    "mask_truncated_completions": "over-long episodes are failures and are trained on as such; ablation: [mask_overlong] masks them",
    "top_p": _SAMPLING,
    "top_k": _SAMPLING,
    "min_p": _SAMPLING,
    "repetition_penalty": _SAMPLING,
    "generation_kwargs": _SAMPLING,
    "cache_implementation": "sampling keeps its own cache",
    "use_transformers_continuous_batching": "it returns no log-probabilities",
    "use_transformers_paged": "it returns no log-probabilities",
    "model_init_kwargs": "the model is loaded here: set model and precision",
    "chat_template_kwargs": "the project's own chat writer renders every view",
    "max_tool_calling_iterations": _FIELD + "max_turns",
    "remove_unused_columns": "the trainer needs the column that names the probe",
    "shuffle_dataset": "the order of probes is drawn once for the run, so that a resumed run meets the same ones",
    "dataloader_drop_last": "every step takes whole groups",
    "ignore_data_skip": "a resumed run must go on with the next probes",
    "save_only_model": "without optimizer and random state a run can't be resumed exactly",
    "load_best_model_at_end": "the last weights are the result; those that did best in validation are kept in best/",
    "auto_find_batch_size": "groups must stay whole",
}
"""GRPOConfig settings that ``trainer`` may not hold, and why."""

VLLM_MODES = ("token_truncate", "token_mask")


class Wandb(Strict):
    """Tracking. A failure of it never stops a run."""

    mode: Literal["online", "offline", "disabled"] = "offline"
    project: str = "ctxctl"


class RLConfig(Strict):
    """One RL run. Everything under ``trainer`` goes to TRL's GRPOConfig as it is."""

    model: str = "smollm2"
    """Name or folder of the start weights, usually the model folder of an SFT run."""
    probes: str | None = None
    """Probes to train on, one JSON a line (``probes.rl.jsonl`` of a data set)."""
    sessions: str | None = None
    """Full sessions to train on, one JSON a line, beside the probes or instead of them. A session's inferences count against
    ``max_turns`` and its segments against ``max_segments``: raise both.
    """
    curriculum: list[Stage] = Field(default_factory=list)
    """What to train on up to which step; default: all tasks in every step."""
    val_probes: str | None = None
    """Probes played once each: before the first step, every ``val_every`` steps and after the last."""
    val_every: int = Field(20, ge=1)
    val_at_start: bool = True
    """Validate the start weights too, as step 0."""
    val_temperature: float = Field(0.0, ge=0)
    """Of validation; 0 takes the likeliest token. Above, each probe has its own random stream, the same every time."""
    keep_best: bool = True
    """Keep the weights that did best in validation in ``<out>/best``: highest pair success, then fewest tokens."""
    val_limit: int | None = Field(None, ge=1)
    """At most so many validation probes, the first of the file."""
    val_batch: int = Field(16, ge=1)
    """Validation episodes played at once on one process."""
    out: str
    """Run folder."""
    profile: str = "core@1"
    prompt: str = "neutral"
    steps: int = Field(40, ge=1)
    episodes_per_step: int = Field(16, ge=2)
    """Episodes of one optimizer step over all processes; a multiple of ``group_size``."""
    group_size: int = Field(8, ge=2)
    """Episodes of one probe that share a baseline."""
    micro_batch: int = Field(2, ge=1)
    """Episodes whose segments share one forward pass: a pass holds about ``micro_batch`` x segments per episode rows."""
    redraw: int = Field(0, ge=0)
    """How often a step may play groups without variance again, on other probes (dynamic sampling)."""
    max_turns: int = Field(24, ge=1)
    """Inferences of one episode; an episode cut here is a failure."""
    max_segments: int = Field(8, ge=1)
    """Segments (rows) of one episode; an episode cut here is a failure."""
    temperature: float = Field(1.0, gt=0)
    cost_share: float = Field(COST_SHARE, ge=0, le=20)
    """What saving weighs in a group that is all right, as a share of the smallest step of ``q``. Quality orders every other group alone,
    whatever it is; a larger one makes a cheap habit worth more wrong answers over many groups.
    """
    ablation: list[str] = Field(default_factory=list)
    """Names from ``rl.ablation.ABLATIONS``, each changing one thing; and the control ``permuted_advantages``. Default: none."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16`` is autocast over fp32 weights (with ``lora``: fp32 adapters on bf16 weights). Slow on a CPU without bf16 units."""
    reuse_tokens: int = Field(16_384, ge=0)
    """Keys and values kept while a batch is played, in tokens: a view that only grows is not read again."""
    lora: bool | dict[str, Any] = False
    """True for rank 16 on all linear layers but the head, or LoraConfig settings."""
    freeze_embeddings: bool = False
    """Leave the input embeddings (and a head tied to them) as they are."""
    logp_gap_stop: float | None = Field(None, gt=0)
    """Bound of the log-probability gap of sampling and training: of the maximum in fp32 (1e-4), of the mean in bf16 and with vLLM (0.1)."""
    save_every: int = Field(10, ge=1)
    keep_checkpoints: int = Field(2, ge=1)
    world_size: int | None = Field(None, ge=1)
    """Processes expected; a launcher that started another number is refused."""
    seed: int = 0
    wandb: Wandb = Wandb()
    status: Status | None = None
    """Of a recipe: has it run on the hardware it is written for?"""
    hardware: Hardware | None = None
    """The GPUs that a plan reckons with; ``null``: this machine."""
    model_size: ModelSize | None = None
    """Sizes of the model, for a plan without it; ``null``: from the model's ``config.json``."""
    expect: Expect | None = None
    """Rows of a plan without data."""
    trainer: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _old_weighting(cls, value: Any) -> Any:
        """``weighting: episode`` was the one ablation of older configs."""
        if not isinstance(value, dict) or "weighting" not in value:
            return value
        value = dict(value)
        weighting = value.pop("weighting")
        if weighting not in ("token", "episode"):
            raise ValueError(f"weighting is {weighting!r}: leave it out, or set ablation: [episode_weighting]")
        if weighting == "episode":
            value["ablation"] = sorted({*(value.get("ablation") or []), "episode_weighting"})
        return value

    @field_validator("ablation")
    @classmethod
    def _known_ablations(cls, value: list[str]) -> list[str]:
        check_ablations(value)
        return value

    @field_validator("trainer")
    @classmethod
    def _trainer_settings(cls, value: dict[str, Any]) -> dict[str, Any]:
        from trl import GRPOConfig

        try:
            check_fields(GRPOConfig, value, "trainer", reserved=RESERVED)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if value.get("use_vllm"):
            mode = value.get("vllm_importance_sampling_mode", VLLM_MODES[0])
            if mode not in VLLM_MODES:
                raise ValueError(f"trainer.vllm_importance_sampling_mode: {mode!r}: use one of {', '.join(VLLM_MODES)}: {_ROWS}")
        return value

    @field_validator("lora")
    @classmethod
    def _lora_settings(cls, value: bool | dict[str, Any]) -> bool | dict[str, Any]:
        if isinstance(value, dict):
            from peft import LoraConfig

            try:
                check_fields(LoraConfig, value, "lora", reserved={"task_type": "always CAUSAL_LM here"})
            except ConfigError as error:
                raise ValueError(str(error)) from None
            for name in ("target_modules", "modules_to_save"):
                if "lm_head" in str(value.get(name, "")):
                    raise ValueError(f"lora.{name} names lm_head, which would never be trained: leave it out")
        return value

    @model_validator(mode="after")
    def _whole_groups(self) -> RLConfig:
        if self.episodes_per_step % self.group_size:
            raise ValueError(f"episodes_per_step {self.episodes_per_step} is not a multiple of group_size {self.group_size}")
        if not (self.probes or self.sessions):
            raise ValueError("nothing to train on: give probes, sessions or both")
        check_stages(self.curriculum, self.steps)
        return self

    @property
    def gap_stop(self) -> float:
        """The bound of the log-probability gap that is in force."""
        # vLLM holds fp32 weights in half precision.
        exact = self.precision == "fp32" and not self.trainer.get("use_vllm")
        return self.logp_gap_stop or (1e-4 if exact else 0.1)


def micro_batches(config: RLConfig, processes: int) -> int:
    """Forward passes of one optimizer step on one process. Raises ConfigError if episodes don't divide evenly."""
    share, rest = divmod(config.episodes_per_step, processes)
    if rest or share % config.micro_batch:
        raise ConfigError(
            f"episodes_per_step: {config.episodes_per_step} doesn't divide by micro_batch {config.micro_batch} x {processes} "
            f"process(es): choose a multiple of {config.micro_batch * processes}"
        )
    return share // config.micro_batch
