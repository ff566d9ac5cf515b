"""``recent``: the last eight records, and nothing else of the past.

The cheapest of all; loses all history beyond it, whatever the budget would allow.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.managers.base import Count, Manager, Picked, Record, tail


class Recent(Manager):
    """The last ``most`` records, as far as they fit."""

    name = "recent"

    def __init__(self, most: int = 8) -> None:
        self.most = most

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        return Picked(tail(past[-self.most :], room, count))
