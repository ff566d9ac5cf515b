"""Plays what an arm still owes, in lock-step batches, and appends every episode to the file of its folder the moment it is whole.

An episode and the exact inputs of its inferences are one line, so that either both are stored or neither. A torn last line
means that this sample is owed. An exception of the backend is infrastructure: retried twice, written to ``errors.jsonl``, never
stored as an episode. Whatever a policy says or fails to say is an episode.
"""

from __future__ import annotations

import fcntl
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tqdm import tqdm

from envs.config import UserError
from envs.episode import Episode, play
from envs.policies.base import Policy, Sampled, View
from envs.policies.endpoint import EndpointDownError
from envs.runs import append_jsonl, provenance, read_json, read_jsonl, write_json_atomic
from envs.trajectory import pack_inputs, view_hash
from eval.store import Key, Shard, keys_elsewhere, told

RETRIES = 2


class BackendError(Exception):
    """The backend of a policy raised: infrastructure, not the policy's doing."""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of one arm: episodes stored before and now, and samples still owed after infrastructure errors."""

    before: int
    now: int
    owed: int


@dataclass(frozen=True)
class Sample:
    """One thing to play: how its episode begins, and what line is stored of it."""

    key: Key
    content: str
    """Content hash: which shard it belongs to."""
    make: Callable[[], Episode]
    """A fresh episode; raises ValueError where the arm's profile can't play it."""
    record: Callable[[Episode, str], BaseModel]
    """The line to store, of the episode and its packed inputs."""


@dataclass(frozen=True)
class Job:
    """An arm's samples and where their episodes go. ``key`` reads the key of a stored line, ``policy`` acts for one batch."""

    name: str
    folder: Path
    samples: Sequence[Sample]
    line: type[BaseModel]
    key: Callable[[dict[str, Any]], Key]
    policy: Callable[[Sequence[Sample]], Policy]
    batch_size: int
    meta: dict[str, Any] = field(default_factory=dict)
    """What ``meta.json`` says beside the starts."""
    shard: Shard | None = None
    close: Callable[[], None] = lambda: None
    """Called when the job is over, played through or not."""

    @property
    def own(self) -> Path:
        """Folder that this run writes to."""
        return self.shard.folder(self.folder) if self.shard else self.folder


def play_job(job: Job) -> Played:
    """Play what is owed. Raises UserError when the backend fails on all of a batch, or another run is at the same files."""
    try:
        with _alone(job):
            return _play(job)
    finally:
        job.close()


def _play(job: Job) -> Played:
    episodes, errors = job.own / "episodes.jsonl", job.own / "errors.jsonl"
    mine = [s for s in job.samples if job.shard is None or job.shard.holds(s.content, s.key[2])]
    stored = keys_elsewhere(job.folder, job.own, job.key)
    if episodes.is_file():
        stored |= {job.key(t) for t in read_jsonl(episodes, torn="drop_last")}
    if errors.is_file():
        read_jsonl(errors, torn="drop_last")  # mended like the episodes, so that it can be appended to
    owed = [s for s in mine if s.key not in stored]
    before = len(mine) - len(owed)
    if not owed:
        return Played(before, 0, 0)
    _write_meta(job, len(owed))
    failed = 0
    name = job.name + (f" {job.shard.number}/{job.shard.of}" if job.shard else "")
    with tqdm(total=len(mine), initial=before, desc=name, unit="episode") as bar:
        player = _Player(job, bar)
        for batch in _batches(owed, job.batch_size):
            done = player.batch(batch)
            for line in done:
                append_jsonl(episodes, line)
            failed += len(batch) - len(done)
            if not done:
                raise UserError(
                    f"arm {job.name}: the backend failed on all of a batch: {player.last_error}: mend it, the same command resumes"
                )
    return Played(before, len(owed) - failed, failed)


def _batches(owed: Sequence[Sample], size: int) -> Iterator[list[Sample]]:
    """In order; never two repeats in one batch, as each is seeded on its own."""
    for _, group in groupby(owed, key=lambda s: s.key[2]):
        same = list(group)
        yield from (same[start : start + size] for start in range(0, len(same), size))


@contextmanager
def _alone(job: Job) -> Iterator[None]:
    """Two runs at once would play an episode twice. The system lets go of the file when a run dies."""
    try:
        job.own.mkdir(parents=True, exist_ok=True)
        file = (job.own / ".running").open("w")
    except OSError as error:
        raise UserError(
            f"{job.own}: can't be written ({error.strerror or error}): free disk space or choose another out, then resume"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{job.own}: arm {job.name} is being played by another run: wait for it, or play other arms with --arm"
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


class Recorder:
    """A policy, and the ids that it was given, by their hash: what was really sent, not what might be rendered again later."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.given: dict[str, array[int]] = {}

    def act(self, views: Sequence[View]) -> list[Sampled]:
        self.given |= {view_hash(v.ids): array("I", v.ids) for v in views}
        return self.policy.act(views)

    def inputs(self, episode: Episode) -> str:
        """The inputs of an episode, packed for storing."""
        return pack_inputs([self.given[i.hash] for i in episode.inferences]) if episode.inferences else ""


@dataclass
class _Player:
    job: Job
    bar: tqdm
    last_error: str = ""
    down: bool = False
    """The last error was one that no other sample would be spared."""

    def batch(self, samples: Sequence[Sample]) -> list[BaseModel]:
        """The lines of a batch, without those whose backend failed on every try.

        A failed batch is played again one by one, so that one bad sample costs no other and nobody's tries are shared; but not
        where a server is down, which was asked often enough.
        """
        done = self._try(samples)
        if done is not None:
            return done
        found: list[BaseModel] = []
        for sample in samples:
            for _ in range(RETRIES):
                if self.down:
                    return found
                if (done := self._try([sample])) is not None:
                    found += done
                    break
        return found

    def _try(self, samples: Sequence[Sample]) -> list[BaseModel] | None:
        episodes = [self._episode(s) for s in samples]
        policy = Recorder(Guarded(self.job.policy(samples)))
        before = self.bar.n
        try:
            play(episodes, policy, self.bar.update)
        except BackendError as error:
            self.last_error, self.down = str(error), isinstance(error.__cause__, EndpointDownError)
            self.bar.update(before - self.bar.n)  # what had ended in this try is played again
            line = {"samples": [s.key for s in samples], "error": str(error), "at": now()}
            append_jsonl(self.job.own / "errors.jsonl", line)
            return None
        return [s.record(e, policy.inputs(e)) for s, e in zip(samples, episodes, strict=True)]

    def _episode(self, sample: Sample) -> Episode:
        try:
            return sample.make()
        except ValueError as error:
            raise UserError(f"arm {self.job.name}: {told(sample.key)} can't be played: {error}") from error


def _write_meta(job: Job, owed: int) -> None:
    """Lock, model hash, seeds and, for every time the arm was started, where the code stood."""
    path = job.own / "meta.json"
    held = read_json(path) if path.is_file() else {"starts": []}
    shard = {"shard": f"{job.shard.number}/{job.shard.of}"} if job.shard else {}
    start = {"at": now(), "owed": owed, "batch_size": job.batch_size, **provenance()}
    write_json_atomic(path, {**job.meta, **shard, "starts": [*held["starts"], start]})


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
