"""Reward: quality first, cost second, and so that it stays true in expectation and after the advantage.

``A = q - mean(q) + [every episode of the group fully right] * eps * (s - mean(s))`` with ``eps`` a twentieth of the smallest step of
``q``. No division by a standard deviation: it would blow up a group whose episodes differ in cost alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from envs.chat import ChatML
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.tasks.base import Probe, Session

COST_SHARE = 0.05
"""``eps`` as a share of the smallest step of ``q``."""


def saving(reference: int, cost: int) -> float:
    """``clip(0.5 + 0.25 * log2(C_ref / C), 0, 1)``: 0.5 at the reference cost, a quarter more for every halving."""
    if reference <= 0 or cost <= 0:
        raise ValueError(f"token costs must be positive, got reference {reference} and cost {cost}")
    return min(1.0, max(0.0, 0.5 + 0.25 * math.log2(reference / cost)))


def advantages(
    q: Sequence[float], s: Sequence[float], fully_right: Sequence[bool], quality_step: float, cost_share: float = COST_SHARE
) -> list[float]:
    """Advantages of the episodes of one group (one probe or one session).

    Whatever ``cost_share``, quality alone orders the episodes of a group of which one is not fully right. What it moves is how much less
    often right a cheap habit may be over many groups and still be reinforced.
    """
    if not len(q) == len(s) == len(fully_right) or not q:
        raise ValueError(f"a group needs one q, s and verdict an episode, got {len(q)}, {len(s)} and {len(fully_right)}")
    mean_q, mean_s = sum(q) / len(q), sum(s) / len(s)
    eps = cost_share * quality_step if all(fully_right) else 0.0
    return [a - mean_q + eps * (b - mean_s) for a, b in zip(q, s, strict=True)]


def reference_cost(task: Probe | Session, chat: ChatML, profile: str = "core@1", prompt: str = "neutral") -> int:
    """``C_ref`` in tokens: the expert's business calls and replies under full history with the same prompt, plus the reads that the
    variant requires (call and evidence), input + output over all inferences.
    """
    plain = get_profile("plain@1")
    episode = Episode.from_probe(task, plain, chat) if isinstance(task, Probe) else Episode(task, plain, chat)
    system = get_profile(profile).system(prompt, episode.session.tools)
    extra = chat.count(system) - chat.count(episode.system)
    play([episode], Expert(chat))
    total = sum(i.tokens_in + extra + len(i.ids) for i in episode.inferences)
    if isinstance(task, Probe) and task.damaged_key:
        evidence = episode.ledger.evidence(task.damaged_key)
        total += sum(chat.count(f"read e{e}") + chat.count(episode.log.main(e).text) for e in evidence[:1])
    return total
