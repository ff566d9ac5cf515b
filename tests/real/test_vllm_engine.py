"""vLLM's engine in this process behind the interface of the transformers one, on SmolLM2's real weights (``make test-vllm``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

from envs.chat import ChatML
from envs.episode import Episode, play
from envs.policies.hf import HFPolicy
from envs.policies.smollm2 import ModelError, load_model, load_tokenizer
from envs.policies.vllm import VLLMPolicy
from envs.profiles import get_profile
from envs.tasks.probes import make_probes

TOKENS = 24


@pytest.fixture(scope="module")
def chat() -> ChatML:
    return ChatML(load_tokenizer("smollm2"))


@pytest.fixture(scope="module")
def engine() -> Iterator[VLLMPolicy]:
    made = VLLMPolicy("smollm2", max_new_tokens=TOKENS, dtype="float32", max_model_len=2048)
    yield made
    made.close()


@pytest.fixture(scope="module")
def model():
    return load_model("smollm2", dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def contexts(chat) -> list[list[int]]:
    """First views of probes of several families."""
    core, found = get_profile("core@1"), []
    for family in ("support", "procurement", "release"):
        probes = next(p for seed in range(40) if (p := make_probes(family, seed, "static", chat)))
        found += [Episode.from_probe(p, core, chat).view().ids for p in probes]
    return found


def forward_logps(model, context, ids, temperature=1.0) -> torch.Tensor:
    """Log-probabilities of ``ids`` after ``context`` by one pass of transformers."""
    with torch.inference_mode():
        logits = model(torch.tensor([[*context, *ids]])).logits[0, len(context) - 1 : -1].float() / temperature
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None]).squeeze(-1)


def test_greedy_turns_are_those_of_transformers(engine, model, chat, contexts):
    theirs = engine.generate(contexts)
    ours = HFPolicy(model, chat.tokenizer, max_new_tokens=TOKENS).generate(contexts)
    assert [t.ids for t in theirs] == [t.ids for t in ours]
    assert [t.cut for t in theirs] == [t.cut for t in ours]
    assert theirs[0].logps is None


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_log_probs_are_those_of_the_sampled_ids(engine, model, contexts, temperature):
    engine.temperature = temperature
    try:
        turns = engine.generate(contexts, return_logps=True)
    finally:
        engine.temperature = 0.0
    for context, turn in zip(contexts, turns, strict=True):
        assert len(turn.logps) == len(turn.ids)
        expected = forward_logps(model, context, turn.ids, temperature or 1.0)
        assert (torch.tensor(turn.logps) - expected).abs().max() < 1e-4


def test_each_context_draws_from_its_own_stream(engine, contexts):
    engine.temperature = 1.0
    try:
        seeds = [f"s{i}" for i in range(len(contexts))]
        together = engine.generate(contexts, seeds=seeds)
        alone = [engine.generate([c], seeds=[s])[0] for c, s in zip(contexts, seeds, strict=True)]
        others = engine.generate(contexts, seeds=[s + "x" for s in seeds])
    finally:
        engine.temperature = 0.0
    assert [t.ids for t in together] == [t.ids for t in alone]
    assert [t.ids for t in together] != [t.ids for t in others]


def test_a_turn_ends_at_its_stop_token_or_at_the_cap(engine, chat, contexts):
    short = engine.generate(contexts, max_new_tokens=3)
    assert all(t.cut and len(t.ids) == 3 for t in short if t.ids[-1] not in engine.stop_ids)
    ended = engine.generate([chat.render([]) + list(chat.encode("Yes."))], max_new_tokens=TOKENS)[0]
    assert ended.cut == (ended.ids[-1] != chat.end_id)
    assert chat.end_id not in ended.ids[:-1]


def test_contexts_that_do_not_fit_are_refused(engine):
    with pytest.raises(ValueError, match="context 1: 2048 tokens, need 1 to 2047"):
        engine.generate([[1], [1] * 2048])
    with pytest.raises(ValueError, match="context 0: 0 tokens"):
        engine.generate([[]])


def test_more_tokens_than_are_read_at_once(engine, chat):
    """vLLM's CPU build dies of a seeded prompt that it reads in parts; prompts are read whole here."""
    many = [list(chat.encode(f"number {i} " + "word " * 1500)) for i in range(14)]
    assert sum(map(len, many)) > 16_384
    assert len(engine.generate(many, max_new_tokens=2)) == 14


def test_a_growing_view_is_read_once(engine, chat, contexts):
    """The engine's prefix cache is on: what a longer view repeats is not computed again."""
    engine.llm.reset_prefix_cache()
    from vllm import SamplingParams

    first = engine.llm.generate([{"prompt_token_ids": contexts[0]}], SamplingParams(max_tokens=1), use_tqdm=False)[0]
    again = engine.llm.generate(
        [{"prompt_token_ids": contexts[0] + list(chat.encode(" and more"))}], SamplingParams(max_tokens=1), use_tqdm=False
    )[0]
    assert (first.num_cached_tokens or 0) == 0
    assert again.num_cached_tokens > len(contexts[0]) // 2


def test_an_evaluation_arm_gives_the_same_scores(engine, model, chat):
    """The same probes played through both engines, greedy, in the same precision."""
    from envs.scoring import score
    from eval.policies import ModelPolicy

    core = get_profile("core@1")
    probes = next(p for seed in range(40) if (p := make_probes("support", seed, "static", chat)))
    found = []
    for policy in (engine, HFPolicy(model, chat.tokenizer, max_new_tokens=TOKENS)):
        episodes = [Episode.from_probe(p, core, chat) for p in probes]
        play(episodes, ModelPolicy(policy, chat, 0))
        found.append([score(e.trajectory("arm")) for e in episodes])
    assert found[0] == found[1]


def test_a_model_that_vllm_cannot_load_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["NoSuchModel"], "model_type": "nothing"}')
    with pytest.raises(ModelError, match="vLLM can't load it"):
        VLLMPolicy(str(tmp_path), load_tokenizer("smollm2"))
