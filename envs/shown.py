"""What a view shows of a business result: its text, or the first page of one that is too large for the view."""

from __future__ import annotations

from envs.chat import ChatML
from envs.log import Event
from envs.profiles import Profile


def is_paged(event: Event, profile: Profile, chat: ChatML) -> bool:
    """Whether a result is shown by its first page. Its size alone decides, so the answer never changes."""
    if event.role != "tool" or not profile.whole_share or not profile.managed:
        return False
    most = max(int(profile.whole_share * profile.view_budget), profile.page_tokens)
    return len(event.text.encode()) > most and chat.count(event.text) > most  # no token is less than a byte


def shown_text(event: Event, profile: Profile, chat: ChatML) -> str:
    """The text of an event after its tag. A paged result has the form of a read-back, so that ``read e3 p2`` goes on with it."""
    if not is_paged(event, profile, chat):
        return event.text
    pages = chat.pages(event.text, profile.page_tokens)
    return f"p1/{len(pages)}\n{pages[0]}"
