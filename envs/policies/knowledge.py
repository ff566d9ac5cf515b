"""What a view tells the expert: values with the events that state them, the user's constraint and rule, and where to look."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from envs.chat import ChatML
from envs.policies.base import View
from envs.policies.reading import (
    Pointer,
    Request,
    Stated,
    brief_facts,
    every_value,
    fields_of,
    names_field,
    read_request,
    result_facts,
    struck_values,
    summary,
    user_fact,
)
from envs.policies.rulings import Rules
from envs.policies.seen import Block, Seen, read_view
from envs.tasks.spec import FamilySpec

REPLY_ROOM = 84
"""Tokens of a turn's text that leave room for the call around it, under the reply cap of ``core@1``."""
GAP = re.compile(r"e(\d+)(?:-e(\d+))? dropped\b")


@dataclass(frozen=True, slots=True)
class Known:
    """A value of a key with the event that states it; ``evidence`` when the event's own text stands in view."""

    value: str
    event: int
    evidence: bool = False


def pieces(block: Block) -> list[Block]:
    """The events of a read-back of a range, each as a block of its own; a read-back of one event as it is."""
    if block.last == block.first:
        return [block]
    parts = re.split(r"(?:^|\n)\[e(\d+) \w+\] ", block.text)
    return [replace(block, first=int(e), last=int(e), text=t) for e, t in zip(parts[1::2], parts[2::2], strict=True)]


def event_of(block: Block, stated: Stated) -> int:
    """The result that a brief, result or read-back tells of."""
    return stated.part.event if stated.part else block.last


def ref_of(block: Block, stated: Stated) -> int:
    """The reference that a brief gives for its evidence."""
    return stated.part.event if stated.part else (block.keep or (block.last,))[-1]


