"""Large results and far records: which pages of an event the view has shown, which to read next, and which event a turn is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from envs.policies.knowledge import REPLY_ROOM, Knowledge, event_of
from envs.policies.reading import Pointer, Stated, list_text, summary
from envs.policies.seen import Block, Own

PAGES_A_TURN = 3
"""Pages asked for in one turn, at most: a fact stands on one of them, so more would often be read in vain."""
ENTRY = re.compile(r"e(\d+)(?:-e(\d+))? ([\w+-]+)")
LEAST_SHARE = 0.05
"""Of what a brief or summary covers: one of four percent is refused as empty."""
TAG_TOKENS = 8
"""Tokens of the line over a page, about."""


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring exchanges in view that show pages of one event: what one fold can take."""

    first: int
    last: int
    event: int
    place: int
    covered: int


class Paging(Knowledge):
    """Reading on in what the view shows in part."""

    @property
    def most_covered(self) -> int:
        """Tokens that one fold may take: its brief must say a share of them, and fit a reply."""
        return int(REPLY_ROOM / LEAST_SHARE)

    # ---- pages --------------------------------------------------------------------------------------------------------------

    def scan(self, event: int, attr: str = "", fresh: bool = False) -> str:
        """The next reads of an event until it has shown the field or all its pages; nothing after that.

        What earlier Runs read counts as long as it stands in view or a brief lists it, unless ``fresh``.
        """
        since = self.question.place if fresh else -1
        if any(b.first == event for b in self.seen.of("result")) or self.in_range(event):
            return ""
        seen: set[int] = set()
        pages = 0
        for block in (b for b in self.seen.reads if b.first == b.last == event and b.place > since):
            seen.update(range(block.start, block.page + 1))
            pages = block.pages
        if attr and any(attr in s.fields and b.place > since for b, s in self.results if b.first == b.last == event):
            return ""
        for block, stated in self.briefs:
            part = stated.part
            if not part or part.event != event or block.place <= since:
                continue
            if attr in stated.fields:
                return ""
            pages = part.pages
            if part.whole or not attr or (part.without == self.spec.attr(attr).noun):
                seen.update(range(part.first, part.last + 1))
        if not pages:
            return f"read e{event}"
        left = [p for p in range(1, pages + 1) if p not in seen]
        near = [p for p in left if p < left[0] + PAGES_A_TURN]
        return "\n".join(f"read e{event}" + (f" p{p}" if p > 1 else "") for p in near)

    def in_range(self, event: int) -> bool:
        """Whether a read-back of a range holds the event: in view, or asked for since the question."""
        wide = [b for b in self.seen.of("read") if b.first <= event <= b.last and b.first < b.last]
        return any(b.place > self.question.place for b in wide) or (bool(wide) and any(b.last == event for b, _ in self.results))

    def open_changes(self, entity: str, attr: str, after: int) -> list[int]:
        """Changes of the record after ``after`` that may give the field and were not seen whole: events to read, newest first."""
        found = {
            event_of(b, s)
            for b, s in [*self.briefs, *self.results]
            if s.entity == entity and s.changed and (not s.fields or s.part or b.page < b.pages)
        }
        found |= {max(p.events) for p in self.pointers(entity) if attr in p.changes}
        return [e for e in sorted(found, reverse=True) if e > after and self.scan(e, attr)]

    # ---- lists of earlier summaries -------------------------------------------------------------------------------------------

    def lists(self) -> Iterator[tuple[int, str]]:
        """Turns of earlier summaries that hold what later ones had no room for, newest first, each with its text if it was read."""
        texts = {b.first: list_text(b.text) for b in self.seen.reads if b.name == "own" and b.page == b.pages}
        left = sorted(self.listed[:-1], reverse=True)
        done: set[int] = set()
        while left:
            event = left.pop(0)
            if event not in done:
                done.add(event)
                yield event, texts.get(event, "")
                older = summary(self.spec, texts.get(event, "")).get("lists")
                left = sorted({*left, *(older.events[:-1] if older else ())}, reverse=True)

    def read_list(self) -> str:
        """The next earlier summary to read."""
        return next((f"read e{event}" for event, text in self.lists() if not text), "")

    def pointers(self, entity: str) -> list[Pointer]:
        """What the summary in view and the earlier ones that were read say of a record."""
        told = [self.summary, *(summary(self.spec, text) for _, text in self.lists() if text)]
        return [held[entity] for held in told if entity in held]

    def later(self, entity: str, attr: str, after: int) -> list[int]:
        """Events after ``after`` that a summary lists for the record, newest first: any may hold a change of the field."""
        others = {e for e, changed in self.changes_of(entity).items() if attr not in changed}
        return sorted({e for p in self.pointers(entity) for e in p.events if e > after} - others, reverse=True)

    def changes_of(self, entity: str) -> dict[int, tuple[str, ...]]:
        """Changes of a record that are known to the last field: event -> fields. Others are left out."""
        found = {max(p.events): p.changes for p in self.pointers(entity) if p.changes}
        seen: dict[int, tuple[set[int], set[str], int]] = {}
        for block, stated in [*self.briefs, *self.results]:
            part = stated.part
            if stated.entity != entity or not stated.changed or not (part.whole if part else block.pages > 1):
                continue
            first, last, of = (part.first, part.last, part.pages) if part else (block.start, block.page, block.pages)
            pages, fields, _ = seen.setdefault(event_of(block, stated), (set(), set(), of))
            pages.update(range(first, last + 1))
            fields.update(stated.fields)
        found.update({e: tuple(sorted(fields)) for e, (pages, fields, of) in seen.items() if len(pages) == of})
        return found

    # ---- numbers of the policy's own turns, which carry no tag -------------------------------------------------------------

    @cached_property
    def numbers(self) -> tuple[dict[int, int], int]:
        """Event of each own turn in view by its place, and the event that the next turn will be."""
        gone: set[int] = set()
        top = 0
        for m in ENTRY.finditer(self.seen.out):
            top = max(top, int(m[2] or m[1]))
            if m[3] == "control":
                gone.update(range(int(m[1]), int(m[2] or m[1]) + 1))
        found: dict[int, int] = {}
        now = 0
        items: list[Block | Own] = [*self.seen.blocks, *self.seen.own]
        for item in sorted(items, key=lambda i: i.place):
            if isinstance(item, Own):
                now += 1
                while now in gone:
                    now += 1
                found[item.place] = now
            elif item.kind in ("user", "result", "paged", "cleared", "fold", "boundary"):
                if item.kind in ("result", "paged", "cleared") and item.place - 1 in found and item.first > now:
                    found[item.place - 1] = item.first - 1 if now < item.first - 1 else found[item.place - 1]
                now = max(now, item.last)
        return found, max(now, top) + 1

    @property
    def next_event(self) -> int:
        """The event that this turn will be."""
        return self.numbers[1]

    def groups(self) -> list[Group]:
        """The groups of pages in view, in order. A group ends where its fold's least text would not fit a reply."""
        numbers, _ = self.numbers
        after: dict[int, list[Block]] = {}
        for block in self.seen.blocks:
            after.setdefault(block.place, []).append(block)
        found: list[Group] = []
        open_ = False
        for own in self.seen.own:
            blocks = after.get(own.place + 1, [])
            shown = [b for b in blocks if b.kind in ("read", "paged") and b.first == b.last and self.issued(own, b)]
            events = {b.first for b in shown}
            others = any(b.kind in ("result", "cleared", "hit", "ack", "reject") for b in blocks)
            if len(events) == 1 and not others:
                event, number = events.pop(), numbers[own.place]
                last = max([number, *(b.first for b in shown if b.kind == "paged")])
                size = self.chat.count(own.text) + sum(self.chat.count(b.text) + TAG_TOKENS for b in shown)
                held = found[-1] if open_ and found else None
                if held and held.event == event and held.covered + size < self.most_covered:
                    found[-1] = Group(held.first, last, event, held.place, held.covered + size)
                else:
                    found.append(Group(number, last, event, own.place, size))
            open_ = len(shown) > 0 and not others and not any(b.kind in ("user", "fold") for b in blocks)
        return found

    @staticmethod
    def issued(own: Own, block: Block) -> bool:
        """Whether this turn asked for the page; what a turn that left the view had asked for stands after another one."""
        asked = f"read e{block.first}" + (f" p{block.page}" if block.page > 1 else "")
        return block.kind == "paged" or asked in own.text.split("\n")

    def stretch(self, group: Group) -> tuple[Block, Stated] | None:
        """The joined pages of a group's event, and what they state; None where they are of no record."""
        found = [(b, s) for b, s in self.results if b.first == b.last == group.event]
        return next(((b, s) for b, s in found if b.place >= group.place), None)


def first_line(lines: Sequence[str]) -> str:
    """The first that says anything."""
    return next((line for line in lines if line), "")
