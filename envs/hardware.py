"""What a recipe runs on, told in its YAML: the model's sizes, the memory of a GPU, the accelerate file, the expected rows.

With these a plan needs no model, no data and no GPU (``python -m rl plan CONFIG``, ``python -m sft plan CONFIG``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.config import ConfigError, Strict, read_yaml

Status = Literal["verified", "configured-only"]
"""Of a recipe: it has run, its first steps at least, on the hardware it is written for; or only small on CPU processes."""
Strategy = Literal["single", "ddp", "fsdp2", "zero2", "zero3"]
SHARDED: tuple[Strategy, ...] = ("fsdp2", "zero2", "zero3")
ARCHITECTURES = ("llama", "qwen3")
NOT_TRAINING = ("hardware", "model_size", "expect", "status")
"""Fields of a recipe that only its plan reads: a resumed run may change them."""


class ModelSize(Strict):
    """Sizes of a decoder of Llama's or Qwen3's shape, as they stand in its ``config.json``."""

    layers: int = Field(ge=1)
    hidden: int = Field(ge=1)
    intermediate: int = Field(ge=1)
    heads: int = Field(ge=1)
    kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)
    vocab: int = Field(ge=1)
    tied: bool
    """The head multiplies by the input embeddings."""
    qk_norm: bool = False
    """Queries and keys are normed (Qwen3)."""

    @property
    def q(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of the linear layers of one block: q, k, v, o, gate, up, down."""
        h, i = self.hidden, self.intermediate
        return ((h, self.q), (h, self.kv), (h, self.kv), (self.q, h), (h, i), (h, i), (i, h))

    @property
    def matrices(self) -> int:
        """Parameters of the linear layers of one block."""
        return sum(a * b for a, b in self.linears)

    @property
    def layer(self) -> int:
        """Parameters of one block."""
        return self.matrices + 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)

    @property
    def embedding(self) -> int:
        """Parameters of the input embeddings, and of the head."""
        return self.vocab * self.hidden

    @property
    def params(self) -> int:
        """All parameters; tied ones count once."""
        return self.layers * self.layer + self.hidden + self.embedding * (1 if self.tied else 2)

    def adapter(self, rank: int) -> int:
        """Parameters of an adapter of this rank on all linear layers of the blocks."""
        return self.layers * rank * sum(a + b for a, b in self.linears)

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> ModelSize:
        """Sizes from the content of a ``config.json``. Raises ConfigError for another shape of model."""
        kind = config.get("model_type")
        if kind not in ARCHITECTURES or config.get("attention_bias") or config.get("mlp_bias"):
            raise ConfigError(
                f"{where}: model_type {kind!r} isn't planned for: the plan knows {', '.join(ARCHITECTURES)} without biases"
            )
        return cls(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            intermediate=config["intermediate_size"],
            heads=config["num_attention_heads"],
            kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
            head_dim=config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
            vocab=config["vocab_size"],
            tied=bool(config.get("tie_word_embeddings", False)),
            qk_norm=kind == "qwen3",
        )


class Hardware(Strict):
    """The GPUs of a recipe."""

    gpu_gib: float = Field(gt=0)
    """Memory of one GPU, GiB."""
    accelerate: str | None = None
    """Accelerate's file, which says how many processes run and how they share the weights; ``null``: one process."""


class Expect(Strict):
    """What the rows of a run are expected to be, for a plan without data. Where the data is there it is measured instead."""

    row_tokens: int = Field(ge=1)
    """Mean tokens of a row."""
    longest_row: int = Field(ge=1)
    """Tokens of the longest row."""
    segments: float = Field(1.0, ge=1)
    """Rows of an episode (RL)."""
    context_tokens: int | None = Field(None, ge=1)
    """Longest view that a turn is sampled after (RL); default: the longest row."""
    rows: int | None = Field(None, ge=1)
    """Rows of the data set (SFT)."""
    tokens_per_second: float | None = Field(None, gt=0)
    """Row tokens a second over all GPUs, as measured on like machines; without it a plan tells no time."""


