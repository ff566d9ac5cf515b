"""The expert's upkeep: what it folds and compresses, what it writes of it, and how it makes room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envs.policies.compressing import ROOM_LEAST, Compressing
from envs.policies.knowledge import REPLY_ROOM
from envs.policies.paging import LEAST_SHARE, Group
from envs.policies.reading import Stated, brief_text, read_request
from envs.policies.seen import Block
from envs.profiles import get_profile

MIN_COVERED = 84
"""Tokens of an exchange below which a fold cannot pay: brief, reference and two index entries cost about as much."""
MAX_FOLDS = get_profile("core@1").max_folds
MOST_TAIL = 120
"""Characters of a sentence that pages break off in: no fact's sentence is longer."""
FULL_BRIEF = 24
"""Tokens that a brief of three fields has at least."""


class Upkeep(Compressing):
    """What the expert does to keep its view small."""

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

    @property
    def keep_limit(self) -> int:
        """Notes that fields of records may take: a rule and its exceptions need room too."""
        return (4 if self.rules.value else 6) - len(self.struck)

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

        def turn(fields: Mapping[str, str], padding: str = "") -> list[str]:
            return [*notes, f"fold e{block.first - 1}-e{block.first} {brief(fields)}{padding} @e{block.first}"]

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
        least, padding = LEAST_SHARE * self.covered(block, call), ""
        if least > FULL_BRIEF:  # a brief of three fields would be refused as empty for so large a result
            kept = dict(stated.fields) if holds(stated.fields) else kept
            while self.chat.count(brief(kept) + padding) < least:
                padding += self.spec.words.padding
        return turn(kept, padding)

    # ---- pages that were read ---------------------------------------------------------------------------------------------

    def part_lines(self, group: Group, keep: Sequence[str], most: int) -> list[str]:
        """Notes and the fold of pages that were read: which pages of what, and every field that they state."""
        found = self.stretch(group)
        if not found or group.covered < MIN_COVERED:
            return []
        block, stated = found
        noted = self.noted(group.event, stated, keep)
        notes = [f"note {self.spec.key(stated.entity, a)}={v} @e{group.event}" for a, v in noted.items()][:2]
        words = self.spec.words
        head = brief_text(self.spec, stated.entity, stated.source, {}, stated.changed).removesuffix(words.unlisted)
        head += f" (e{group.event} p{block.start}-{block.page}/{block.pages})"
        tail = block.text[block.text.rfind(words.stop + words.joint) + 1 :].strip() if block.page < block.pages else ""
        tail = f"{words.tail}{tail}" if 0 < len(tail) <= MOST_TAIL else ""
        cite = f" @e{group.event}" if group.first <= group.event <= group.last else ""
        # What a newer event has changed is left out: a brief that stands alone later must not say the old value.
        names = [
            a
            for a, v in stated.fields.items()
            if (k := self.known(stated.entity, a)) and k.value == v and not self.open_changes(stated.entity, a, group.event)
        ]
        names.sort(key=lambda a: (a not in keep, a not in self.targets))
        missed = [a for a in self.targets if a not in stated.fields]

        def text(names: Sequence[str], padding: str = "") -> str:
            body = words.comma.join(self.spec.pair(a, stated.fields[a]) for a in names)
            cut = words.more if len(names) < len(stated.fields) else ""
            lost = words.without.format(noun=self.spec.attr(missed[0]).noun) if missed and cut else ""
            return head + (words.colon + body if body else "") + lost + cut + padding + tail

        def turn(padding: str = "") -> list[str]:
            return [*notes, f"fold e{group.first}-e{group.last} {text(names, padding)}{cite}"]

        while names and not (self.fits(text(names), int(0.24 * group.covered)) and self.fits("\n".join(turn()), most)):
            names.pop()
        if not self.fits(text(names), int(0.24 * group.covered)):
            return []
        padding, least = "", LEAST_SHARE * group.covered + 1
        while self.chat.count(text(names, padding)) < least:
            padding += self.spec.words.padding
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
            if lines := self.part_lines(group, self.kept_at(group.place), REPLY_ROOM + 4):
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
