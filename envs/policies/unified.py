"""The expert under profiles with windows: it reads the view as core@1 would show it, and its turn is spelled for the profile."""

from __future__ import annotations

import re
from dataclasses import replace

from envs.chat import ChatML, Message
from envs.policies.base import View
from envs.policies.expert import Expert, Mind
from envs.policies.seen import spec_of
from envs.profiles import Profile
from envs.respell import respell, to_core
from envs.tasks.base import ToolSpec
from envs.tasks.spec import ENTER

WINDOW = re.compile(r"^(?:\[state\] )?window (w\d+)\b", re.MULTILINE)

SUMMARY_ROOM = 140
"""Tokens of a summary that leave room for the JSON around it, under a reply cap of 256."""


class UnifiedExpert(Expert):
    """The scripted expert for ``unified@…``: all work in the window it finds itself in; other windows are searched and read."""

    name = "unified_expert"

    def __init__(self, chat: ChatML, profile: Profile) -> None:
        super().__init__(chat, profile.view_budget)
        self.profile = profile

    def mind(self, view: View) -> Mind:
        """What it makes of the view, its own turns read as core@1 would write them."""
        tools = tools_of(view)
        messages = [
            m if m.role != "assistant" else Message(m.role, to_core(m.content, tools, self.profile), m.ids) for m in view.messages
        ]
        return Mind(replace(view, messages=messages), self.chat, self.budget, SUMMARY_ROOM)

    def spell(self, view: View, move: str) -> str:
        """A move in the profile's syntax. Raises ValueError when the view says of no window that it is the current one."""
        places = WINDOW.findall(view.messages[0].content)
        if not places:
            raise ValueError("the view says of no window that it is the current one: not a profile with windows")
        return respell(move, tools_of(view), self.profile, places[-1])


def tools_of(view: View) -> tuple[ToolSpec, ...]:
    """The business tools of the family that the view's contract shows, and the register that some probes add to any family's."""
    spec = spec_of(view.messages)
    return spec.lookup, spec.change, ENTER
