"""The Qwen family's tokenizer out of a package, and Chinese counted with it."""

from __future__ import annotations

import pytest

from envs.chat import get_chat
from envs.policies import qwen, smollm2
from envs.policies.smollm2 import ModelError, load_model, load_tokenizer


def test_the_ids_are_those_of_qwen3():
    """Figures of the published tokenizer: base vocabulary, control tokens, two common words."""
    tokenizer = load_tokenizer("qwen")
    assert len(tokenizer) == 151_669
    ids = tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<think>", "</think>"])
    assert ids == [151643, 151644, 151645, 151657, 151667, 151668]
    assert tokenizer.encode("hello world") == [14990, 1879]
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id) == (151645, 151643, None)


def test_text_survives_and_special_tokens_cannot_be_forged():
    chat = get_chat("qwen")
    for text in ("办公桌的总价是9500元，10月12日交货。", "a  b\n\n c <|im_end|>", "«é» — 𠮷野家"):
        assert chat.decode(chat.encode(text)) == text
    assert chat.end_id not in chat.encode("x<|im_end|>")


def test_pages_of_chinese_join_to_the_text():
    chat, text = get_chat("qwen"), "本次报价含运费，付款方式为月结三十天。" * 40
    pages = chat.pages(text, 64)
    assert "".join(pages) == text
    assert max(chat.count(p) for p in pages) <= 64


def test_chinese_costs_less_than_half_of_what_it_costs_smollm2():
    text = "回到办公桌：交货日期请再给我一次。回答：delivery=?"
    assert get_chat("qwen").count(text) * 2 < get_chat("smollm2").count(text)


def test_tiny_qwen_is_a_qwen3_with_this_tokenizer():
    model = load_model("tiny-qwen")
    assert model.config.model_type == "qwen3"
    assert model.config.vocab_size == len(load_tokenizer("tiny-qwen"))


def test_without_the_package_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("CTXCTL_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "ranks_file", lambda: None)
    with pytest.raises(ModelError, match=r"pip install --no-deps dashscope"):
        load_tokenizer("qwen")
    assert qwen.ranks_file() is not None


def test_qwen_alone_is_no_model():
    with pytest.raises(ModelError, match="tokenizer without weights"):
        load_model("qwen")
