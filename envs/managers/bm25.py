"""``bm25``: passages by BM25 against the question (rank_bm25), as many as fit.

Stronger than character pairs where the question shares whole words with the record; blind to paraphrase all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from rank_bm25 import BM25Plus

from envs.managers.base import Count, Manager, Picked, Record, passages, quoted
from envs.search import words


def ranked(pieces: Sequence[tuple[int, str]], question: str) -> list[int]:
    """Numbers of the pieces that share a word with the question, best first, the newest first among equals."""
    docs = [words(text) or [""] for _, text in pieces]
    wanted = set(words(question))
    if not docs or not wanted:
        return []
    scores = BM25Plus(docs).get_scores(sorted(wanted))
    order = sorted(range(len(docs)), key=lambda n: (-scores[n], -pieces[n][0], n))
    return [n for n in order if wanted & set(docs[n])]


class Bm25(Manager):
    """The best passages by BM25 until the room is used."""

    name = "bm25"

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        pieces = passages(past, count)
        text = quoted(pieces, ranked(pieces, question), room - 6, count)
        return Picked(head=f"from earlier:\n{text}" if text else "")
