"""``pinned``: sentences with must-keep fields (amounts, codes, dates, names, times) are pinned, then the most recent history.

The strong cheap baseline: no model call, no tool. It may look at text by patterns; what no pattern names is lost.
"""

from __future__ import annotations

import re

from envs.chat import ChatML, Message
from envs.log import Log
from envs.managers.truncate import fit, plain_messages

FIELD = re.compile(
    r"\d{3,}|[A-Z]{2}-\d{3,}|\b\d{1,2} [A-Z][a-z]{2,}\b|\b\d{1,2}:\d{2}\b|\b[A-Z][a-z]+ [A-Z][a-z]+\b|\b(?:never|not|only|except|unless)\b"
)
SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\S)|\n|$)")


def pinned(log: Log, budget: int, chat: ChatML, system: str) -> list[Message]:
    """System text plus pinned sentences (newest first until half the budget is used, shown in order), then what fits of the tail."""
    history = plain_messages(log)
    whole = [m for _, m in history]
    if len(chat.render([Message("system", system), *whole])) <= budget:
        return [Message("system", system), *whole]
    tail = fit(whole, budget // 2, chat, Message("system", system))[1:]
    cut = len(whole) - len(tail)
    # The last message always stays: a large one leaves less room, or none.
    room = min(budget // 2, budget - len(chat.render([Message("system", system), *tail]))) - 16
    lines: list[str] = []
    for message in reversed(whole[:cut]):
        if message.role == "assistant":
            continue
        head, sentences = _subject(message.content), SENTENCE.findall(message.content)
        keep = [s.strip() for s in sentences if FIELD.search(s) and "Answer:" not in s]
        line = " ".join(dict.fromkeys(([head] if head else []) + keep))
        if not keep:
            continue
        size = chat.count(line + "\n")
        if size > room:
            break
        room -= size
        lines.append(line)
    head_text = f"{system}\npinned:\n" + "\n".join(reversed(lines)) if lines else system
    return [Message("system", head_text), *tail]


def _subject(text: str) -> str:
    """The first sentence: it says what the fields are about."""
    match = SENTENCE.search(text)
    return match.group().strip() if match else ""
