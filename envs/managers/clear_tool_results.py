"""``clear_tool_results``: the oldest tool results are replaced by a line that says what stood there, newest ones stay.

Keeps the whole course of the conversation; loses every value that only an old result stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envs.managers.base import OVERHEAD, Count, Manager, Picked, Record, tail


class ClearToolResults(Manager):
    """Clears as few results as the room asks for; past that, the oldest records go."""

    name = "clear_tool_results"

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        shown = list(past)
        size = sum(count(r.text) + OVERHEAD for r in shown)
        for number, record in enumerate(shown):
            if size <= room:
                break
            if record.role == "tool":
                line = f"[{record.name or 'result'} cleared, {count(record.text)} tokens]"
                size -= count(record.text) - count(line)
                shown[number] = replace(record, text=line)
        return Picked(shown if size <= room else tail(shown, room, count))
