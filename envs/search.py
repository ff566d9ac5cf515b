"""BM25 over the raw log (rank_bm25): references and short snippets, bounded."""

from __future__ import annotations

import itertools
import re

from rank_bm25 import BM25Plus

from envs.chat import ChatML
from envs.log import Event, Log
from envs.text import HAN

WORD = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+(?:-[^\W\u3400-\u9fff]+)*")
"""A run of Han characters, or a word with its hyphens."""
LEAD = 8
"""Characters shown before the first wanted word."""


def words(text: str) -> list[str]:
    """Lower-case words; a hyphenated identifier counts whole and in its parts, Chinese by pairs of characters."""
    found: list[str] = []
    for word in WORD.findall(text.casefold()):
        if HAN.match(word):
            found += [a + b for a, b in itertools.pairwise(word)] or [word]
            continue
        found.append(word)
        if "-" in word:
            found += word.split("-")
    return found


def _searchable(log: Log, event: Event, last: int) -> bool:
    """Messages, business results and the policy's replies: evidence, not earlier context calls."""
    if event.sub or event.seq >= last:
        return False
    if event.role != "assistant":
        return True
    nxt = event.seq + 1
    return event.role == "assistant" and nxt <= log.last and log.main(nxt).role not in ("assistant", "tool")


def search(log: Log, query: str, turn: int, hits: int, size: int, chat: ChatML, window: str = "") -> list[tuple[int, str]]:
    """The best ``hits`` events before policy turn ``turn`` that share a word with the query, as ``(event, snippet)``.

    ``window`` limits the search to events made there.
    """
    wanted = set(words(query))
    docs = [(e, words(e.text)) for e in log if window in ("", e.window) and _searchable(log, e, turn)]
    if not wanted or not docs:
        return []
    scores = BM25Plus([d or [""] for _, d in docs]).get_scores(sorted(wanted))
    ranked = sorted((-s, e.seq, e) for s, (e, d) in zip(scores, docs, strict=True) if wanted & set(d))
    return [(e.seq, snippet(e.text, wanted, size, chat)) for _, _, e in ranked[:hits]]


def snippet(text: str, wanted: set[str], size: int, chat: ChatML) -> str:
    """At most ``size`` tokens of the text on one line, from just before the first wanted word."""
    flat = " ".join(text.split())
    start = next((m.start() for m in WORD.finditer(flat) if set(words(m.group())) & wanted), 0)
    if HAN.search(flat):  # no spaces to begin at: the wanted pair itself
        pairs = (flat.casefold().find(w) for w in wanted if HAN.match(w))
        start = max(min((p for p in pairs if p >= 0), default=start) - LEAD // 4, 0)
    elif start:
        start = flat.rfind(" ", 0, max(start - LEAD, 0)) + 1
    return chat.clip(flat[start:], size).strip()
