"""Plain history of equal token count: how many tokens it must come to, and where the row of its sessions is cut.

Sessions are made until the goal is reached (of shards, each its share of it) and cut at the session that ends nearest to it, in order
of their numbers. So the count is met within half a session, whoever made which shard and however often that was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from data_gen.config import HERE, DataConfig, PlainTokens
from envs.config import ConfigError
from envs.runs import read_json
from envs.trajectory import Trajectory

T = TypeVar("T")
SESSION = 4_000
"""Tokens that a session is taken to have where only the order of magnitude matters: sizes of chunks, the bar."""


def resolve(config: DataConfig) -> DataConfig:
    """The config with the goal read off the finished sets that it names. Raises ConfigError when there is none to read."""
    plain = config.plain
    if plain is None or not plain.like or plain.like == HERE:
        return config
    goal = sum(_held(folder, plain, config.out) for folder in plain.folders)
    names = ", ".join(plain.folders)
    if plain.tokens not in (0, goal):
        raise ConfigError(f"plain.like: {names} has {goal} tokens by now, not {plain.tokens}: make this set anew")
    return config.model_copy(update={"plain": plain.model_copy(update={"tokens": goal})})


def _held(folder: str, plain: PlainTokens, out: str) -> int:
    """Tokens of one finished set without its own plain history."""
    path = Path(folder) / "done.json"
    if Path(folder).resolve() == Path(out).resolve():
        raise ConfigError(f"plain.like: {folder} is this set itself: write plain.like={HERE}")
    if not path.exists():
        raise ConfigError(f"plain.like: {path}: no such file: name the folder of a finished set, or {HERE}")
    held: int = (read_json(path).get("tokens") or {}).get(plain.measure) or 0
    if not held:
        raise ConfigError(
            f"plain.like: {path}: tells no tokens but those of plain history: make that set anew, or set plain.tokens"
        )
    return held


def trained(trajectory: Trajectory) -> int:
    """Sampled tokens that carry loss."""
    return sum(len(i.ids) for i in trajectory.inferences if i.trained)


def of_trajectories(plain: PlainTokens, trajectories: Iterable[Trajectory]) -> int:
    """Their tokens by the measure of the config."""
    return sum(trained(t) if plain.measure == "trained" else t.tokens for t in trajectories)


def of_unit(plain: PlainTokens, unit: dict[str, Any]) -> int:
    """Tokens of a unit as the journal holds it, by the measure of the config."""
    return sum(t["facts"]["trained"] if plain.measure == "trained" else t["row"]["tokens"] for t in unit["trajectories"])


def cut(items: Iterable[T], weight: Callable[[T], int], goal: int) -> Iterator[T]:
    """The first items whose weights together come nearest to ``goal``."""
    left = goal
    for item in items:
        size = weight(item)
        if size > 2 * left:
            return
        left -= size
        yield item
        if left <= 0:
            return
