"""What host-only managers share: a plain history goes in, the part that fits a budget comes out.

A manager decides two things about the *past* (all before the newest user message): ``head``, a text that is put at the end of the
system message (a summary, facts, quotations), and ``kept``, the records that stay as messages. What follows the newest user message
always stays, as far as it fits, and while the whole history fits there is nothing to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

from envs.chat import ChatML, Message, get_chat
from envs.log import Log

Count = Callable[[str], int]
"""Tokens of a text."""
SENTENCE = re.compile(r"(?:[^.!?。！？\n]|[.!?](?=\S))+(?:[.!?](?!\S)|[。！？]|\n|$)|\S+")
"""A dot, question or exclamation mark within a word (``8.4.19``) ends nothing."""
WORD = re.compile(r"\w+(?:[-./:]\w+)*")
OVERHEAD = 6
"""Tokens of chat format that a message costs at most."""
PASSAGE = 64
"""Tokens of a passage: long records are searched and quoted in pieces of about this size."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a plain history. ``place`` is its number in the history; ``ids`` the sampled ids of the model's own turn."""

    role: Literal["user", "assistant", "tool"]
    text: str
    place: int
    name: str = ""
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """A manager's decision about the past."""

    kept: Sequence[Record] = ()
    head: str = ""


class Manager:
    """Base of all managers; a fresh one for every history. Subclasses say what of the past is shown (``pick``)."""

    name: ClassVar[str] = ""

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        """Decide about the past.

        Args:
            past: records before the newest user message, oldest first.
            room: tokens that are left for head and kept records.
            count: tokens of a text.
            question: text of the newest user message.
        """
        raise NotImplementedError

    def request(self, log: Log, budget: int, chat: ChatML, system: str) -> list[Message] | None:
        """A question to the policy model that must be answered (``receive``) before the next view; None for most managers."""
        return None

    def receive(self, text: str) -> None:
        """The answer to ``request``."""

    def view(self, log: Log, budget: int, chat: ChatML, system: str) -> list[Message]:
        """Messages of the next input, at most ``budget`` tokens wherever the newest message fits it."""
        records = records_of(log)
        picked, now = self._decide(records, budget, chat, system)
        return assemble(system, picked, now, budget, chat)

    def _decide(self, records: Sequence[Record], budget: int, chat: ChatML, system: str) -> tuple[Picked, list[Record]]:
        newest = max((i for i, r in enumerate(records) if r.role == "user"), default=0)
        past, now = list(records[:newest]), list(records[newest:])
        whole = rendered(system, records, chat)
        self.before(records, whole, budget, chat)
        if whole <= budget:
            return Picked(past), now
        room = budget - rendered(system, now, chat)
        if room <= 0 or not past:
            return Picked(), now
        return self.pick(past, room, chat.count, now[0].text), now

    def before(self, records: Sequence[Record], tokens: int, budget: int, chat: ChatML) -> None:
        """Called for every view with all records and the tokens of the whole history: bookkeeping of managers that keep any."""

    def __call__(self, messages: Sequence[Mapping[str, Any]], budget: int, *, chat: ChatML | None = None) -> list[dict[str, Any]]:
        """Manage a plain list of chat messages (``role`` and ``content``, as any endpoint takes them).

        Args:
            messages: system, user, assistant and tool messages, oldest first.
            budget: tokens of the result.
            chat: counts them (default: with SmolLM2's tokenizer).

        Raises:
            ValueError: a message without a known role or a text; it is named by its number.
        """
        chat = chat or get_chat()
        system = "\n".join(m["content"] for m in messages if m.get("role") == "system")
        records = []
        for number, message in enumerate(messages):
            role, text = message.get("role"), message.get("content")
            if role not in ("system", "user", "assistant", "tool") or not isinstance(text, str):
                raise ValueError(f"message {number}: role {role!r}, content {type(text).__name__}: needs a known role and a text")
            if role != "system":
                records.append(Record(role, text, number, str(message.get("name", ""))))
        picked, now = self._decide(records, budget, chat, system)
        head, shown = trimmed(system, picked, now, budget, chat)
        out = [dict(messages[r.place]) | {"content": r.text} for r in shown]
        text = _joined(system, head)
        return [{"role": "system", "content": text}, *out] if text else out


def records_of(log: Log) -> list[Record]:
    """The log as a plain history: outcomes of the host stand as user records."""
    out = []
    for position, event in enumerate(log):
        role: Literal["user", "assistant", "tool"] = event.role if event.role in ("assistant", "tool") else "user"
        out.append(Record(role, event.text, position, event.name if event.role == "tool" else "", event.ids))
    return out


