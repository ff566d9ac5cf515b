"""How the rows of one pass are laid out, and which attention keeps them apart.

    tree     a CPU: shared prefixes once, exact masks (``sft.shared``)
    flat     a GPU with flash attention: rows end to end in one sequence, no padding, none sees another
    padded   else: rows of like length side by side, padded to the longest

Loss and gradient are the same in all three (tests/test_sft_packing.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from envs.config import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from sft.config import SFTStageConfig

Layout = Literal["tree", "flat", "padded"]
_OFF = "or set packing to off"


def layout(config: SFTStageConfig, use_cpu: bool) -> Layout:
    """What ``packing`` and ``share_prefix`` come to on this kind of machine. Raises ConfigError where packing isn't possible."""
    checkpointing = bool(config.trainer_settings.get("gradient_checkpointing"))
    if config.packing == "off":
        share = config.share_prefix if config.share_prefix is not None else use_cpu and not checkpointing
        return "tree" if share else "padded"
    if not use_cpu:
        if config.share_prefix:
            raise ConfigError("packing: auto packs flat on a GPU, share_prefix: true asks for a tree: leave share_prefix out")
        flash_attention()
        return "flat"
    if config.share_prefix is False:
        raise ConfigError(
            f"packing: auto packs by shared prefixes on a CPU, share_prefix is false: leave share_prefix out, {_OFF}"
        )
    if checkpointing:
        raise ConfigError(
            "packing: auto packs by shared prefixes on a CPU, which needs the keys and values that "
            f"trainer.gradient_checkpointing throws away: set that to false, {_OFF}"
        )
    return "tree"


def flash_attention() -> str:
    """Transformers' name of the flash attention that is installed for this GPU. Raises ConfigError if there is none.

    Other attentions would need a mask of (tokens of the pass)² for rows that lie end to end.
    """
    from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

    if is_flash_attn_3_available():
        return "flash_attention_3"
    if is_flash_attn_2_available():
        return "flash_attention_2"
    raise ConfigError(
        "packing: auto, but no flash attention is installed, and nothing else here keeps the rows of a packed pass apart: "
        f"pip install flash-attn --no-build-isolation, {_OFF}"
    )


def check_precision(half: bool) -> None:
    """Refuse flat packing in fp32. Raises ConfigError."""
    if not half:
        raise ConfigError(f"packing: auto, but flash attention computes in bf16 or fp16 only: set trainer.bf16 to true, {_OFF}")


def check_flat(model: PreTrainedModel, name: str) -> None:
    """Refuse a model whose layers would mix the rows of a flat pass. Raises ConfigError."""
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])
    mixing = sorted(kinds - {"full_attention", "sliding_attention"})
    if mixing:
        raise ConfigError(
            f"packing: auto, but {name!r} has layers of kind {', '.join(mixing)}, which carry one row into the next: set packing to off"
        )
    if not model._supports_flash_attn:
        raise ConfigError(f"packing: auto, but {name!r} can't run with flash attention: set packing to off")
