"""Where an arm's episodes lie: in its folder, and in one folder more for every shard that was played apart.

    arms/base/episodes.jsonl                    played without --shard
    arms/base/shards/2-of-8/episodes.jsonl      played with --shard 2/8, perhaps on another machine

Each folder has its own ``meta.json``, ``errors.jsonl`` and ``.running``, so that shards never write to the same file. Whoever
reads an arm reads all of them; a sample that lies in two is an error, one that lies in none is owed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel

from envs.config import UserError
from envs.runs import read_json, read_jsonl
from envs.trajectory import Trajectory

Key = tuple[str, str, int]
"""What an episode is an episode of: ``probe``, ``session`` or a condition; the sample's id; the repeat."""
Stored = TypeVar("Stored", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``number`` (from 1) of ``of``: every sample is in exactly one, chosen by its content and repeat alone."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of ``2/8``. Raises UserError."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise UserError(f"--shard {text!r}: give part and parts, 1/8 to 8/8 for eight of them")
        return cls(int(number), int(of))

    def holds(self, content: str, repeat: int) -> bool:
        """Whether a sample of this content hash is played here."""
        digest = hashlib.sha256(f"{content}/{repeat}".encode()).hexdigest()
        return int(digest[:12], 16) % self.of == self.number - 1

    def folder(self, arm: Path) -> Path:
        """Of this shard, beneath the arm's."""
        return arm / "shards" / f"{self.number}-of-{self.of}"


def parts(arm: Path) -> list[Path]:
    """The folders of an arm that hold anything: its own, then its shards'."""
    return [p for p in (arm, *sorted((arm / "shards").glob("*-of-*"))) if p.is_dir()]


def stored_key(trajectory: Trajectory) -> Key:
    """What a stored episode is an episode of."""
    if trajectory.probe:
        return ("probe", trajectory.probe, trajectory.repeat)
    return ("session", trajectory.session.id, trajectory.repeat)


def read_arm(arm: Path, model: type[Stored], key: Callable[[Stored], Key]) -> dict[Key, Stored]:
    """Every stored episode of an arm, shards included. Raises UserError for one that is stored twice, DataError for a bad line.

    Nothing is mended: whoever writes a file may still be at it.
    """
    found: dict[Key, Stored] = {}
    places: dict[Key, Path] = {}
    for part in parts(arm):
        path = part / "episodes.jsonl"
        for record in read_jsonl(path, model=model) if path.is_file() else ():
            name = key(record)
            if name in places:
                where = "twice" if places[name] == path else f"in {places[name]} too"
                raise UserError(f"{path}: {told(name)} is stored {where}: keep one of the lines, then score again")
            places[name], found[name] = path, record
    return found


def keys_elsewhere(arm: Path, own: Path, key: Callable[[dict[str, Any]], Key]) -> set[Key]:
    """Keys of the whole lines in every folder of an arm but ``own``; others may be writing there."""
    found = set()
    for part in parts(arm):
        path = part / "episodes.jsonl"
        if part == own or not path.is_file():
            continue
        for line in path.read_bytes().split(b"\n"):
            try:
                found.add(key(json.loads(line)))
            except ValueError:  # an empty line, or the last one half written
                continue
    return found


def read_errors(arm: Path) -> list[dict[str, Any]]:
    """Infrastructure errors of an arm, shards included."""
    files = [p / "errors.jsonl" for p in parts(arm)]
    return [line for path in files if path.is_file() for line in read_jsonl(path)]


def read_meta(arm: Path) -> list[tuple[Path, dict[str, Any]]]:
    """``(path, content)`` of the ``meta.json`` of an arm and its shards."""
    files = [p / "meta.json" for p in parts(arm)]
    return [(path, read_json(path)) for path in files if path.is_file()]


def told(key: Key) -> str:
    """A key in words."""
    source, sample, repeat = key
    return f"{source} {sample!r}" + (f", repeat {repeat}," if repeat else "")
