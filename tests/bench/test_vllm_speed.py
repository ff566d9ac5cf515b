"""What our way of asking vLLM costs beside vLLM asked directly, on the same prompts. ``make test-vllm`` prints the ratio.

Both sides sample SmolLM2 at temperature 1 with log-probabilities; repeats are interleaved, the prefix cache is emptied before each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

from envs.chat import ChatML
from envs.episode import Episode
from envs.policies.vllm import VLLMPolicy
from envs.profiles import get_profile
from envs.tasks import FAMILIES
from envs.tasks.probes import make_probes

REPEATS, PROMPTS, NEW = 5, 32, 32
pytestmark = [pytest.mark.bench, pytest.mark.real]


def test_throughput_beside_raw_vllm(capsys):
    from vllm import SamplingParams

    policy = VLLMPolicy("smollm2", max_new_tokens=NEW, temperature=1.0, max_model_len=2048)
    chat, core = ChatML(policy.tokenizer), get_profile("core@1")
    views = [
        Episode.from_probe(probe, core, chat).view().ids
        for seed in range(20) for family in sorted(FAMILIES) for probe in make_probes(family, seed, "static", chat) or ()
    ][:PROMPTS]  # fmt: skip
    prompts = [{"prompt_token_ids": ids} for ids in views]
    settings = SamplingParams(
        temperature=1.0, top_p=1.0, max_tokens=NEW, logprobs=0, seed=0, stop_token_ids=sorted(policy.stop_ids)
    )

    def raw() -> int:
        return sum(len(out.outputs[0].token_ids) for out in policy.llm.generate(prompts, settings, use_tqdm=False))

    def ours() -> int:
        return sum(len(turn.ids) for turn in policy.generate(views, return_logps=True, seeds=[str(i) for i in range(len(views))]))

    raw(), ours()  # the engine compiles on its first batches
    speeds: dict[str, list[float]] = {"raw": [], "ours": []}
    sides: list[tuple[str, Callable[[], int]]] = [("raw", raw), ("ours", ours)]
    for turn in range(REPEATS):
        for name, call in sides if turn % 2 else sides[::-1]:
            policy.llm.reset_prefix_cache()
            began = time.perf_counter()
            speeds[name].append(call() / (time.perf_counter() - began))
    ratio = statistics.median(speeds["ours"]) / statistics.median(speeds["raw"])
    with capsys.disabled():
        each = ", ".join(f"{name} {statistics.median(found):.1f} tokens/s" for name, found in speeds.items())
        print(
            f"\n{len(views)} prompts of {sum(map(len, views)) // len(views)} tokens, at most {NEW} new: {each}: ratio {ratio:.3f}"
        )
    policy.close()
    assert ratio >= 0.9
