"""``summary``: the sentences whose words occur most often, in their order, up to 28 % of what they replace.

A reproducible stand-in for "summarise the history": it keeps the gist and loses what occurs once, which is what codes, names, amounts
and exceptions do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envs.managers.base import Count, Manager, Picked, Record, sentences, words


def extract(records: Sequence[Record], room: int, count: Count) -> str:
    """Sentences by mean word frequency until ``room`` tokens are used, in order of the history, one record a line."""
    frequency = Counter(w for r in records for s in sentences(r.text) for w in words(s))
    pool = [(r.place, n, s) for r in records for n, s in enumerate(sentences(r.text))]
    seen: set[str] = set()
    ranked = sorted(pool, key=lambda p: -sum(frequency[w] for w in words(p[2])) / max(len(words(p[2])), 1))
    taken = []
    for place, number, sentence in ranked:
        size = count(f" {sentence}") + 1
        if size > room or sentence in seen:
            continue
        seen.add(sentence)
        room -= size
        taken.append((place, number, sentence))
    lines: dict[int, list[str]] = {}
    for place, _, sentence in sorted(taken):
        lines.setdefault(place, []).append(sentence)
    return "\n".join(" ".join(held) for held in lines.values())


class Summary(Manager):
    """A frequency summary of the whole past."""

    name = "summary"

    def __init__(self, share: float = 0.28) -> None:
        self.share = share

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        size = sum(count(r.text) for r in past)
        text = extract(past, min(room - 4, int(self.share * size)), count)
        return Picked(head=f"summary:\n{text}" if text else "")
