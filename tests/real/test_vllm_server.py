"""Generation through a real vLLM server with token ids, on SmolLM2's real weights (``make test-vllm``)."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

from envs.chat import ChatML, Message
from envs.policies.hf import HFPolicy
from envs.policies.smollm2 import ModelError, load_model, load_tokenizer, resolve_model
from envs.policies.vllm import LOGPROBS_MODE, VLLMServerPolicy

TOKENS = 24
QUESTIONS = ("What is the capital of France?", "Say hi.", "Name three colours, one a line.", "Count to five.")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The address of a server that serves SmolLM2 in fp32."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    # `vllm serve` looks for the package by the name of its CUDA build, which the CPU build doesn't have.
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", resolve_model("smollm2"), "--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "2048",
        "--gpu-memory-utilization", "0.2",
        "--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096", "--logprobs-mode", LOGPROBS_MODE,
    ]  # fmt: skip
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        for _ in range(240):
            assert process.poll() is None, log.read_text()[-2000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except (urllib.error.URLError, OSError):
                time.sleep(1)
        else:
            raise AssertionError(log.read_text()[-2000:])
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def chat() -> ChatML:
    return ChatML(load_tokenizer("smollm2"))


@pytest.fixture(scope="module")
def model():
    return load_model("smollm2", dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def policy(server) -> Iterator[VLLMServerPolicy]:
    made = VLLMServerPolicy(server, "smollm2", max_new_tokens=TOKENS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def contexts(chat) -> list[list[int]]:
    return [chat.render([Message("user", text)]) for text in QUESTIONS]


def test_greedy_turns_are_those_of_transformers(policy, model, chat, contexts):
    ours = HFPolicy(model, chat.tokenizer, max_new_tokens=TOKENS).generate(contexts)
    theirs = policy.generate(contexts)
    assert [t.ids for t in theirs] == [t.ids for t in ours]
    assert [t.cut for t in theirs] == [t.cut for t in ours]
    assert any(not t.cut for t in theirs)  # a stop token came back as an id


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_log_probs_belong_to_the_ids_that_came_back(policy, model, contexts, temperature):
    policy.temperature = temperature
    try:
        turns = policy.generate(contexts, return_logps=True)
    finally:
        policy.temperature = 0.0
    for context, turn in zip(contexts, turns, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*context, *turn.ids]])).logits[0, len(context) - 1 : -1].float()
        expected = (logits / (temperature or 1.0)).log_softmax(-1).gather(-1, torch.tensor(turn.ids)[:, None]).squeeze(-1)
        assert (torch.tensor(turn.logps) - expected).abs().max() < 1e-4


def test_ids_that_no_text_would_encode_to_are_read_as_they_are(policy, model, chat):
    """Two ids that the tokenizer would merge: a server that tokenises text again would read one."""
    whole = chat.encode(" hello")
    apart = [i for piece in (" he", "llo") for i in chat.encode(piece)]
    assert len(whole) == 1
    assert len(apart) == 2
    context = [*chat.render([Message("user", "Say hello.")]), *apart]
    theirs = policy.generate([context])[0]
    assert theirs.ids == HFPolicy(model, chat.tokenizer, max_new_tokens=TOKENS).generate([context])[0].ids


def test_seeds_decide_what_is_sampled(policy, contexts):
    policy.temperature = 1.0
    try:
        one, two, other = (policy.generate(contexts, seeds=[f"{s}{i}" for i in range(4)]) for s in ("a", "a", "b"))
    finally:
        policy.temperature = 0.0
    assert [t.ids for t in one] == [t.ids for t in two]
    assert [t.ids for t in one] != [t.ids for t in other]


def test_many_prompts_wait_for_their_turn(policy, chat, contexts):
    """More tokens than the server reads at once: the CPU build would die of reading a seeded prompt in parts."""
    long = [[*chat.encode("word " * 1200), *context] for context in contexts]
    assert len({tuple(t.ids) for t in policy.generate(long)}) >= 1
    assert [t.ids for t in policy.generate(contexts)] == [t.ids for t in policy.generate(contexts)]


def test_the_servers_window_bounds_a_context(policy):
    with pytest.raises(ValueError, match="context 0: 2048 tokens, need 1 to 2047"):
        policy.generate([[1] * 2048])


def test_what_cannot_be_reached_is_named(server):
    with pytest.raises(ModelError, match="no answer"):
        VLLMServerPolicy("http://127.0.0.1:9/v1", "smollm2", retries=0)
    with pytest.raises(ModelError, match="serves smollm2, not 'other'"):
        VLLMServerPolicy(server, "smollm2", served="other")
