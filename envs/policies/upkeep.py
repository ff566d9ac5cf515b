"""The expert's upkeep: what it folds and compresses, what it writes of it, and how it makes room."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from envs.policies.knowledge import ref_of
from envs.policies.paging import LEAST_SHARE, Group, Paging
from envs.policies.reading import MORE, TAIL, UNLISTED, Block, Stated, brief_text, read_request
from envs.profiles import get_profile

MIN_COVERED = 84
"""Tokens of an exchange below which a fold cannot pay: brief, reference and two index entries cost about as much."""
MAX_FOLDS = get_profile("core@1").max_folds
MOST_TAIL = 120
"""Characters of a sentence that pages break off in: no fact's sentence is longer."""
ROOM_LEAST = 300
"""Tokens that a compression must cover before pages of this Run are folded instead."""
LISTED = 4
"""Records from which on a summary names its own turn, so that a later one may leave records to it."""
Brief = Callable[[Mapping[str, str]], str]
PADDING = "; the rest stands in these events"


class Upkeep(Paging):
    """What the expert does to keep its view small."""

    def refused(self) -> bool:
        """Two refusals since the question: upkeep is given up for this Run instead of trying on."""
        return sum(b.kind == "reject" and b.place >= self.question.place for b in self.seen.blocks) > 1

    def unfolded(self, current: bool) -> list[tuple[Block, Stated, str]]:
        """Results in view of the current Run, or of the finished ones, each with the call before it."""
        found = []
        for block, stated in self.results:
            if block.kind != "result" or (block.place > self.question.place) != current:
                continue
            call = next((o.text for o in reversed(self.seen.own) if o.place < block.place), "")
            found.append((block, stated, call))
        return found

    @property
    def full(self) -> bool:
        """No further fold may stand beside those in view."""
        return len(self.seen.of("fold")) >= MAX_FOLDS

    def covered(self, block: Block, call: str) -> int:
        return self.chat.count(call) + self.chat.count(block.text)

    def fits(self, text: str, most: int) -> bool:
        """Whether a text takes at most ``most`` tokens. No token is less than a byte, so a short text need not be counted."""
        return len(text.encode()) <= most or self.chat.count(text) <= most

    def constraint_note(self) -> list[str]:
        """The user's constraints as note lines, those left out that are noted."""
        key = self.spec.user_fact.key
        told = self.constraint()
        note = self.seen.notes.get(key)
        lines = self.rules.lines(self.seen.notes)
        if not told or (note and note.value == told.value):
            return lines
        return [f"note {key}={told.value} @e{told.event}", *lines]

    @property
    def keep_limit(self) -> int:
        """Notes that fields of records may take: a rule and its exceptions need room too."""
        return 4 if self.rules.value else 6

    def noted(self, event: int, stated: Stated, keep: Sequence[str]) -> dict[str, str]:
        """Fields of a result to note: what was declared important, and what was noted before with another value."""
        noted: dict[str, str] = {}
        for attr, value in stated.fields.items():
            held = self.seen.notes.get(self.spec.key(stated.entity, attr))
            if (held and held.value != value and held.source < event) or (
                attr in keep and not held and len(self.seen.notes) < self.keep_limit
            ):
                noted[attr] = value
        return noted

    def fold_lines(self, block: Block, stated: Stated, call: str, keep: Sequence[str], room: int) -> list[str]:
        """Notes of what was declared important or was noted before, and the fold of one exchange."""
        noted = self.noted(block.first, stated, keep)
        notes = [f"note {self.spec.key(stated.entity, a)}={v} @e{block.first}" for a, v in noted.items()]
        order = [a.name for a in self.spec.attrs if a.name in stated.fields and (stated.changed or a.name not in noted)]
        order.sort(key=lambda a: a not in keep)
        most = int(0.25 * self.covered(block, call))

        def brief(fields: Mapping[str, str]) -> str:
            return brief_text(self.spec, stated.entity, stated.source, fields, stated.changed)

        def turn(fields: Mapping[str, str]) -> list[str]:
            return [*notes, f"fold e{block.first - 1}-e{block.first} {brief(fields)} @e{block.first}"]

        def holds(fields: Mapping[str, str]) -> bool:
            return self.fits(brief(fields), most) and self.fits("\n".join(turn(fields)), room)

        wanted = {a: stated.fields[a] for a in order[: 2 if stated.changed else 3]}
        kept = dict[str, str]()
        if holds(wanted):  # nearly always: counting tokens is what takes time here
            kept = wanted
        else:
            for attr, value in wanted.items():
                if holds({**kept, attr: value}):
                    kept[attr] = value
        if stated.changed and len(kept) < len(order):
            kept = {}  # a change is listed whole or not at all: a brief without values says that it must be read
        return turn(self.padded(kept, stated, brief, block, call))

    def padded(self, kept: dict[str, str], stated: Stated, brief: Brief, block: Block, call: str) -> dict[str, str]:
        """With more fields where a large result would refuse the brief as empty."""
        least = LEAST_SHARE * self.covered(block, call)
        for attr, value in stated.fields.items():
            if kept and attr not in kept and self.chat.count(brief(kept)) < least:
                kept = {**kept, attr: value}
        return kept

    # ---- pages that were read ---------------------------------------------------------------------------------------------

    def part_lines(self, group: Group, keep: Sequence[str], most: int) -> list[str]:
        """Notes and the fold of pages that were read: which pages of what, and every field that they state."""
        found = self.stretch(group)
        if not found or group.covered < MIN_COVERED:
            return []
        block, stated = found
        noted = self.noted(group.event, stated, keep)
        notes = [f"note {self.spec.key(stated.entity, a)}={v} @e{group.event}" for a, v in noted.items()][:2]
        head = brief_text(self.spec, stated.entity, stated.source, {}, stated.changed).removesuffix(UNLISTED)
        head += f" (e{group.event} p{block.start}-{block.page}/{block.pages})"
        tail = block.text[block.text.rfind(". ") + 1 :].strip() if block.page < block.pages else ""
        tail = f"{TAIL}{tail}" if 0 < len(tail) <= MOST_TAIL else ""
        cite = f" @e{group.event}" if group.first <= group.event <= group.last else ""
        # What a newer event has changed is left out: a brief that stands alone later must not say the old value.
        names = [a for a, v in stated.fields.items() if (k := self.known(stated.entity, a)) and k.value == v]
        names.sort(key=lambda a: (a not in keep, a not in self.targets))
        missed = [a for a in self.targets if a not in stated.fields]

        def text(names: Sequence[str], padding: str = "") -> str:
            body = ", ".join(f"{self.spec.attr(a).noun} {stated.fields[a]}" for a in names)
            cut = MORE if len(names) < len(stated.fields) else ""
            lost = f"; nothing on the {self.spec.attr(missed[0]).noun}" if missed and cut else ""
            return head + (f": {body}" if body else "") + lost + cut + padding + tail

        def turn(padding: str = "") -> list[str]:
            return [*notes, f"fold e{group.first}-e{group.last} {text(names, padding)}{cite}"]

        while names and not (self.fits(text(names), int(0.24 * group.covered)) and self.fits("\n".join(turn()), most)):
            names.pop()
        if not self.fits(text(names), int(0.24 * group.covered)):
            return []
        padding, least = "", LEAST_SHARE * group.covered + 1
        while self.chat.count(text(names, padding)) < least:
            padding += PADDING
        return turn(padding)

    @property
    def targets(self) -> tuple[str, ...]:
        """Fields that the Run looks for."""
        compare = self.spec.compare if self.request.across or self.request.total or self.request.compare else None
        return tuple(a for a in (self.request.asked or (compare.attr if compare else ""), *self.request.keep) if a)

    def fold_pages(self, current: bool) -> str:
        """Fold the first pages in view: of this Run, or of the finished ones, where a result shown in part is left."""
        groups = [g for g in self.groups() if (g.place > self.question.place) == current]
        if not current:
            groups.sort(key=lambda g: -g.covered)  # any rewrite takes all read-backs of finished Runs along
        for group in groups:
            if lines := self.part_lines(group, self.kept_at(group.place), self.reply_room + 4):
                return self.compress() if self.full else "\n".join(lines)
        return ""

    def make_room(self) -> str:
        """A rewrite that frees room: the cheapest first."""
        line = self.upkeep(least=ROOM_LEAST)
        return line or self.fold_pages(current=True) or self.upkeep()

    def close_stage(self) -> str:
        """Fold the finished stage of this Run."""
        if self.refused():
            return ""
        for block, stated, call in self.unfolded(current=True):
            if self.covered(block, call) >= MIN_COVERED:
                if self.full:
                    return self.compress()
                if len(pending := self.constraint_note()) > 1:
                    return "\n".join(pending[:3])  # too much for one turn beside the fold
                lines = self.fold_lines(block, stated, call, self.request.keep, room=78)
                return "\n".join(self.constraint_note() + lines if len(self.seen.notes) < 7 else lines)
        if any(b.place > self.question.place for b in self.seen.of("paged")):
            if len(pending := self.constraint_note()) > 1:
                return "\n".join(pending[:3])
            return self.fold_pages(current=True)
        return ""

    def manage(self) -> str:
        """Past 70 % fill: fold finished exchanges still in full, else compress the finished Runs."""
        if self.view.tokens < 0.7 * self.budget or self.refused():
            return ""
        return self.upkeep()

    def upkeep(self, least: int = 0) -> str:
        """Fold a finished exchange still in full, else compress the finished Runs; nothing when there is nothing to gain."""
        for block, stated, call in () if self.full else self.unfolded(current=False):
            if self.covered(block, call) >= MIN_COVERED:
                keep = self.kept_of(block)
                return "\n".join(self.fold_lines(block, stated, call, keep, room=88))
        paged = not self.full and any(b.place < self.question.place for b in self.seen.of("paged"))
        return (paged and self.fold_pages(current=False)) or self.compress(least) or self.fold_pages(current=False)

    def kept_of(self, block: Block) -> Sequence[str]:
        return self.kept_at(block.place)

    def kept_at(self, place: int) -> Sequence[str]:
        """What the user declared important in the Run of a place in view."""
        users = [b for b in self.seen.of("user") if b.place <= place]
        return read_request(self.spec, users[-1].text).keep if users else ()

    def compress(self, enough: int = 0) -> str:
        """Everything before the current Run becomes pointers: which record stands in which events."""
        upto = self.question.first - 1
        before = self.seen.blocks[: next(i for i, b in enumerate(self.seen.blocks) if b is self.question)]
        if any(b.last >= upto for b in self.seen.of("boundary")):
            return ""
        paged = any(s.part for _, s in self.briefs)
        if sum(b.kind == "user" for b in before) < (1 if paged else 3):
            return ""
        pointers = {name: list(p.events) for name, p in self.summary.items()}
        for block, stated in [*self.briefs, *self.results]:
            if stated.part and not block.keep:
                continue  # read back: an older summary knows the record, and what changed it
            if block.kind in ("fold", "result", "paged") and block.last <= upto:
                pointers.setdefault(stated.entity, []).append(ref_of(block, stated))
        for block in self.seen.of("cleared"):
            call = next((o.text for o in reversed(self.seen.own) if o.place < block.place), "")
            if m := re.search(r"=(\w+)", call):
                pointers.setdefault(m[1], []).append(block.first)
        notes = [*self.constraint_note(), *self.renotes()]
        if len(notes) > 1:
            return "\n".join(notes[:3])
        facts: dict[str, dict[str, str]] = {name: {} for name in pointers}
        # References that folds keep must be kept on, by name or by citation.
        held = [k for b in (*self.seen.of("boundary"), *(b for b, _ in self.briefs)) for k in b.keep if k <= upto]
        covered = sum(self.chat.count(b.text) for b in before)
        covered += sum(self.chat.count(o.text) for o in self.seen.own if o.place < self.question.place)
        if covered < max(enough, ROOM_LEAST * paged):
            return ""
        most = sum(self.chat.count(n) + 1 for n in notes) + int(0.24 * covered) + 3  # a longer text would gain too little
        lists: list[int] = []
        changed = {e: fields for name in pointers for e, fields in self.changes_of(name).items()}

        def said() -> str:
            entries = []
            for name, events in ((n, e) for n, e in pointers.items() if e):
                body = ", ".join(f"{self.spec.attr(a).noun} {v}" for a, v in facts[name].items())
                changes = ", ".join(self.spec.attr(a).noun for a in changed.get(max(events), ()))
                entry = f"{name} {','.join(f'e{e}' for e in sorted(set(events)))}" + (f" ({changes})" if changes else "")
                entries.append(entry + (f": {body}" if body else ""))
            if lists:
                entries.append("lists " + ",".join(f"e{e}" for e in lists))
            return "; ".join(entries)

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
            padding += PADDING
        return turn(padding)

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
