"""``layered``: context as a governed layer instead of a list.

- **persistent**: the system text and the user's standing instructions, in every request;
- **working**: a fact store of what is known now, one active value an entity (``facts.py``), emptied when the task ends;
- **session**: the newest ten records raw, what is older compressed into a summary that is compressed again when it grows.

Compression is triggered by turns, fill or one large result. Whitelisted identifiers are carried over word for word, and the facts
before and after are compared: what the summary lost is written back. Each request is measured (``health.py``), what is out of bounds
repaired, and a record kept in ``requests``.

Loses what is neither a fact by the patterns nor frequent, and takes more tokens than ``pinned`` for short histories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from envs.chat import ChatML
from envs.managers.base import Count, Manager, Picked, Record, _joined, rendered, sentences, tail, whole_exchanges
from envs.managers.facts import Fact, FactStore, stated
from envs.managers.health import Health, Request, measure
from envs.managers.retrieval import overlap
from envs.managers.summary import extract
from envs.managers.tables import trim_result

WHITELIST = re.compile(r"\b[A-Z]{2,}(?:-\w+)+\b|\b1\d{10}\b|\b(?:user|order|id)[ _:#-]*\w*\d\w*\b")
"""Order numbers, codes, phone numbers, user ids."""
INSTRUCTION = re.compile(
    r"\b(?:always|never|must|do not|don't|only|keep|from now on|make sure)\b|必须|不要|始终|务必|只能", re.IGNORECASE
)
TASK_END = re.compile(
    r"\b(?:new task|start over|the task is (?:done|finished|over)|forget everything)\b|新任务|重新开始", re.IGNORECASE
)
MOST_TURNS, MOST_FILL, MOST_RESULT, RAW = 20, 0.60, 2000, 10
SUMMARY_SHARE, FACTS_SHARE, RAW_SHARE = 0.2, 0.45, 0.35
"""Of the room for the past: the summary, the facts, the raw records."""


class Layered(Manager):
    """The layered manager; ``requests`` holds what was recorded of every request.

    Args:
        facts: what is known before the history begins.
        whitelist: identifiers that no compression may lose.
    """

    name = "layered"

    def __init__(self, facts: Iterable[Fact] = (), whitelist: re.Pattern[str] = WHITELIST) -> None:
        self.store = FactStore(facts)
        self.whitelist = whitelist
        self.instructions: list[str] = []
        self.summary: list[str] = []
        self.compressions = 0
        self.requests: list[Request] = []
        self._seen = 0
        self._upto = -1
        self._raw = RAW

    # ---- what comes in ------------------------------------------------------------------------------------------------------

    def take(self, records: Sequence[Record]) -> None:
        """Classify new records: instructions, facts, process."""
        for record in records[self._seen :]:
            if record.role == "user" and TASK_END.search(record.text):
                self.store.clear()
            if record.role == "user":
                self.instructions += [
                    s for s in sentences(record.text) if INSTRUCTION.search(s) and "?" not in s and s not in self.instructions
                ]
            for fact in stated(record):
                self.store.write(fact)
        self._seen = len(records)

    def triggers(self, records: Sequence[Record], tokens: int, budget: int, count: Count) -> list[str]:
        """Why the older records must be compressed now: ``turns``, ``fill``, ``result``."""
        raw = [r for r in records if r.place > self._upto]
        large = min(MOST_RESULT, int(0.25 * budget))  # scaled: a result of 2,000 tokens is no event in a large window
        found = ["turns"] * (sum(r.role == "user" for r in raw) > MOST_TURNS)
        found += ["fill"] * (tokens > MOST_FILL * budget)
        return found + ["result"] * any(r.role == "tool" and count(r.text) > large for r in raw[:-2])

    # ---- the view -----------------------------------------------------------------------------------------------------------

    def _decide(self, records: Sequence[Record], budget: int, chat: ChatML, system: str) -> tuple[Picked, list[Record]]:
        self.take(records)
        newest = max((i for i, r in enumerate(records) if r.role == "user"), default=0)
        past, now = list(records[:newest]), [self._slim(r) for r in records[newest:]]
        question = now[0].text if now else ""
        room = max(0, budget - rendered(system, now, chat))
        picked = self._compose(past, room, chat.count, question)
        tokens = rendered(_joined(system, picked.head), [*picked.kept, *now], chat)
        if self.triggers(past, tokens, budget, chat.count):
            self._compress(past, room, chat.count)
            picked = self._compose(past, room, chat.count, question)
        picked, repairs, health = self._repair(past, now, picked, room, budget, chat, system)
        tokens = rendered(_joined(system, picked.head), [*picked.kept, *now], chat)
        self.requests.append(
            Request(
                f"req_{len(self.requests) + 1}", tokens, budget, len(picked.kept) + len(now) + 1, len(self.store.facts),
                self.store.count("expired"), self.compressions, health, tuple(repairs),
            )
        )  # fmt: skip
        return picked, now

    def _slim(self, record: Record) -> Record:
        return replace(record, text=trim_result(record.text)) if record.role == "tool" else record

    def _compose(self, past: Sequence[Record], room: int, count: Count, question: str) -> Picked:
        """The layers: instructions, facts nearest to the question, summary, raw records without repeats."""
        raw = without_repeats([self._slim(r) for r in past if r.place > self._upto])
        if self._upto < 0:
            return Picked(raw)
        # Whole exchanges alone are shown in the end: what a cut one says must still count as out of view.
        kept = whole_exchanges(tail(raw[-self._raw :], int(RAW_SHARE * room), count))
        shown = "\n".join(r.text for r in kept)
        facts = [f for f in self.store.active() if f.text not in shown]
        facts.sort(key=lambda f: (-overlap(question, f.text), -f.timestamp))
        lines = _fit([f.text for f in facts], int(FACTS_SHARE * room), count)
        parts = [_fit(self.instructions, int(0.1 * room), count), lines, self.summary]
        names = ("instructions", "facts", "summary")
        return Picked(kept, "\n".join(f"{n}:\n" + "\n".join(p) for n, p in zip(names, parts, strict=True) if p))

    def _compress(self, past: Sequence[Record], room: int, count: Count) -> None:
        """Everything but the newest raw records becomes summary, the summary so far included; then the fact-set check."""
        raw = [r for r in past if r.place > self._upto]
        kept = whole_exchanges(tail(raw[-self._raw :], int(RAW_SHARE * room), count))
        gone = raw[: len(raw) - len(kept)]
        if not gone:
            return
        old = [Record("user", line, -1) for line in self.summary]
        process = [self._slim(r) for r in gone if r.role != "user"]
        self.summary = extract([*old, *process], int(SUMMARY_SHARE * room), count).split("\n")
        self._upto = gone[-1].place
        self.compressions += 1
        self._keep_identifiers(gone, room, count)

    def _keep_identifiers(self, gone: Sequence[Record], room: int, count: Count) -> None:
        """The check after a compression: identifiers that neither summary nor facts hold are written back word for word.

        Facts themselves cannot be lost by it: the store keeps them. Values that were replaced are let go.
        """
        have = "\n".join([*self.summary, *(f.text for f in self.store.active())])
        lost = [
            m
            for r in gone
            for m in dict.fromkeys(self.whitelist.findall(r.text))
            if m not in have and m not in self.store.retired
        ]
        kept = _fit(list(dict.fromkeys(lost)), int(0.1 * room), count)
        if kept:
            self.summary.append("ids: " + ", ".join(kept))

    # ---- health -------------------------------------------------------------------------------------------------------------

    def _repair(
        self, past: Sequence[Record], now: Sequence[Record], picked: Picked, room: int, budget: int, chat: ChatML, system: str
    ) -> tuple[Picked, list[str], Health]:  # fmt: skip
        """Measure the view and mend what is out of bounds, once each; returns the view, the repairs and its health before them."""
        tokens = rendered(_joined(system, picked.head), [*picked.kept, *now], chat)
        # What the view would repeat without the repair counts, so the raw records stand for it here.
        texts = [picked.head, *(r.text for r in past if r.place > self._upto), *(r.text for r in now)]
        health, repairs = measure(tokens, budget, texts, self.store), []
        for name in health.broken():
            if name == "conflicts" and self.store.settle():
                repairs.append("settled conflicts")
            elif name == "stale" and self.store.purge():
                repairs.append("purged expired facts")
            elif name == "redundancy":
                repairs.append("removed repeats")
            elif name == "bloat":
                raw, self._raw = self._raw, max(2, self._raw // 2)
                self._compress(past, room, chat.count)
                repairs.append("compressed")
                picked = self._compose(past, room, chat.count, now[0].text if now else "")
                self._raw = raw
                continue
            picked = self._compose(past, room, chat.count, now[0].text if now else "")
        return picked, repairs, health


def without_repeats(records: Sequence[Record]) -> list[Record]:
    """A result that comes again word for word stays where it came last; before that, a line says so."""
    last = {r.text: i for i, r in enumerate(records) if r.role == "tool"}
    return [
        replace(r, text=f"[{r.name or 'result'}: the same as the later one]") if r.role == "tool" and last[r.text] != i else r
        for i, r in enumerate(records)
    ]


def _fit(lines: Sequence[str], room: int, count: Count) -> list[str]:
    """Lines in order until the room is used."""
    out = []
    for line in lines:
        flat = " ".join(line.split())
        room -= count(flat + "\n")
        if room < 0:
            break
        out.append(flat)
    return out
