"""What the GRPO subclass relies on in TRL; a release that moves any of it must fail here, not train wrongly."""

from __future__ import annotations

import inspect

import trl
from trl import GRPOConfig, GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from envs.config import ConfigError

TRL_VERSION = "1.16.0"
SIGNATURES: dict[str, tuple[str, ...]] = {
    "_generate": ("self", "prompts"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_generate_single_turn": ("self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images"),
    "_prepare_inputs": ("self", "generation_batch"),
    "_compute_loss": ("self", "model", "inputs"),
    "_get_per_token_logps_and_entropies": (
        "self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy", "compute_aux_loss",
        "pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles", "image_sizes",
        "token_type_ids", "mm_token_type_ids", "image_position_ids",
    ),
}  # fmt: skip
"""Parameters of the methods that the subclass overrides or calls."""


VLLM_SIGNATURES: dict[str, tuple[str, ...]] = {"sync_weights": ("self",), "_init_vllm": ("self",)}
"""Of TRL's ``VLLMGeneration``, whose engine and weight sync ``rl/engine.py`` takes."""
VLLM_STATE = ("mode", "llm", "enable_sleep_mode", "_llm_weights_sleeping", "tensor_parallel_size", "server_base_url")
"""Its attributes that are read; they are set in its own code."""


def check_vllm_contract(base: type = VLLMGeneration) -> None:
    """Raise RuntimeError unless TRL's vLLM backend is as ``rl/engine.py`` takes it."""
    _check_signatures(base, VLLM_SIGNATURES, "VLLMGeneration", "rl/engine.py")
    source = inspect.getsource(base)
    if gone := [name for name in VLLM_STATE if f"self.{name} = " not in source]:
        raise RuntimeError(f"trl {trl.__version__}: VLLMGeneration no longer sets {gone[0]}: rl/engine.py must be revised")


def check_contract(version: str = trl.__version__, base: type = GRPOTrainer) -> None:
    """Raise RuntimeError unless TRL is the version the subclass was written for, with its methods unmoved."""
    if version != TRL_VERSION:
        raise RuntimeError(f"trl {version} is installed, but rl/trainer.py is written for {TRL_VERSION}: install that one")
    _check_signatures(base, SIGNATURES, "GRPOTrainer", "rl/trainer.py")


def _check_signatures(base: type, signatures: dict[str, tuple[str, ...]], label: str, who: str) -> None:
    for name, expected in signatures.items():
        method = getattr(base, name, None)
        found = tuple(inspect.signature(inspect.unwrap(method)).parameters) if method else ()
        if found != expected:
            raise RuntimeError(f"trl {trl.__version__}: {label}.{name} takes {found}, not {expected}: {who} must be revised")


def check_args(args: GRPOConfig) -> None:
    """Raise ConfigError for settings under which the rows of an episode would not be weighed or trained together."""
    expected = {
        "loss_type": "dapo",
        "scale_rewards": "none",
        "num_iterations": 1,
        "importance_sampling_level": "token",
        "mask_truncated_completions": False,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "shuffle_dataset": False,
        "remove_unused_columns": False,
        "steps_per_generation": args.gradient_accumulation_steps,
        "reward_weights": [1.0, 0.0],
    }
    for name, value in expected.items():
        if getattr(args, name) != value:
            raise ConfigError(f"trainer.{name}: {getattr(args, name)!r} doesn't train episodes: must be {value!r}")
    if args.use_vllm and not args.vllm_importance_sampling_mode.startswith("token_"):
        raise ConfigError(
            f"trainer.vllm_importance_sampling_mode: {args.vllm_importance_sampling_mode!r} weighs rows, and a row is not an "
            "episode: use token_truncate or token_mask"
        )
