"""``retrieval_global``: retrieval, and beside it one line of every record (what it is about), fixed whatever is asked.

The line is the floor for questions that share no word with their record: it says that the record exists.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.managers.base import Count, Manager, Picked, Record, passages, quoted, sentences
from envs.managers.retrieval import best

SHARE = 0.4
"""Of the room, the most that the conclusions take."""
LINE = 14
"""Longest line of a record, in tokens (words are dropped from its end)."""


def conclusions(records: Sequence[Record], room: int, count: Count) -> str:
    """The first sentence of every record, clipped, newest first until the room is used; shown in order."""
    lines: list[tuple[int, str]] = []
    seen: set[str] = set()
    for record in reversed(records):
        line = next(iter(sentences(record.text)), "")
        while line and count(line) > LINE:
            line = line.rsplit(" ", 1)[0] if " " in line else ""
        size = count(line + "\n")
        if not line or line in seen or size > room:
            continue
        seen.add(line)
        room -= size
        lines.append((record.place, line))
    return "\n".join(line for _, line in sorted(lines))


class RetrievalGlobal(Manager):
    """Retrieval over a fixed layer of conclusions."""

    name = "retrieval_global"

    def __init__(self, most: int = 5) -> None:
        self.most = most

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        layer = conclusions(past, int(SHARE * room), count)
        pieces = passages(past, count)
        text = quoted(pieces, best(pieces, question, self.most), room - count(layer) - 12, count)
        parts = [f"so far:\n{layer}" if layer else "", f"from earlier:\n{text}" if text else ""]
        return Picked(head="\n".join(p for p in parts if p))
