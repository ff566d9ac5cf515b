"""Host-only managers: the policy has no context tools, the host decides what of the history is shown. Baselines, one file each.

As arms of an evaluation by name (``get_manager``), or on any list of chat messages::

    from envs.managers import layered
    shorter = layered(messages, budget=2000)

For a conversation that goes on, keep the manager: ``manager = Layered()``, then ``manager(messages, 2000)`` before every request;
``manager.requests`` tells how it went.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.chat import ChatML
from envs.managers.base import Manager, Picked, Record
from envs.managers.bm25 import Bm25
from envs.managers.clear_tool_results import ClearToolResults
from envs.managers.combo import Combo
from envs.managers.layered import Layered
from envs.managers.llm_summary import LlmSummary
from envs.managers.pinned import Pinned
from envs.managers.recent import Recent
from envs.managers.retrieval import Retrieval
from envs.managers.retrieval_global import RetrievalGlobal
from envs.managers.summary import Summary
from envs.managers.truncate import Truncate

MANAGERS: dict[str, type[Manager]] = {
    m.name: m
    for m in (
        Truncate, Recent, Summary, Retrieval, Bm25, RetrievalGlobal, Combo, Pinned, LlmSummary, ClearToolResults, Layered,
    )
}  # fmt: skip


def get_manager(name: str) -> Manager:
    """A fresh manager of that name, for one history. Raises ValueError naming the choices."""
    if name not in MANAGERS:
        raise ValueError(f"unknown manager {name!r}: choose one of {', '.join(MANAGERS)}")
    return MANAGERS[name]()


def layered(messages: Sequence[Mapping[str, Any]], budget: int, *, chat: ChatML | None = None) -> list[dict[str, Any]]:
    """``Layered`` on one list of messages. Any other manager goes the same way: ``get_manager("pinned")(messages, budget)``."""
    return Layered()(messages, budget, chat=chat)


__all__ = ["MANAGERS", "Layered", "Manager", "Picked", "Record", "get_manager", "layered"]
