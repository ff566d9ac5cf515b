"""Compression by a maintenance sub-agent: the host asks for a summary of what the policy wants compressed; its tokens count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.calls import Host, Rejected, check_position
from envs.chat import Message
from envs.compact import Call
from envs.policies.base import View
from envs.profiles import prompt_text
from envs.rewrites import check_compress
from envs.state import State
from envs.view import Renderer


@dataclass(frozen=True, slots=True)
class Pending:
    """A compression that waits for its summary, with what is left of its turn."""

    host: Host
    call: Call
    rest: tuple[Call, ...]
    rewrite: bool
    leaves: bool

    @classmethod
    def of(cls, host: Host, state: State, call: Call, rest: Sequence[Call], rewrite: bool, leaves: bool) -> Pending:
        """Check the range before anybody is asked. Raises Rejected."""
        check_position(host, state, call)
        check_compress(host, state, call)
        pending = cls(host, call, tuple(rest), rewrite, leaves)
        if maintenance_view(pending, state).tokens > host.profile.view_budget:
            raise Rejected("limit_exceeded", "the request for a summary would not fit the view", "an earlier event")
        return pending


def maintenance_view(pending: Pending, state: State) -> View:
    """The sub-agent's input: its instruction, and the part of the view that the summary will replace."""
    host = pending.host
    shown = Renderer(host.profile, host.chat, "").upto(host.log, state, pending.call.args["upto"])
    messages = [Message("system", prompt_text("maintenance", True)), Message("user", shown)]
    return View(messages, host.chat.render(messages))
