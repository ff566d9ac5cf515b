"""Every arm plays the same probes and sessions; a run killed at any moment goes on where it was.

Episodes are appended to ``<out>/arms/<arm>/episodes.jsonl`` (one Trajectory a line, exact inputs included) after each lock-step
batch: see ``eval.player``. ``--shard`` plays a part into a folder of its own: see ``eval.store``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from envs.chat import ChatML, get_chat
from envs.config import UserError
from envs.episode import Episode
from envs.managers import get_manager
from envs.policies.base import Policy
from envs.profiles import Profile
from envs.runs import hash_obj
from envs.tasks.base import Probe, Session
from envs.trajectory import Trajectory
from eval.config import Arm, EvalConfig
from eval.freeze import Lock, check_play, load_samples
from eval.player import Job, Played, Sample, play_job
from eval.policies import REPEAT_STEP, close, for_repeat, make_policy
from eval.score import check_arm
from eval.store import Key, Shard


def run(config: EvalConfig, arms: Sequence[str] | None = None, shard: str | None = None) -> dict[str, Played]:
    """Play what is owed by every arm (or by ``arms``), or of the part that ``shard`` names (``"2/8"``).

    Raises LockError when anything is not as frozen, UserError for what can't be played.
    """
    part = Shard.parse(shard) if shard else None
    lock = check_play(config)
    names = chosen_arms(config, arms)
    for name in names:
        check_arm(config, name, lock)
    return {name: play_job(_job(config, name, lock, part)) for name in names}


def chosen_arms(config: EvalConfig, arms: Sequence[str] | None) -> list[str]:
    """``arms``, or all of the config. Raises UserError."""
    for name in arms or ():
        if name not in config.arms:
            raise UserError(f"arm {name!r}: not in the config: use one of {', '.join(config.arms)}")
    return list(dict.fromkeys(arms)) if arms else list(config.arms)


def samples_of(config: EvalConfig, name: str, chat: ChatML) -> list[Sample]:
    """What an arm plays, in order: probes, then sessions, then both again for every further repeat."""
    probes, sessions = load_samples(config)
    items: list[tuple[str, Probe | Session]] = [*(("probe", p) for p in probes), *(("session", s) for s in sessions)]
    arm = config.arms[name]
    profile = profile_of(arm)
    return [
        Sample((source, item.id, repeat), hash_obj(item), _maker(item, arm, profile, chat), _recorder(name, repeat))
        for repeat in range(config.repeats)
        for source, item in items
    ]


def profile_of(arm: Arm) -> Profile:
    """The rules that an arm plays under."""
    profile = arm.rules
    return replace(profile, view_budget=arm.view_budget) if arm.view_budget else profile


def chat_of(config: EvalConfig, name: str) -> ChatML:
    """The chat writer of an arm."""
    return get_chat(config.arms[name].model or config.tokenizer)


def key_of_line(line: dict[str, Any]) -> Key:
    """The key of a stored episode, from its JSON."""
    source, sample = ("probe", line["probe"]) if line["probe"] else ("session", line["session"]["id"])
    return (source, sample, line.get("repeat", 0))


def _job(config: EvalConfig, name: str, lock: Lock, shard: Shard | None) -> Job:
    arm, chat = config.arms[name], chat_of(config, name)
    prefix = f"backbone.{name}."
    made: list[Policy] = []

    def policy(batch: Sequence[Sample]) -> Policy:
        if not made:  # weights are loaded only where something is owed
            made.append(make_policy(arm, config, chat, profile_of(arm)))
        return for_repeat(made[0], batch[0].key[2])

    meta = {
        "lock": lock.lock,
        "arm": name,
        "settings": arm.model_dump(mode="json"),
        "decoding": config.decoding.model_dump(mode="json"),
        "seeds": [config.decoding.seed + REPEAT_STEP * repeat for repeat in range(config.repeats)],
        "backbone": {key.removeprefix(prefix): value for key, value in lock.backbone.items() if key.startswith(prefix)},
    }
    return Job(
        name, config.arm_folder(name), samples_of(config, name, chat), Trajectory, key_of_line, policy, config.batch_size, meta, shard,
        partial(close, made),
    )  # fmt: skip


def _maker(sample: Probe | Session, arm: Arm, profile: Profile, chat: ChatML) -> Callable[[], Episode]:
    def make() -> Episode:
        manager = get_manager(arm.manager) if arm.manager else None
        begin: Callable[..., Episode] = Episode.from_probe if isinstance(sample, Probe) else Episode
        return begin(sample, profile, chat, prompt=arm.prompt, manager=manager)

    return make


def _recorder(name: str, repeat: int) -> Callable[[Episode, str], Trajectory]:
    return lambda episode, inputs: episode.trajectory(name).model_copy(update={"repeat": repeat, "inputs": inputs})