class Knowledge:
    """One view as the expert understands it."""

    def __init__(self, view: View, chat: ChatML, budget: int, reply: int = REPLY_ROOM) -> None:
        self.view, self.chat, self.budget, self.reply_room = view, chat, budget, reply
        self.seen: Seen = read_view(view.messages)
        self.spec: FamilySpec = self.seen.spec
        self.question: Block = self.seen.question
        self.request: Request = read_request(self.spec, self.question.text)
        self.briefs: list[tuple[Block, Stated]] = [(b, s) for b in self.seen.of("fold") if (s := brief_facts(self.spec, b.text))]
        texts = [*self.seen.of("result"), *(piece for b in self.seen.reads for piece in pieces(b))]
        self.results: list[tuple[Block, Stated]] = [(b, s) for b in texts if (s := result_facts(self.spec, b.text))]
        self.results += self._later_pages()

        self.summary: dict[str, Pointer] = {}
        for block in self.seen.of("boundary"):
            self.summary.update(summary(self.spec, block.text))
        lists = self.summary.pop("lists", None)
        self.listed: tuple[int, ...] = lists.events if lists else ()
        """Turns of earlier summaries, the one in view last."""

    def _later_pages(self) -> list[tuple[Block, Stated]]:
        """Pages in view without the first: what they are of is told by a brief of the pages before, or by the first page further up."""
        found = []
        for block in (b for b in self.seen.reads if b.start > 1 and b.first == b.last):
            known = [s for b, s in [*self.results, *self.briefs] if event_of(b, s) == block.first]
            if known:
                tails = [s.part.tail for s in known if s.part and s.part.last == block.start - 1]
                fields = dict(fields_of(self.spec, block.text))
                for tail in tails[-1:]:  # a page may begin in mid-sentence, and a brief keeps no space at its end
                    fields.update(fields_of(self.spec, tail + block.text))
                    fields.update(fields_of(self.spec, f"{tail} {block.text}"))
                found.append((block, replace(known[-1], fields=fields, part=None)))
        return found

    # ---- what is known ------------------------------------------------------------------------------------------------------

    def known(self, entity: str, attr: str) -> Known | None:
        """The newest value of a record's field that stands in view; of one event, its own text before what was written of it."""
        found = self.claims(entity, attr)
        return max(found, key=lambda k: (k.event, k.evidence), default=None)

    def claims(self, entity: str, attr: str) -> list[Known]:
        """Every value of a record's field that the view gives. A note without evidence, or an old one, claims nothing."""
        found = []
        note = self.seen.notes.get(self.spec.key(entity, attr))
        if note and (note.status not in ("candidate", "old") or note.value == self.spec.words.none):
            found.append(Known(note.value, note.source))
        for block, stated in self.briefs:
            if stated.entity == entity and attr in stated.fields:
                found += [Known(value, event_of(block, stated)) for value in every_value(self.spec, attr, block.text)]
        for block, stated in self.results:
            if stated.entity == entity and attr in stated.fields:
                found.append(Known(stated.fields[attr], event_of(block, stated), evidence=True))
        pointer = self.summary.get(entity)
        if pointer and attr in pointer.fields:
            found.append(Known(pointer.fields[attr], max(pointer.events)))
        out = self.struck.get((entity, attr))
        return [k for k in found if not out or k.event > out.event]

    def contested(self, entity: str, attr: str) -> int:
        """The event of which notes and briefs say different things while its own text is out of view; 0 when there is none."""
        found = self.claims(entity, attr)
        newest = max((k.event for k in found), default=0)
        top = [k for k in found if k.event == newest]
        return newest if len({k.value for k in top}) > 1 and not any(k.evidence for k in top) else 0

    def misstated(self, entity: str, attr: str, known: Known) -> bool:
        """Whether a brief of the event that states ``known`` gives the field otherwise: another value, two, or one it cannot have."""
        return any(
            names_field(self.spec, attr, block.text) and set(every_value(self.spec, attr, block.text)) != {known.value}
            for block, stated in self.briefs
            if stated.entity == entity and event_of(block, stated) == known.event and stated.part is None
        )

    def gaps(self) -> list[int]:
        """Events that the index lists as dropped: nothing else tells what they held."""
        return [int(m[2] or m[1]) for m in GAP.finditer(self.seen.out)]

    def constraint(self) -> Known | None:
        """The newest value of the user's constraint in view."""
        found = [Known(v, b.first) for b in self.seen.of("user") if (v := user_fact(self.spec, b.text))]
        for block in self.seen.reads:
            for piece in re.split(r"\n?\[e\d+ user\] ", block.text):
                if value := user_fact(self.spec, piece):
                    found.append(Known(value, block.first))
        note = self.seen.notes.get(self.spec.user_fact.key)
        if note:
            found.append(Known(note.value, note.source))
        return max(found, key=lambda k: k.event, default=None)

    @cached_property
    def rules(self) -> Rules:
        """The user's rule and exceptions as far as the view tells."""
        return Rules.of(self.spec, self.told(), self.seen.notes)

    @cached_property
    def struck(self) -> dict[tuple[str, str], Known]:
        """Values that the user ruled out, by record and field: from messages in view, read again, or noted as old."""
        found: dict[tuple[str, str], Known] = {}
        for event, text in self.told():
            for entity, attr, value in struck_values(self.spec, text):
                found[entity, attr] = Known(value, event, evidence=True)
        for entity in self.spec.entities:
            for name in (a.name for a in self.spec.attrs):
                note = self.seen.notes.get(self.spec.key(entity, name))
                if note and note.status == "old" and (entity, name) not in found:
                    found[entity, name] = Known(note.value, note.source)
        return found

    def told(self) -> list[tuple[int, str]]:
        """User messages in view or read again: event and text."""
        told = [(b.first, b.text) for b in self.seen.of("user")]
        for block in self.seen.reads:
            pieces = re.split(r"\n?\[e(\d+) user\] ", block.text)
            told += [(block.first, pieces[0])] if block.name == "user" else []
            told += [(int(e), text) for e, text in zip(pieces[1::2], pieces[2::2], strict=True)]
        return told

    def was_read(self, event: int) -> bool:
        return any(b.first <= event <= b.last for b in self.seen.of("read") if b.place > self.question.place)

    def places(self, entity: str) -> list[int]:
        """Events that may hold the record, newest first."""
        refs = [ref_of(b, s) for b, s in self.briefs if s.entity == entity and not (s.changed and s.fields and not s.part)]
        refs += [b.last for b, s in self.results if s.entity == entity]
        if entity in self.summary:
            refs += self.summary[entity].events
        for block in self.seen.of("cleared"):
            call = next((o.text for o in reversed(self.seen.own) if o.place < block.place and f"={entity}" in o.text), "")
            if call:
                refs.append(block.first)
        return sorted(set(refs), reverse=True)

    def records(self) -> list[str]:
        """All records that the view knows of."""
        found = [*self.summary, *(s.entity for _, s in [*self.briefs, *self.results])]
        by_key = {self.spec.key(e, ""): e for e in self.spec.entities}
        found += [by_key[k.rpartition(".")[0] + "."] for k in self.seen.notes if k.rpartition(".")[0] + "." in by_key]
        return list(dict.fromkeys(found))
