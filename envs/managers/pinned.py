"""``pinned``: sentences with must-keep fields (amounts, codes, dates, times, names, negations) are pinned, then the newest history.

The strong cheap baseline: no model call, no tool. What no pattern names is lost, and a value that was changed stands beside the new one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.managers.base import OVERHEAD, Count, Manager, Picked, Record, sentences, tail

FIELD = re.compile(
    r"\d{3,}|[A-Z]{2,}-\w+|\b\d{1,2} [A-Z][a-z]{2,}\b|\b\d{1,2}:\d{2}\b|\b[A-Z][a-z]+ [A-Z][a-z]+\b"
    r"|\b(?:never|not|no|only|except|unless|must|always)\b|[不没未勿禁]|\d+\s*[年月日元%]"
)
ASKING = re.compile(r"\?\s*$|？\s*$|=\?")


def pins(record: Record, patterns: re.Pattern[str] = FIELD) -> str:
    """The record's sentences with a field, led by its first sentence, on one line; empty when there is none."""
    held = sentences(record.text)
    keep = [s for s in held if patterns.search(s) and not ASKING.search(s)]
    return " ".join(dict.fromkeys([held[0], *keep])) if keep else ""


class Pinned(Manager):
    """Half of the room for pins, newest first; the rest for the newest records."""

    name = "pinned"

    def __init__(self, patterns: re.Pattern[str] = FIELD, share: float = 0.6) -> None:
        self.patterns, self.share = patterns, share

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        kept = tail(past, int((1 - self.share) * room), count)
        older = past[: len(past) - len(kept)]
        left = room - sum(count(r.text) + OVERHEAD for r in kept) - 4
        lines: list[str] = []
        for record in reversed(older):
            line = "" if record.role == "assistant" else " ".join(pins(record, self.patterns).split())
            size = count(line + "\n")
            if line and size <= left and line not in lines:
                left -= size
                lines.append(line)
        return Picked(kept, "pinned:\n" + "\n".join(reversed(lines)) if lines else "")
