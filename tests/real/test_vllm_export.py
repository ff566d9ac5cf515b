"""An exported run in vLLM: a short run with an adapter, merged, loaded and asked (``make test-vllm``)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

import rl_moving

from envs.chat import ChatML, Message
from envs.policies.hf import HFPolicy
from envs.policies.smollm2 import load_model, load_tokenizer
from envs.policies.vllm import VLLMPolicy
from rl.export import export
from rl.run import run

TOKENS = 12


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("run")
    settings = {"model": str(rl_moving.small(home / "start")), "steps": 1, "lora": {"r": 4, "init_lora_weights": False}}
    with pytest.MonkeyPatch.context() as patch:
        rl_moving.patch(patch)
        run(rl_moving.config(rl_moving.write_probes(home / "probes.jsonl"), home / "rl", **settings), progress=False)
    return export(home / "rl", home / "export", dtype="float32")[0]


def test_vllm_answers_with_the_exported_weights_and_not_with_the_start(exported):
    chat = ChatML(load_tokenizer(exported))
    contexts = [chat.render([Message("user", text)]) for text in ("Say hi.", "The cap is 9000. What is the cap?", "7 + 5?")]
    engine = VLLMPolicy(exported, max_new_tokens=TOKENS, dtype="float32", max_model_len=512)
    try:
        theirs = [t.ids for t in engine.generate(contexts)]
        # vLLM's own chat call renders with the template that the export carries.
        spoken = engine.llm.llm_engine.tokenizer.apply_chat_template(
            [{"role": "user", "content": "Say hi."}], add_generation_prompt=True, return_dict=False
        )
    finally:
        engine.close()

    def ours(folder: Path) -> list[list[int]]:
        model = load_model(folder, dtype="float32", device="cpu")
        return [t.ids for t in HFPolicy(model, chat.tokenizer, max_new_tokens=TOKENS).generate(contexts)]

    assert theirs == ours(exported)
    assert theirs != ours(exported.parent / "start")
    assert list(spoken) == contexts[0]
