"""An arm's policy: a scripted one, a transformers model or a served one, behind ``act(views)``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from envs.chat import ChatML
from envs.policies.base import Policy, Sampled, View
from envs.policies.flawed import FLAWED
from envs.policies.scripted import SCRIPTED
from envs.policies.unified import UnifiedExpert
from envs.profiles import Profile
from envs.trajectory import view_hash
from eval.config import Arm, Decoding, Requests

REPEAT_STEP = 1_000_003
"""Between the seeds of two repeats: more than between those that two evaluations are given."""

if TYPE_CHECKING:
    from envs.policies.hf import HFPolicy
    from envs.policies.vllm import VLLMPolicy, VLLMServerPolicy


class ModelPolicy:
    """A model that acts on views: the view's ids in, exactly the sampled ids out."""

    def __init__(self, model: HFPolicy | VLLMPolicy | VLLMServerPolicy, chat: ChatML, seed: int) -> None:
        self.model, self.chat, self.seed = model, chat, seed

    def act(self, views: Sequence[View]) -> list[Sampled]:
        # Seeded by what is read, so that neither the batch nor a resumed run changes what is sampled.
        turns = self.model.generate([v.ids for v in views], seeds=[f"{self.seed}/{view_hash(v.ids)}" for v in views])
        return [Sampled(tuple(t.ids), self.chat.decode(t.ids), t.cut) for t in turns]

    def close(self) -> None:
        """Stop what the model holds beside this process's memory: vLLM's engine, or connections."""
        getattr(self.model, "close", lambda: None)()


def for_repeat(policy: Policy, repeat: int) -> Policy:
    """The same policy drawing from the random streams of a repeat: same weights, another seed. A script has none: it says the same again."""
    if not repeat or not hasattr(policy, "seed"):
        return policy
    other = copy.copy(policy)
    other.seed = policy.seed + REPEAT_STEP * repeat
    return other


def close(made: list[Policy]) -> None:
    """Let go of the policies of an arm that is over: their engines, connections and memory."""
    for policy in made:
        getattr(policy, "close", lambda: None)()
    made.clear()


class Sampling(Protocol):
    """What of a config decides how a model samples (``EvalConfig``, the settings of the seed suites)."""

    @property
    def decoding(self) -> Decoding: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def reuse_tokens(self) -> int: ...


def make_policy(arm: Arm, config: Sampling, chat: ChatML, profile: Profile) -> Policy:
    """The policy of an arm, ready to act. ``chat`` is the arm's own (its tokenizer), ``profile`` the rules it plays under.

    Raises ModelError, and ValueError for a script: its suite makes one for every episode.
    """
    if arm.policy == "script":
        raise ValueError("a script plays one episode: its suite makes it")
    if arm.policy == "expert" and profile.windows:
        return UnifiedExpert(chat, profile)
    if arm.policy == "openai":
        return _served(arm, config, chat)
    decoding = config.decoding
    if arm.policy == "vllm":
        from envs.policies.vllm import VLLMPolicy

        engine = VLLMPolicy(
            arm.model,
            chat.tokenizer,
            max_new_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            seed=decoding.seed,
            dtype=decoding.dtype,
        )
        return ModelPolicy(engine, chat, decoding.seed)
    if arm.policy != "hf":
        return {**SCRIPTED, **FLAWED}[arm.policy](chat, profile.view_budget)
    from envs.policies.hf import HFPolicy  # torch only where a model plays

    model = HFPolicy(
        arm.model,
        max_new_tokens=decoding.max_new_tokens,
        temperature=decoding.temperature,
        seed=decoding.seed,
        batch_size=config.batch_size,
        dtype=decoding.dtype,
        reuse_tokens=config.reuse_tokens,
    )
    return ModelPolicy(model, chat, decoding.seed)


def _served(arm: Arm, config: Sampling, chat: ChatML) -> Policy:
    """The policy of an ``openai`` arm. Raises ModelError where a server of ids doesn't answer."""
    decoding, requests = config.decoding, arm.requests or Requests()
    settings: dict[str, Any] = {
        "max_new_tokens": decoding.max_new_tokens, "temperature": decoding.temperature, "seed": decoding.seed,
        "concurrency": requests.concurrency or config.batch_size, "timeout": requests.timeout, "retries": requests.retries,
        "backoff": requests.backoff, "api_key_env": arm.api_key_env or "OPENAI_API_KEY",
    }  # fmt: skip
    if arm.endpoint == "ids":
        from envs.policies.vllm import VLLMServerPolicy

        server = VLLMServerPolicy(arm.base_url or "", tokenizer=chat.tokenizer, served=arm.served_model, **settings)
        return ModelPolicy(server, chat, decoding.seed)
    from envs.policies.openai import OpenAIPolicy

    return OpenAIPolicy(chat, base_url=arm.base_url or "", model=arm.served_model or "", **settings)