def _joined(system: str, head: str) -> str:
    return "\n".join(t for t in (system, head) if t)


def messages_of(system: str, records: Sequence[Record]) -> list[Message]:
    """Chat messages: everything that is not the model's own turn is ``user``, neighbours joined by a line feed."""
    out = [Message("system", system)]
    host: list[str] = []
    for record in records:
        if record.role != "assistant":
            host.append(record.text)
            continue
        if host:
            out.append(Message("user", "\n".join(host)))
            host = []
        out.append(Message("assistant", record.text, record.ids))
    if host:
        out.append(Message("user", "\n".join(host)))
    return out


def rendered(system: str, records: Sequence[Record], chat: ChatML) -> int:
    """Tokens of a history as the model reads it."""
    return sum(len(chat.message_ids(m)) for m in messages_of(system, records)) + len(chat.generation)


def trimmed(system: str, picked: Picked, now: Sequence[Record], budget: int, chat: ChatML) -> tuple[str, list[Record]]:
    """Head and records that fit the budget, newest first; never starting with the model's own turn or a result without its call."""
    head, kept = picked.head, whole_exchanges(picked.kept)
    while kept and rendered(_joined(system, head), [*kept, *now], chat) > budget:
        kept = whole_exchanges(kept[1:])
    while head and rendered(_joined(system, head), now, chat) > budget:
        head = head.rsplit("\n", 1)[0] if "\n" in head else ""
    rest = list(now)
    if rendered(_joined(system, head), [*kept, *rest], chat) > budget:
        rest = _shortened(rest, lambda shown: rendered(_joined(system, head), [*kept, *shown], chat) <= budget)
    return head, [*kept, *rest]


def _shortened(now: Sequence[Record], fits: Callable[[Sequence[Record]], bool]) -> list[Record]:
    """The question with as many of the newest exchanges as fit; where not even one does, what the model must react to now."""
    starts = [i for i in range(1, len(now)) if now[i].role == "assistant"]
    for start in starts:
        if fits(shown := [now[0], *now[start:]]):
            return list(shown)
    last = list(now[starts[-1] + 1 :]) if starts else list(now)
    return last or [now[-1]]


def whole_exchanges(records: Sequence[Record]) -> list[Record]:
    """The records without a beginning that cannot stand first."""
    out = list(records)
    while out and out[0].role != "user":
        out.pop(0)
    return out


def assemble(system: str, picked: Picked, now: Sequence[Record], budget: int, chat: ChatML) -> list[Message]:
    """The messages of a decision."""
    head, records = trimmed(system, picked, now, budget, chat)
    return messages_of(_joined(system, head), records)


# ---- texts -------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=20_000)
def sentences(text: str) -> tuple[str, ...]:
    """Sentences and lines of a text, stripped."""
    return tuple(s for m in SENTENCE.finditer(text) if (s := m.group().strip()))


@lru_cache(maxsize=20_000)
def words(text: str) -> frozenset[str]:
    """Lower-case words of a text."""
    return frozenset(w.casefold() for w in WORD.findall(text))


def passages(records: Sequence[Record], count: Count) -> list[tuple[int, str]]:
    """``(place, text)`` of short records, and of pieces of long ones, each led by the record's first sentence (what it is about)."""
    out: list[tuple[int, str]] = []
    for record in records:
        if count(record.text) <= PASSAGE:
            out.append((record.place, record.text))
            continue
        lead, *rest = sentences(record.text)
        piece: list[str] = []
        for sentence in rest:
            piece.append(sentence)
            if count(" ".join([lead, *piece])) > PASSAGE:
                out.append((record.place, " ".join([lead, *piece])))
                piece = []
        if piece or not rest:
            out.append((record.place, " ".join([lead, *piece])))
    return out


def quoted(chosen: Sequence[tuple[int, str]], ranked: Sequence[int], room: int, count: Count) -> str:
    """The best passages that fit ``room``, in order of the history, one a line."""
    taken: list[int] = []
    for number in ranked:
        size = count(chosen[number][1] + "\n")
        if size <= room:
            room -= size
            taken.append(number)
    return "\n".join(" ".join(chosen[n][1].split()) for n in sorted(taken))


def tail(records: Sequence[Record], room: int, count: Count) -> list[Record]:
    """The newest records that fit ``room``."""
    kept: list[Record] = []
    for record in reversed(records):
        room -= count(record.text) + OVERHEAD
        if room < 0:
            break
        kept.append(replace(record))
    return kept[::-1]
