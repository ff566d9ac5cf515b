"""``truncate``: plain history with the oldest records dropped until the rest fits.

Strong while what is asked is recent; loses everything older, without a trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.managers.base import Count, Manager, Picked, Record, tail


class Truncate(Manager):
    """The newest records that fit."""

    name = "truncate"

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        return Picked(tail(past, room, count))
