"""The arithmetic of memory: parameters against the real classes, kept tensors against autograd, parts by strategy."""

from __future__ import annotations

import itertools

import pytest
import torch

from envs.config import ConfigError
from envs.hardware import ModelSize
from envs.memory import GIB, Sampling, Work, kept_by_block, parts, peak

QWEN3 = {
    "0.6B": ({"layers": 28, "hidden": 1024, "intermediate": 3072, "heads": 16, "kv_heads": 8, "tied": True}, 596_049_920),
    "1.7B": ({"layers": 28, "hidden": 2048, "intermediate": 6144, "heads": 16, "kv_heads": 8, "tied": True}, 1_720_574_976),
    "4B": ({"layers": 36, "hidden": 2560, "intermediate": 9728, "heads": 32, "kv_heads": 8, "tied": True}, 4_022_468_096),
    "8B": ({"layers": 36, "hidden": 4096, "intermediate": 12288, "heads": 32, "kv_heads": 8, "tied": False}, 8_190_735_360),
}


def qwen3(name: str) -> ModelSize:
    return ModelSize(head_dim=128, vocab=151_936, qk_norm=True, **QWEN3[name][0])


@pytest.mark.parametrize("name", QWEN3)
def test_parameters_are_those_of_the_class_and_the_published_ones(name):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    size = qwen3(name)
    config = Qwen3Config(
        num_hidden_layers=size.layers, hidden_size=size.hidden, intermediate_size=size.intermediate, num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads, head_dim=size.head_dim, vocab_size=size.vocab, tie_word_embeddings=size.tied,
    )  # fmt: skip
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model.tie_weights()
    assert sum(p.numel() for p in model.parameters()) == size.params == QWEN3[name][1]
    assert ModelSize.of(config.to_dict(), "here") == size


def test_an_adapter_is_as_large_as_pefts():
    from peft import LoraConfig, get_peft_model

    size, model = tiny("qwen3", 2)
    model = get_peft_model(model, LoraConfig(r=5, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert model.get_nb_trainable_parameters()[0] == size.adapter(5)


def tiny(kind: str, layers: int):
    import transformers as t

    config, model = (t.Qwen3Config, t.Qwen3ForCausalLM) if kind == "qwen3" else (t.LlamaConfig, t.LlamaForCausalLM)
    made = config(
        num_hidden_layers=layers, vocab_size=64, hidden_size=32, intermediate_size=77, num_attention_heads=4, num_key_value_heads=2,
        head_dim=22, tie_word_embeddings=True,
    )  # fmt: skip
    return ModelSize.of(made.to_dict(), "here"), model(made)


def kept(kind: str, layers: int, half: bool, rank: int, tokens: int) -> tuple[ModelSize, int]:
    """Bytes of all tensors with ``tokens`` rows that autograd keeps of a forward pass; weights' copies aren't among them."""
    size, model = tiny(kind, layers)
    if rank:
        from peft import LoraConfig, get_peft_model

        model = model.to(torch.bfloat16) if half else model
        model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM"))
        for name, p in model.named_parameters():
            p.data = p.data.float() if "lora" in name else p.data
        model = model.get_base_model()
    found: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tokens in tensor.shape:
            found.setdefault(tensor.untyped_storage().data_ptr(), tensor)  # held, so that no other takes its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), torch.autocast("cpu", torch.bfloat16, enabled=half):
        model.base_model(input_ids=torch.arange(tokens)[None], use_cache=False)
    return size, sum(t.untyped_storage().nbytes() for t in found.values())


@pytest.mark.parametrize(("kind", "half", "rank"), list(itertools.product(("llama", "qwen3"), (False, True), (0, 5))))
def test_kept_bytes_of_a_block_are_autograds(kind, half, rank):
    tokens = 13  # no width of the model
    size, two = kept(kind, 2, half, rank, tokens)
    _, three = kept(kind, 3, half, rank, tokens)
    assert three - two == kept_by_block(size, half, rank, low_base=half and bool(rank)) * tokens


def work(**more) -> Work:
    return Work(
        **{"size": qwen3("8B"), "device": "cuda", "tokens": 8192, "scored": 8192, "half": True, "checkpointing": True, **more}
    )


def largest(given: Work, name: str) -> float:
    return max(parts(given)[name].values()) / GIB


def test_full_training_takes_sixteen_bytes_a_parameter_on_one_gpu():
    table = parts(work(passes=2))
    told = {name: max(table[name].values()) / work().size.params for name in ("weights", "gradients", "optimizer")}
    assert told == {"weights": 4, "gradients": 4, "optimizer": 8}
    assert peak(table)[0] > 16 * work().size.params


def test_strategies_cut_what_they_cut():
    n = 8
    params = work().size.params / GIB
    fsdp2, zero2, zero3, ddp = (work(strategy=s, gpus=n) for s in ("fsdp2", "zero2", "zero3", "ddp"))
    for name, whole in (("weights", 4), ("gradients", 4), ("optimizer", 8)):
        assert largest(ddp, name) == pytest.approx(whole * params)
        assert largest(fsdp2, name) == pytest.approx(whole * params / n)
    assert largest(ddp, "communication") == pytest.approx(4 * params)
    assert largest(zero2, "weights") == pytest.approx(2 * params)
    assert largest(zero3, "weights") == pytest.approx(2 * params / n)
    for given in (zero2, zero3):
        assert largest(given, "fp32 weights") == pytest.approx(4 * params / n)
        assert largest(given, "optimizer") == pytest.approx(8 * params / n)
    assert "bf16 copies" in parts(ddp)
    assert "bf16 copies" not in parts(fsdp2)


def test_an_adapter_leaves_gradients_and_optimizer_small():
    table = parts(work(base=2, rank=32))
    assert max(table["weights"].values()) == 2 * work().size.params
    for name in ("adapter", "gradients", "optimizer"):
        assert max(table[name].values()) < 0.08 * max(table["weights"].values())


def test_checkpointing_keeps_one_stream_a_block():
    with_, without = (largest(work(checkpointing=c), "activations") for c in (True, False))
    assert with_ < without / 8


def test_a_sleeping_engine_is_gone_while_training():
    table = parts(work(vllm_gib=24.0, vllm_sleeps=True))["vLLM"]
    assert table == {"sample": 24 * GIB, "forward": 0.0, "backward": 0.0}
    assert min(parts(work(vllm_gib=24.0))["vLLM"].values()) == 24 * GIB


def test_keys_and_values_follow_rows_and_kept_tokens():
    size = qwen3("8B")
    a, b = (largest(work(sampling=Sampling(rows, 1000, 96, kept=500)), "keys and values") for rows in (1, 3))
    token = 2 * size.layers * size.kv * 2
    assert a * GIB == pytest.approx(token * (1096 + 500))
    assert b * GIB == pytest.approx(token * (3 * 1096 + 500))


def test_a_cpu_process_keeps_what_it_freed():
    table = parts(work(device="cpu", half=False, checkpointing=False, mask=4096**2))
    assert peak(table)[1] == "training"
    assert peak(table)[0] == sum(max(part["forward"], part["backward"]) for part in table.values())
    assert peak(table)[0] > max(sum(part[p] for part in table.values()) for p in ("forward", "backward"))


def test_an_optimizer_that_isnt_known_is_refused():
    with pytest.raises(ConfigError, match=r"trainer.optim: the memory of 'lion_32bit' isn't known here"):
        parts(work(optimizer="lion_32bit"))


def test_other_shapes_of_model_are_refused():
    with pytest.raises(ConfigError, match="model_type 'gpt2' isn't planned for"):
        ModelSize.of({"model_type": "gpt2"}, "config.json")
