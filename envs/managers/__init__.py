"""Host-only managers: the policy has no context tools, the host decides what of the history is shown. Baselines, one file each."""

from __future__ import annotations

from collections.abc import Callable

from envs.chat import ChatML, Message
from envs.log import Log
from envs.managers.pinned import pinned
from envs.managers.truncate import truncate

Manager = Callable[[Log, int, ChatML, str], list[Message]]
"""``(log, token budget, chat, system text) -> messages`` of the next input."""

MANAGERS: dict[str, Manager] = {"truncate": truncate, "pinned": pinned}


def get_manager(name: str) -> Manager:
    """The manager of that name. Raises ValueError naming the choices."""
    if name not in MANAGERS:
        raise ValueError(f"unknown manager {name!r}: choose one of {', '.join(MANAGERS)}")
    return MANAGERS[name]
