"""Plain lists of messages and what a manager shows of them: what the tests of the managers share."""

from __future__ import annotations

from game import filler

from envs.managers import get_manager

NOISE = [f"user: {filler(7, i)}" if i % 2 == 0 else f"assistant: {filler(5, i + 3)}" for i in range(16)]


def conversation(*turns: str, system: str = "You are an assistant.", question: str = "What was it?") -> list[dict[str, str]]:
    """Turns ``user: …``, ``tool: …`` or ``assistant: …``, then the question."""
    messages = [{"role": "system", "content": system}]
    for turn in turns:
        role, text = turn.split(": ", 1)
        messages.append({"role": role, "content": text})
    return [*messages, {"role": "user", "content": question}]


def shown(name: str, messages: list[dict[str, str]], budget: int) -> str:
    return "\n".join(m["content"] for m in get_manager(name)(messages, budget)[:-1])
