"""QLoRA: the frozen weights in 4 bits (NF4, double quantisation), an fp32 adapter on them.

The final model is what was trained: the 4-bit weights as they compute, in fp32, plus the adapter. Merging the adapter into the original
weights would give another model than the one whose loss went down; merging it into 4 bits would round it away.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from envs.config import ConfigError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def require() -> None:
    """Raise ConfigError unless this machine can hold weights in 4 bits."""
    import torch

    other = "or set qlora to false, which trains the same adapter on bf16 weights"
    if not torch.cuda.is_available():
        raise ConfigError(f"qlora: true, but there is no CUDA device here: train on a GPU, {other}")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError(f"qlora: true, but the package bitsandbytes isn't installed: pip install -e '.[gpu]', {other}")


def settings() -> Any:
    """Transformers' quantisation config: NF4, double quantisation, bf16 products."""
    import torch
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16
    )


def load_4bit(name: str, attention: str | None = None, device: str | None = None) -> PreTrainedModel:
    """The model ``name`` with its linear layers in 4 bits, on this process's GPU. Raises ModelError."""
    import torch
    from transformers import AutoModelForCausalLM

    from envs.policies.smollm2 import ModelError, resolve_model

    source = resolve_model(name)
    # Quantised as it is loaded, so it must be loaded where it stays: each process its own copy.
    place = device or f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    extra = {"attn_implementation": attention} if attention else {}
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.bfloat16, quantization_config=settings(), device_map={"": place}, **extra
        )
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"model {name!r}: can't be loaded in 4 bits ({first}): check {source}") from error
    return model


def merged(model: PeftModel) -> PreTrainedModel:
    """The trained model in fp32: 4-bit weights taken back to what they compute, the adapter added."""
    import torch
    from peft import get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    adapter = model.peft_config["default"]
    weights = {name: value.detach().clone() for name, value in get_peft_model_state_dict(model).items()}
    base = model.unload().dequantize().to(torch.float32)
    whole = get_peft_model(base, adapter)
    set_peft_model_state_dict(whole, weights)
    return whole.merge_and_unload()
