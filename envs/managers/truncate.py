"""``truncate``: plain history with the oldest messages dropped until the rest fits the budget."""

from __future__ import annotations

from envs.chat import ChatML, Message
from envs.log import Log


def plain_messages(log: Log) -> list[tuple[int, Message]]:
    """The whole history as plain messages, each with the position of its first log entry. Neighbouring host texts are joined."""
    out: list[tuple[int, Message]] = []
    for position, event in enumerate(log):
        if event.role == "assistant":
            out.append((position, Message("assistant", event.text, event.ids)))
        elif out and out[-1][1].role == "user":
            out[-1] = (out[-1][0], Message("user", f"{out[-1][1].content}\n{event.text}"))
        else:
            out.append((position, Message("user", event.text)))
    return out


def fit(messages: list[Message], budget: int, chat: ChatML, head: Message) -> list[Message]:
    """The longest tail that fits beside ``head``, never starting with the policy's own turn; the last message always stays."""
    room = budget - len(chat.message_ids(head)) - len(chat.generation)
    kept: list[Message] = []
    for message in reversed(messages):
        room -= len(chat.message_ids(message))
        if room < 0 and kept:
            break
        kept.append(message)
    kept.reverse()
    while len(kept) > 1 and kept[0].role == "assistant":
        kept.pop(0)
    return [head, *kept]


def truncate(log: Log, budget: int, chat: ChatML, system: str) -> list[Message]:
    """The newest messages that fit ``budget`` tokens, system message included."""
    return fit([m for _, m in plain_messages(log)], budget, chat, Message("system", system))
