"""What passes between host and policy: a view goes in, a sampled turn comes out. Nothing else does."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envs.chat import Message


@dataclass(frozen=True)
class View:
    """One rendered input. ``ids`` are the exact token ids, with the opening of the policy's turn at the end.

    ``out`` repeats the omission index, ``visible`` the events whose full text stands in the messages, ``parts`` the results that are
    shown by their first page; all are for the record.
    """

    messages: list[Message]
    ids: list[int]
    out: list[str] = field(default_factory=list)
    visible: frozenset[int] = frozenset()
    parts: frozenset[int] = frozenset()

    @property
    def tokens(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Sampled:
    """One policy turn: sampled ids (end-of-turn included when sampled), their text, and whether the token cap cut it."""

    ids: tuple[int, ...]
    text: str
    cut: bool = False
    logps: tuple[float, ...] | None = None
    trained: bool = True
    error: str = ""
    """Label of a deliberate error in training data; ``trained`` is then false."""


class Policy(Protocol):
    """Anything that answers views with turns."""

    def act(self, views: Sequence[View]) -> list[Sampled]: ...


def seed_number(seed: str) -> int:
    """The number (63 bits) that a random stream of this name is seeded with, whatever the engine."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") >> 1
