"""The expert's compressions: a summary of pointers, what it must keep, and what is left to the summary before."""

from __future__ import annotations

import re

from envs.policies.knowledge import Known, ref_of
from envs.policies.paging import LEAST_SHARE, Paging
from envs.policies.seen import Block, Own

LISTED = 4
"""Records from which on a summary names its own turn, so that a later one may leave records to it."""
ROOM_LEAST = 300
"""Tokens that a compression must cover before pages of this Run are folded instead."""


class Compressing(Paging):
    """What the expert makes of finished Runs."""

    def refused(self) -> bool:
        """Two refusals since the question: upkeep is given up for this Run instead of trying on."""
        return sum(b.kind == "reject" and b.place >= self.question.place for b in self.seen.blocks) > 1

    def fits(self, text: str, most: int) -> bool:
        """Whether a text takes at most ``most`` tokens. No token is less than a byte, so a short text need not be counted."""
        return len(text.encode()) <= most or self.chat.count(text) <= most

    def constraint_note(self) -> list[str]:
        """The user's constraints as note lines, those left out that are noted."""
        key = self.spec.user_fact.key
        told = self.constraint()
        note = self.seen.notes.get(key)
        lines = [*self.rules.lines(self.seen.notes), *self.strikes()]
        if not told or (note and note.value == told.value):
            return lines
        return [f"note {key}={told.value} @e{told.event}", *lines]

    def strikes(self) -> list[str]:
        """Note lines for values that the user ruled out: marked as old, so that no brief brings them back."""
        return [
            f"note {self.spec.key(entity, attr)}={out.value} @e{out.event} old"
            for (entity, attr), out in self.struck.items()
            if out.evidence and not self.noted_out(entity, attr, out)
        ]

    def noted_out(self, entity: str, attr: str, out: Known) -> bool:
        """Whether a note has it already that a value is ruled out, or something newer."""
        note = self.seen.notes.get(self.spec.key(entity, attr))
        return note is not None and ((note.status == "old" and note.value == out.value) or note.source > out.event)

    def compress(self, enough: int = 0) -> str:
        """Everything before the current Run becomes pointers: which record stands in which events."""
        paged = any(s.part for _, s in self.briefs)
        if sum(b.kind == "user" for b in self.seen.blocks) < (2 if paged else 4):
            return ""
        end, covered = self.covered_runs()
        upto = end.first - 1
        if 0.8 * LEAST_SHARE * covered > self.reply_room - 14:
            return ""  # no text of one turn would be enough: pages in view must be folded first
        if covered < max(enough, ROOM_LEAST * paged) or any(b.last >= upto for b in self.seen.of("boundary")):
            return ""
        pointers = {name: list(p.events) for name, p in self.summary.items()}
        for block, stated in [*self.briefs, *self.results]:
            if stated.part and not block.keep:
                continue  # read back: an older summary knows the record, and what changed it
            if block.kind in ("fold", "result", "paged") and block.last <= upto:
                pointers.setdefault(stated.entity, []).append(ref_of(block, stated))
        for block in (b for b in self.seen.of("cleared") if b.last <= upto):
            call = next((o.text for o in reversed(self.seen.own) if o.place < block.place), "")
            if m := re.search(r"=(\w+)", call):
                pointers.setdefault(m[1], []).append(block.first)
        notes = [*self.constraint_note(), *self.renotes()]
        if len(notes) > 1:
            return "\n".join(notes[:3])
        facts: dict[str, dict[str, str]] = {name: {} for name in pointers}
        # References that folds keep must be kept on, by name or by citation.
        held = [k for b in (*self.seen.of("boundary"), *(b for b, _ in self.briefs)) for k in b.keep if k <= upto]
        most = sum(self.chat.count(n) + 1 for n in notes) + int(0.24 * covered) + 3  # a longer text would gain too little
        lists: list[int] = []
        words = self.spec.words
        changed = {e: fields for name in pointers for e, fields in self.changes_of(name).items()}

        def said() -> str:
            entries = []
            for name, events in ((n, e) for n, e in pointers.items() if e):
                body = words.comma.join(self.spec.pair(a, v) for a, v in facts[name].items())
                changes = words.comma.join(self.spec.attr(a).noun for a in changed.get(max(events), ()))
                entry = f"{name} {','.join(f'e{e}' for e in sorted(set(events)))}" + (f" ({changes})" if changes else "")
                entries.append(entry + (words.colon + body if body else ""))
            if lists:
                entries.append("lists " + ",".join(f"e{e}" for e in lists))
            return words.entry.join(entries)

        def turn(padding: str = "") -> str:
            named = {e for events in pointers.values() for e in events}
            lost = [k for k in held if k not in named][-8:]
            cites = f" @{','.join(f'e{k}' for k in lost)}" if lost else ""
            return "\n".join([*notes, f"compress e{upto} {said()}{padding}{cites}"])

        top = min(self.reply_room + 8, most)
        if len(pointers) >= LISTED or self.listed[:-1]:
            # A later summary without room for all names this turn, which can be read back.
            lists = [*self.listed[:-1][-1:], self.next_event]
        if not self.fits(turn(), top) and self.listed:
            lists = [self.listed[-1], self.next_event]
            # The oldest half is left to the summary before, as far as that one has it.
            for name, told in list(self.summary.items())[: (len(self.summary) + 1) // 2]:
                pointers[name] = [e for e in pointers[name] if e not in told.events]
        while not self.fits(turn(), top) and sum(map(bool, pointers.values())) > 1:
            left = [n for n in self.summary if set(pointers[n]) & set(self.summary[n].events)] if self.listed else []
            name = left[0] if left else next(n for n in pointers if pointers[n])
            pointers[name] = [e for e in pointers[name] if left and e not in self.summary[name].events]
        pointers = {name: events for name, events in pointers.items() if events}
        if not self.fits(turn(), top):
            return ""
        # As many values as the turn holds, newest record first: one field of each, then a second.
        for _ in range(2):
            for name in reversed(pointers):
                attr, value = self.unkept(name, facts[name])
                if attr:
                    facts[name][attr] = value
                    if not self.fits(turn(), min(self.reply_room, most)):
                        del facts[name][attr]
        if not pointers:
            return ""
        padding, least = "", min(LEAST_SHARE * covered, self.reply_room - 14)
        while self.chat.count(said() + padding) < least:  # too short a text for much is refused as empty
            padding += words.padding
        return turn(padding)

    def covered_runs(self) -> tuple[Block, int]:
        """The user message before which everything is compressed, and the tokens that go: as many finished Runs as one text may cover."""
        found: list[tuple[Block, int]] = []
        covered = 0
        items: list[Block | Own] = [*self.seen.blocks, *self.seen.own]
        for item in sorted(items, key=lambda i: i.place):
            if isinstance(item, Block) and item.kind == "user":
                found.append((item, covered))
                if item is self.question:
                    break
            covered += self.chat.count(item.text)
        most = (self.reply_room - 14) / LEAST_SHARE
        return next(((b, n) for b, n in reversed(found[1:]) if n <= most), found[min(1, len(found) - 1)])

    def renotes(self) -> list[str]:
        """Notes of records that a result in view has made out of date: once it is compressed nothing would tell."""
        lines = []
        for entity in self.records():
            for attr in self.spec.attrs:
                key = self.spec.key(entity, attr.name)
                note, known = self.seen.notes.get(key), self.known(entity, attr.name)
                if note and known and known.value != note.value and known.event > note.source:
                    lines.append(f"note {key}={known.value} @e{known.event}")
        return lines

    def unkept(self, entity: str, kept: dict[str, str]) -> tuple[str, str]:
        """The first field of a record whose value is certain, not noted, and not in the summary yet."""
        for attr in self.spec.attrs:
            if attr.name in kept or self.spec.key(entity, attr.name) in self.seen.notes:
                continue
            known = self.known(entity, attr.name)
            if known and not self.open_changes(entity, attr.name, known.event):
                return attr.name, known.value
        return "", ""
