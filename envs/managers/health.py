"""The health of a managed view: four measures, their bounds, and what is recorded of every request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from envs.managers.base import sentences
from envs.managers.facts import FactStore

BOUNDS = {"bloat": 0.70, "redundancy": 0.15, "stale": 0.10, "conflicts": 0}
"""Largest healthy value of each measure: tokens over the limit, repeated text, expired facts over all, entities with two values."""


@dataclass(frozen=True, slots=True)
class Health:
    """Measures of one view."""

    bloat: float
    redundancy: float
    stale: float
    conflicts: int

    def broken(self) -> list[str]:
        """Measures over their bound."""
        return [name for name, bound in BOUNDS.items() if getattr(self, name) > bound]


@dataclass(frozen=True, slots=True)
class Request:
    """What is recorded of one request."""

    request_id: str
    total_tokens: int
    window_limit: int
    message_count: int
    fact_count: int
    expired_count: int
    compression_count: int
    health: Health
    repairs: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def redundancy(texts: Sequence[str]) -> float:
    """Share of characters in sentences that stand there before."""
    counts = Counter(s for t in texts for s in sentences(t))
    size = sum(len(s) * n for s, n in counts.items())
    return sum(len(s) * (n - 1) for s, n in counts.items()) / size if size else 0.0


def measure(tokens: int, limit: int, texts: Sequence[str], store: FactStore) -> Health:
    """The health of a view of ``tokens`` tokens made of ``texts``."""
    every = len(store.facts)
    return Health(
        round(tokens / limit, 4), round(redundancy(texts), 4), round(store.count("expired") / every, 4) if every else 0.0,
        len(store.conflicts()),
    )  # fmt: skip
