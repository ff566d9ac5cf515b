"""Every arm plays the same probes and sessions; a run killed at any moment goes on where it was.

Episodes are appended to ``<out>/arms/<arm>/episodes.jsonl`` (one Trajectory a line) after each lock-step batch. A torn last
line means that this sample is owed. An exception of the backend is infrastructure: retried twice, written to ``errors.jsonl``,
never stored as an episode. Whatever a policy says or fails to say is an episode.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tqdm import tqdm

from envs.chat import ChatML, get_chat
from envs.config import UserError
from envs.episode import Episode, play
from envs.managers import get_manager
from envs.policies.base import Policy, Sampled, View
from envs.profiles import Profile
from envs.runs import append_jsonl, provenance, read_json, read_jsonl, write_json_atomic
from envs.tasks.base import Probe, Session
from envs.trajectory import Trajectory
from eval.config import Arm, EvalConfig
from eval.freeze import Lock, check_play, load_samples
from eval.policies import make_policy
from eval.score import Key, check_arm, stored_key

RETRIES = 2


class BackendError(Exception):
    """The backend of a policy raised: infrastructure, not the policy's doing."""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of one arm: episodes stored before and now, and samples still owed after infrastructure errors."""

    before: int
    now: int
    owed: int


def run(config: EvalConfig, arms: Sequence[str] | None = None) -> dict[str, Played]:
    """Play what is owed by every arm (or by ``arms``). Raises LockError when anything is not as frozen."""
    lock = check_play(config)
    probes, sessions = load_samples(config)
    names = list(arms) if arms else list(config.arms)
    for name in names:
        if name not in config.arms:
            raise UserError(f"arm {name!r}: not in the config: use one of {', '.join(config.arms)}")
        check_arm(config, name, lock)
    played = {}
    for name in names:
        with _alone(config.arm_folder(name), name):
            played[name] = _run_arm(config, name, lock, [*probes, *sessions])
    return played


def _run_arm(config: EvalConfig, name: str, lock: Lock, samples: Sequence[Probe | Session]) -> Played:
    arm, folder = config.arms[name], config.arm_folder(name)
    episodes, errors = folder / "episodes.jsonl", folder / "errors.jsonl"
    stored = {stored_key(t) for t in read_jsonl(episodes, model=Trajectory, torn="drop_last")} if episodes.is_file() else set()
    if errors.is_file():
        read_jsonl(errors, torn="drop_last")  # mended like the episodes, so that it can be appended to
    owed = [s for s in samples if _key(s) not in stored]
    if not owed:
        return Played(len(stored), 0, 0)
    _write_meta(config, name, lock, len(owed))
    chat, profile = get_chat(arm.model or config.tokenizer), arm.rules
    if arm.view_budget:
        profile = replace(profile, view_budget=arm.view_budget)
    policy = Guarded(make_policy(arm, config, chat, profile))
    failed = 0
    with tqdm(total=len(samples), initial=len(stored), desc=name, unit="episode") as bar:
        player = _Player(arm, profile, chat, policy, folder, name, bar)
        for start in range(0, len(owed), config.batch_size):
            batch = owed[start : start + config.batch_size]
            done = player.batch(batch)
            for episode in done:
                append_jsonl(episodes, episode.trajectory(name))
            failed += len(batch) - len(done)
            if not done:
                raise UserError(
                    f"arm {name}: the backend failed on all of a batch: {player.last_error}: mend it, the same command resumes"
                )
    return Played(len(stored), len(owed) - failed, failed)


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Two runs at once would play an episode twice. The system lets go of the file when a run dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".running").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{folder}: arm {name} is being played by another run: wait for it, or play other arms with --arm"
            ) from None
        yield


class Guarded:
    """A policy whose exceptions are told apart from those of the simulator."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, views: Sequence[View]) -> list[Sampled]:
        try:
            return self.policy.act(views)
        except Exception as error:
            raise BackendError(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


@dataclass
class _Player:
    arm: Arm
    profile: Profile
    chat: ChatML
    policy: Policy
    folder: Path
    name: str
    bar: tqdm
    last_error: str = ""

    def batch(self, samples: Sequence[Probe | Session]) -> list[Episode]:
        """The episodes of a batch, without those whose backend failed on every try.

        A failed batch is played again one by one, so that one bad sample costs no other and nobody's tries are shared.
        """
        done = self._try(samples)
        if done is not None:
            return done
        found = []
        for sample in samples:
            for _ in range(RETRIES):
                if (done := self._try([sample])) is not None:
                    found += done
                    break
        return found

    def _try(self, samples: Sequence[Probe | Session]) -> list[Episode] | None:
        episodes = [self._episode(s) for s in samples]
        before = self.bar.n
        try:
            play(episodes, self.policy, self.bar.update)
        except BackendError as error:
            self.last_error = str(error)
            self.bar.update(before - self.bar.n)  # what had ended in this try is played again
            line = {"samples": [_key(s) for s in samples], "error": str(error), "at": _now()}
            append_jsonl(self.folder / "errors.jsonl", line)
            return None
        return episodes

    def _episode(self, sample: Probe | Session) -> Episode:
        manager = get_manager(self.arm.manager) if self.arm.manager else None
        make: Callable[..., Episode] = Episode.from_probe if isinstance(sample, Probe) else Episode
        try:
            return make(sample, self.profile, self.chat, prompt=self.arm.prompt, manager=manager)
        except ValueError as error:
            raise UserError(f"arm {self.name}: {_key(sample)[0]} {sample.id!r} can't be played: {error}") from error


def _key(sample: Probe | Session) -> Key:
    return ("probe" if isinstance(sample, Probe) else "session", sample.id)


def _write_meta(config: EvalConfig, name: str, lock: Lock, owed: int) -> None:
    """Lock, model hash, seeds and, for every time the arm was started, where the code stood."""
    path = config.arm_folder(name) / "meta.json"
    held = read_json(path) if path.is_file() else {"starts": []}
    prefix = f"backbone.{name}."
    meta = {
        "lock": lock.lock,
        "arm": name,
        "settings": config.arms[name].model_dump(mode="json"),
        "decoding": config.decoding.model_dump(mode="json"),
        "backbone": {key.removeprefix(prefix): value for key, value in lock.backbone.items() if key.startswith(prefix)},
        "starts": [*held["starts"], {"at": _now(), "owed": owed, "batch_size": config.batch_size, **provenance()}],
    }
    write_json_atomic(path, meta)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
