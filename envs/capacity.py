"""Whether a profile can work at all: what never leaves the view, a page of raw text and a reply must leave room for the task."""

from __future__ import annotations

from functools import lru_cache

from envs.chat import ChatML
from envs.header import CONFLICTS, ELSEWHERE
from envs.profiles import Profile
from envs.tasks.base import ToolSpec

SHARE = 0.6
"""Of the view budget, what the fixed parts may take."""


def check_capacity(profile: Profile, chat: ChatML, prompt: str, tools: tuple[ToolSpec, ...]) -> int:
    """Tokens of system + fullest header + a page + a reply. Raises ValueError past 60 % of the view budget.

    A profile without memory caps has no fullest header: its notes count nothing here, and an overfull view ends the episode.
    """
    if not profile.managed:
        return 0
    return _check(profile, chat, prompt, tools)


@lru_cache(maxsize=256)
def _check(profile: Profile, chat: ChatML, prompt: str, tools: tuple[ToolSpec, ...]) -> int:
    need = chat.count(profile.system(prompt, tools)) + header_bound(profile, chat) + profile.page_tokens + profile.reply_tokens
    room = int(SHARE * profile.view_budget)
    if need > room:
        raise ValueError(
            f"profile {profile.name}: system, full header, a page and a reply take {need} tokens, more than 60 % of the "
            f"{profile.view_budget}-token view ({room}): raise view_budget or shorten prompt {prompt!r} or the tools"
        )
    return need


def header_bound(profile: Profile, chat: ChatML) -> int:
    """Tokens of the fullest header."""
    total = chat.count("notes:\nout: ")
    note = (profile.note_tokens or 0) + chat.count(" @e100 candidate was @e100\n")
    if profile.note_tokens:
        total += (profile.max_notes or 0) * note
    if profile.index:
        entry = max(chat.count(f"e100-e120 {why} 34 own 34 tool; ") for why in ("f10", "w10", "cleared", "control", "dropped"))
        folds = "+".join(f"f{10 + 2 * n}" for n in range(profile.max_folds))
        merged = chat.count(f"e1-e120 c10+{folds}+cleared+control 12 user 34 own 34 tool; ")
        total += (profile.index_lines - 1) * entry + merged
    if profile.windows:
        if profile.note_tokens:
            total += (profile.max_window_notes or 0) * note
        # The current window has a title, a hand-over and a checkpoint; of the others stand title and outcome.
        total += profile.max_windows * (profile.title_tokens + chat.count("w10 open: ; "))
        total += (profile.max_windows + 1) * profile.text_tokens
        total += ELSEWHERE * chat.count("e100 w10 a_business_tool; ") + chat.count(
            "elsewhere: windows: handoff: checkpoint: \n\n\n\n"
        )
    if profile.conflict_flags and profile.note_tokens:
        total += CONFLICTS * (2 * profile.note_tokens + chat.count(": public @e100, w10 @e100; ")) + chat.count("conflicts: \n")
    if profile.state_block:
        total += profile.title_tokens + chat.count("[state] window w10 , version 1000, entered from w10, closed\n")
    return total