class Launch(Strict):
    """How processes share the work, as an accelerate file says."""

    strategy: Strategy
    gpus: int = Field(ge=1)
    nodes: int = Field(1, ge=1)
    file: str | None = None
    bf16: bool = False

    @property
    def sharded(self) -> bool:
        return self.strategy in SHARDED


class _Accelerate(BaseModel):
    model_config = ConfigDict(extra="allow")

    distributed_type: Literal["NO", "MULTI_GPU", "FSDP", "DEEPSPEED"]
    num_processes: int = Field(ge=1)
    num_machines: int = Field(1, ge=1)
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    fsdp_config: dict[str, Any] = {}
    deepspeed_config: dict[str, Any] = {}


def read_launch(path: str | None) -> Launch:
    """Strategy, GPUs and nodes of an accelerate file; one process without a file. Raises ConfigError."""
    if path is None:
        return Launch(strategy="single", gpus=1)
    file = Path(path)
    try:
        told = _Accelerate.model_validate(read_yaml(file))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(f"{file}: {field}: {problem['msg']}: write it as accelerate config does") from None
    strategy: Strategy = "ddp" if told.num_processes > 1 else "single"
    if told.distributed_type == "FSDP":
        if told.fsdp_config.get("fsdp_version") != 2:
            raise ConfigError(f"{file}: fsdp_config.fsdp_version: the trainers are written for FSDP2: set it to 2")
        strategy = "fsdp2"
    elif told.distributed_type == "DEEPSPEED":
        strategy = _zero(told.deepspeed_config, file)
    elif (told.distributed_type == "MULTI_GPU") != (told.num_processes > 1):
        raise ConfigError(
            f"{file}: distributed_type {told.distributed_type} with num_processes {told.num_processes}: use MULTI_GPU for several"
        )
    return Launch(
        strategy=strategy,
        gpus=told.num_processes,
        nodes=told.num_machines,
        file=str(file),
        bf16=told.mixed_precision == "bf16",
    )


def _zero(section: Mapping[str, Any], file: Path) -> Strategy:
    stage = section.get("zero_stage")
    if name := section.get("deepspeed_config_file"):
        try:
            stage = json.loads(Path(name).read_text(encoding="utf-8"))["zero_optimization"]["stage"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{file}: deepspeed_config.deepspeed_config_file: {name} can't be read ({type(error).__name__}): "
                "start from the checkout's root, or correct the path"
            ) from None
    if stage not in (2, 3):
        raise ConfigError(f"{file}: deepspeed_config: ZeRO stage {stage!r}: the recipes use 2 or 3")
    return "zero2" if stage == 2 else "zero3"


def launched_sharded() -> bool:
    """Whether accelerate started this process with FSDP or DeepSpeed: then no process may touch weights alone."""
    return any(os.environ.get(name, "").lower() == "true" for name in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"))


def refuse_sharded_adapter() -> None:
    """Raise ConfigError for an adapter under FSDP or DeepSpeed."""
    if launched_sharded():
        raise ConfigError(
            "lora: an adapter is small and its frozen weights are bf16, so it is trained with whole weights on every GPU, not under "
            "FSDP or DeepSpeed: launch with a configs/accelerate/ddp_*.yaml, or train the weights themselves"
        )


def size_of(model: str, given: ModelSize | None) -> ModelSize:
    """The sizes that a config gives, or those of its model where it is at hand without a network. Raises ConfigError."""
    if given is not None:
        return given
    from envs.policies.smollm2 import NAMES, resolve_model

    source = Path(resolve_model(model) if model in NAMES else model).expanduser() / "config.json"
    try:
        return ModelSize.of(json.loads(source.read_text(encoding="utf-8")), str(source))
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"model_size: not given, and {source} can't be read ({type(error).__name__}): "
            "give the sizes of the model (see configs/gpu/) or a model folder that is there"
        ) from None
