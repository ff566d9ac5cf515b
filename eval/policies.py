"""An arm's policy: a scripted one, or a transformers model behind ``act(views)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envs.chat import ChatML
from envs.policies.base import Policy, Sampled, View
from envs.policies.scripted import SCRIPTED
from envs.profiles import Profile
from envs.trajectory import view_hash
from eval.config import Arm, EvalConfig

if TYPE_CHECKING:
    from envs.policies.hf import HFPolicy


class ModelPolicy:
    """A model that acts on views: the view's ids in, exactly the sampled ids out."""

    def __init__(self, model: HFPolicy, chat: ChatML, seed: int) -> None:
        self.model, self.chat, self.seed = model, chat, seed

    def act(self, views: Sequence[View]) -> list[Sampled]:
        # Seeded by what is read, so that neither the batch nor a resumed run changes what is sampled.
        turns = self.model.generate([v.ids for v in views], seeds=[f"{self.seed}/{view_hash(v.ids)}" for v in views])
        return [Sampled(tuple(t.ids), self.chat.decode(t.ids), t.cut) for t in turns]


def make_policy(arm: Arm, config: EvalConfig, chat: ChatML, profile: Profile) -> Policy:
    """The policy of an arm, ready to act. ``chat`` is the arm's own (its tokenizer). Raises ModelError."""
    if arm.policy != "hf":
        return SCRIPTED[arm.policy](chat, profile.view_budget)
    from envs.policies.hf import HFPolicy  # torch only where a model plays

    decoding = config.decoding
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
