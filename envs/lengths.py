"""Length of a session: tokens that its script puts into the log, over the main profile's view budget."""

from __future__ import annotations

from envs.chat import ChatML
from envs.profiles import get_profile
from envs.tasks.base import Session

MAIN_PROFILE = "core@1"
LENGTHS = (("short", 0.5), ("medium", 1.5), ("long", 5.0), ("very long", float("inf")))
"""Bands of log tokens over the main profile's view budget, each with its upper end."""


def log_tokens(session: Session, chat: ChatML) -> int:
    """Tokens of what a session's script puts into the log (turns, the calls they need, results, answers), whoever plays it."""
    texts = [t.text for t in session.turns] + ["; ".join(f"{s.name}={s.accept[0]}" for s in t.slots) for t in session.turns]
    texts += [text for t in session.turns for call in t.calls for text in (call, session.responses.get(call, ""))]
    return sum(map(chat.count, texts))


def length_of(session: Session, chat: ChatML) -> str:
    """The band of a session."""
    share = log_tokens(session, chat) / get_profile(MAIN_PROFILE).view_budget
    return next(name for name, end in LENGTHS if share < end)
