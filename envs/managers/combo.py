"""``combo``: the newest records whole, a frequency summary of the older ones, and a retrieval for the question.

Each part covers what the others lose; the price is a larger view.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.managers.base import OVERHEAD, Count, Manager, Picked, Record, passages, quoted, tail
from envs.managers.retrieval import best
from envs.managers.summary import extract


class Combo(Manager):
    """Half of the room for the newest records, a third for what is retrieved, the rest for the summary."""

    name = "combo"

    def __init__(self, most: int = 8, passages: int = 5) -> None:
        self.most, self.passages = most, passages

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        kept = tail(past[-self.most :], room // 2, count)
        older = past[: len(past) - len(kept)]
        left = room - sum(count(r.text) + OVERHEAD for r in kept) - 12
        pieces = passages(older, count)
        found = quoted(pieces, best(pieces, question, self.passages), max(0, (2 * left) // 3), count)
        text = extract(older, max(0, left - count(found) - 8), count)
        parts = [f"summary:\n{text}" if text else "", f"from earlier:\n{found}" if found else ""]
        return Picked(kept, "\n".join(p for p in parts if p))
