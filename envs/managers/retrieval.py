"""``retrieval``: the five passages that share most character pairs with the question.

Precise and small for a question that names what it wants. A fact spread over several records, or asked for in other words, is not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from envs.managers.base import Count, Manager, Picked, Record, passages, quoted


@lru_cache(maxsize=50_000)
def pairs(text: str) -> frozenset[str]:
    """Neighbouring characters of a text, case and spaces aside: works for any script."""
    flat = "".join(text.casefold().split())
    return frozenset(flat[i : i + 2] for i in range(len(flat) - 1))


def overlap(one: str, two: str) -> float:
    """Shared pairs, by the share of the question's pairs that the text holds, damped by the text's own size."""
    a, b = pairs(one), pairs(two)
    return len(a & b) / (len(a) * len(b)) ** 0.5 if a and b else 0.0


def best(pieces: Sequence[tuple[int, str]], question: str, most: int) -> list[int]:
    """Numbers of the ``most`` pieces nearest to the question; pieces that share nothing are left out."""
    scored = sorted(((-overlap(question, text), -place, n) for n, (place, text) in enumerate(pieces)))
    return [n for score, _, n in scored[:most] if score < 0]


class Retrieval(Manager):
    """The best ``most`` passages as quotations."""

    name = "retrieval"

    def __init__(self, most: int = 5) -> None:
        self.most = most

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        pieces = passages(past, count)
        text = quoted(pieces, best(pieces, question, self.most), room - 6, count)
        return Picked(head=f"from earlier:\n{text}" if text else "")
