"""``llm_summary``: the policy model itself summarises what no longer fits; the tokens of that count.

As good as the model that writes it, and asked for anew only when more has to go: each summary takes the one before into account.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.chat import ChatML, Message
from envs.log import Log
from envs.managers.base import Count, Manager, Picked, Record, records_of, rendered, tail
from envs.profiles import prompt_text

SHARE = 0.5
"""Of the budget, what the newest records may take beside the summary."""

LEAST = 4
"""Words of a summary: fewer are a failed call."""


class LlmSummary(Manager):
    """A running summary up to a place in the history, and the records after it."""

    name = "llm_summary"

    def __init__(self) -> None:
        self.summary, self.upto = "", -1
        self._asked = self._failed = -1

    def _past(self, records: Sequence[Record]) -> list[Record]:
        newest = max((i for i, r in enumerate(records) if r.role == "user"), default=0)
        return [r for r in records[:newest] if r.place > self.upto]

    def request(self, log: Log, budget: int, chat: ChatML, system: str) -> list[Message] | None:
        records = records_of(log)
        newest = max((i for i, r in enumerate(records) if r.role == "user"), default=0)
        past, now = self._past(records), records[newest:]
        head = f"{system}\nsummary: {self.summary}" if self.summary else system
        if not past or rendered(head, [*past, *now], chat) <= budget:
            return None
        kept = tail(past, int(SHARE * (budget - rendered(head, now, chat))), chat.count)
        while kept and kept[0].role != "user":
            kept.pop(0)
        gone = past[: len(past) - len(kept)]
        if not gone or gone[-1].place == self._failed:
            return None
        self._asked = gone[-1].place
        text = "\n".join([*([f"summary so far: {self.summary}"] if self.summary else []), *(r.text for r in gone)])
        ask = [Message("system", prompt_text("maintenance", True)), Message("user", text)]
        over = len(chat.render(ask)) - budget
        if over > 0:  # too much at once for the model's own view: the oldest lines go
            ask[1] = Message("user", "".join(chat.pages(text, max(16, chat.count(text) - over - 8))[-1:]))
        return ask

    def receive(self, text: str) -> None:
        if len(text.split()) < LEAST:  # no summary: what it should have replaced stays, as far as it fits
            self._failed = self._asked
        else:
            self.summary, self.upto = " ".join(text.split()), self._asked

    def pick(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        return Picked([r for r in past if r.place > self.upto], f"summary: {self.summary}" if self.summary else "")
