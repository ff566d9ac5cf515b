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
    """The config with the goal read off the finished set that it names. Raises ConfigError when there is none to read."""
    plain = config.plain
    if plain is None or plain.like in ("", HERE):
        return config
    path = Path(plain.like) / "done.json"
    if Path(plain.like).resolve() == Path(config.out).resolve():
        raise ConfigError(f"plain.like: {plain.like} is this set itself: write plain.like={HERE}")
    if not path.exists():
        raise ConfigError(f"plain.like: {path}: no such file: name the folder of a finished set, or {HERE}")
    held = read_json(path).get("tokens") or {}
    if not held.get(plain.measure):
        raise ConfigError(
            f"plain.like: {path}: tells no tokens but those of plain history: make that set anew, or set plain.tokens"
        )
    if plain.tokens not in (0, held[plain.measure]):
        raise ConfigError(
            f"plain.like: {plain.like} has {held[plain.measure]} tokens by now, not {plain.tokens}: make this set anew"
        )
    return config.model_copy(update={"plain": plain.model_copy(update={"tokens": held[plain.measure]})})


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
