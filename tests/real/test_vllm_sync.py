"""New weights in a colocated fp32 engine: its greedy outputs are those of the new weights, token for token (``make test-vllm``).

TRL's own engine rounds fp32 weights to half precision (tests/real/test_vllm_training.py measures what that leaves), so this one is made
as TRL makes its own, but in fp32, and handed to the sampler that training uses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

import rl_moving

from envs.chat import ChatML, Message
from envs.policies.hf import HFPolicy
from envs.policies.smollm2 import load_model, load_tokenizer
from envs.policies.vllm import LOGPROBS_MODE
from rl.engine import VLLMSampler

TOKENS = 16


@pytest.fixture(scope="module")
def trainer(tmp_path_factory) -> Iterator[SimpleNamespace]:
    from vllm import LLM

    folder = rl_moving.small(tmp_path_factory.mktemp("model"))
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ranks.items():
            patch.setitem(os.environ, name, value)
        llm = LLM(
            model=str(folder), dtype="float32", max_model_len=512, gpu_memory_utilization=0.2, logprobs_mode=LOGPROBS_MODE,
            distributed_executor_backend="external_launcher", max_num_batched_tokens=4096,
        )  # fmt: skip
        model = load_model(folder, dtype="float32", device="cpu")
        backend = SimpleNamespace(
            mode="colocate", llm=llm, tensor_parallel_size=1, enable_sleep_mode=False, temperature=0.0,
            _iter_named_params=lambda: ((name, p.data) for name, p in model.named_parameters()),
        )  # fmt: skip
        yield SimpleNamespace(
            model=model, vllm_generation=backend, _last_loaded_step=0, state=SimpleNamespace(global_step=0),
            accelerator=SimpleNamespace(device=torch.device("cpu")),
        )  # fmt: skip


def test_outputs_equal_those_of_the_new_weights(trainer):
    tokenizer = load_tokenizer("tiny")
    chat = ChatML(tokenizer)
    contexts = [chat.render([Message("user", f"What is the total of order {i}?")]) for i in range(8)]
    sampler = VLLMSampler(trainer, tokenizer, max_new_tokens=TOKENS, temperature=0.0)

    def theirs() -> list[list[int]]:
        return [turn.ids for turn in sampler.generate(contexts, [str(i) for i in range(len(contexts))])]

    def ours() -> list[list[int]]:
        return [t.ids for t in HFPolicy(trainer.model, tokenizer, max_new_tokens=TOKENS).generate(contexts)]

    old = ours()
    assert theirs() == old
    draw = torch.Generator().manual_seed(3)
    for step in (1, 2):
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw))
        new = ours()
        assert new != old
        assert theirs() == old  # no step has passed: nothing is sent
        trainer.state.global_step = step
        assert theirs() == new
        old = new
