"""The expert: a function of the view, not of the future.

It manages when the text declares a stage finished or fill passes 70 %. It keeps, in order, the user's constraints, what the text
declared important, then decisions and identifiers as far as a brief may hold them, always with a reference to the raw result.
It reads back when what is asked is not in view, or when a later change is on record without its values; it mends a note that the
evidence contradicts; what no readable event holds, it answers ``unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.policies.knowledge import Knowledge, Known
from envs.policies.reading import (
    Block,
    Stated,
    brief_text,
    read_request,
    result_facts,
)
from envs.policies.stakes import entry, verify_rule
from envs.profiles import get_profile
from envs.text import HAN

MIN_COVERED = 84
"""Tokens of an exchange below which a fold cannot pay: brief, reference and two index entries cost about as much."""
MAX_FOLDS = get_profile("core@1").max_folds
MAX_NOTES = get_profile("core@1").max_notes or 8
ELSEWHERE = re.compile(r"e(\d+)(?:-e(\d+))? w\d+\b")
LEAST_SHARE = 0.05
PAGE_ROOM = 320
"""Tokens of a page with its tag and the call that asks for it."""


class Mind(Knowledge):
    """What the expert does on one view."""

    # ---- what to do ---------------------------------------------------------------------------------------------------------

    def act(self) -> str:
        if self.seen.managed and (line := self.manage()):
            return line
        if self.request.call and not self.called():
            return self.request.call
        if self.seen.managed and self.request.close and (line := self.close_stage()):
            return line
        line = self.reply()
        if line.startswith("read ") and self.view.tokens + PAGE_ROOM > self.budget and not self.refused():
            return self.upkeep() or line  # the page would not fit
        return line

    def called(self) -> bool:
        since = self.question
        if any(b.place > since.place and b.kind in ("result", "cleared") for b in self.seen.blocks):
            return True
        return any(b.kind == "fold" and b.first > since.first for b in self.seen.blocks)

    def refused(self) -> bool:
        """Two refusals since the question: upkeep is given up for this Run instead of trying on."""
        return sum(b.kind == "reject" and b.place >= self.question.place for b in self.seen.blocks) > 1

    def reply(self) -> str:
        request = self.request
        values: dict[str, str] = {}
        cap = self.constraint() if request.constraint or request.compare else None
        if (request.constraint or request.compare) and cap is None and (line := self.look_for(self.spec.user_fact.noun)):
            return line
        if request.constraint:
            values[self.spec.user_fact.key] = cap.value if cap else "unknown"
        if request.ruled:
            if request.verify and (line := verify_rule(self, MAX_NOTES)):
                return line
            value = self.rules.in_force(request.entity, self.question.first)
            if not value and self.spec.rule and (line := self.look_for(self.spec.rule.noun)):
                return line
            values[request.slots[0]] = value or "unknown"
        if (request.across or request.total) and (line := self.several(values)):
            return line
        if request.many:
            return self.reply_to_many()
        if request.struck:
            out = self.struck.get((request.entity, request.asked))
            if out is None and (line := self.look_for(self.spec.attr(request.asked).noun)):
                return line
            return f"{request.asked}={out.value if out else 'unknown'}"
        if request.asked:
            known = self.known(request.entity, request.asked)
            if self.seen.managed and (line := self.check(request.entity, request.asked, known)):
                return line
            if known and (line := self.mend(request.entity, request.asked, known)):
                return line
            value = known.value if known else "unknown"
            if request.enter:
                return entry(self, value)
            if request.compare:
                amount, limit = (int(x.value) if x else None for x in (known, cap))
                yes, no = self.spec.words.yes[0], self.spec.words.no[0]
                values["over"] = "unknown" if amount is None or limit is None else (yes if amount > limit else no)
                values["gap"] = "unknown" if amount is None or limit is None else str(abs(amount - limit))
            else:
                values[request.asked] = value
        return "; ".join(f"{s}={values.get(s, 'unknown')}" for s in request.slots)

    def reply_to_many(self) -> str:
        """Several independent questions: every read-back that one of them needs, then all answers."""
        values = []
        for number, (entity, attr) in enumerate(self.request.many, 1):
            known = self.known(entity, attr)
            if self.seen.managed and (line := self.check(entity, attr, known)):
                return line
            values.append(f"q{number}={known.value if known else 'unknown'}")
        return "; ".join(values)

    def several(self, values: dict[str, str]) -> str:
        """The read-back that a question over several records needs next; nothing once all amounts are known and answered."""
        compare = self.spec.compare
        assert compare is not None
        if self.request.total and (line := self.look_everywhere()):
            return line
        entities = self.request.across or tuple(self.records())
        amounts: dict[str, int] = {}
        for entity in entities:
            known = self.known(entity, compare.attr)
            if self.seen.managed and (line := self.check(entity, compare.attr, known)):
                return line
            if known is None:
                return ""
            amounts[entity] = int(known.value)
        if self.request.total:
            values["sum"] = str(sum(amounts.values()))
        elif len(amounts) == 2:
            one, two = amounts
            values["which"] = one if amounts[one] >= amounts[two] else two
            values["gap"] = str(abs(amounts[one] - amounts[two]))
        return ""

    def look_everywhere(self) -> str:
        """For a question over all records: read what is out of view without a trace of the records it holds."""
        left = [e for e in self.gaps() if not self.was_read(e)]
        return f"read e{left[0]}" if left else self.read_elsewhere()

    def check(self, entity: str, attr: str, known: Known | None) -> str:
        """The read-back that the question needs, or nothing."""
        if known:
            stale = self.open_changes(entity, known.event) or [
                e for e in [self.contested(entity, attr)] if e and not self.was_read(e)
            ]
            if not stale and known.evidence:
                stale = self.later(entity, known.event)
            if not stale and self.request.verify and not known.evidence and known.event and not self.was_read(known.event):
                stale = [known.event]
            if stale:
                return f"read e{stale[0]}"
            return self.further(entity, attr)
        if out := self.struck.get((entity, attr)):  # nothing is in force, unless it was changed since
            stale = self.open_changes(entity, out.event)
            return f"read e{stale[0]}" if stale else ""
        for block in self.seen.reads:
            if block.page < block.pages and entity in block.text and (line := self.rest_of(block)):
                return line
        places = self.open_changes(entity, 0) or self.places(entity)
        places = places or [e for e in self.gaps() if not self.was_read(e)]
        if places:
            return f"read e{places[0]}"
        in_view = any(s.entity == entity and not s.changed for _, s in self.results)
        if in_view:
            return ""
        return self.look_for_record(entity)

    def further(self, entity: str, attr: str) -> str:
        """The next page of what was read for this question, as long as its pages so far do not state the field."""
        for block in self.seen.reads:
            if block.place > self.question.place and block.page < block.pages and entity in block.text:
                stated = result_facts(self.spec, block.text)
                if (stated is None or attr not in stated.fields) and (line := self.rest_of(block)):
                    return line
        return ""

    def rest_of(self, block: Block) -> str:
        """The next page of a read-back, unless it was asked for since the question."""
        line = f"read e{block.first}" + (f"-e{block.last}" if block.last > block.first else "") + f" p{block.page + 1}"
        return "" if any(o.text == line and o.place > self.question.place for o in self.seen.own) else line

    def look_for(self, words: str) -> str:
        """Search once for what no brief points at, then read the hits, newest first; nothing when nothing is out of view."""
        return self.search([words], lambda hit: [hit.first])

    def look_for_record(self, entity: str) -> str:
        """Search for the requests that fetched a record and its change, one wording after the other, and read what came of them."""
        words: list[str] = []
        for templates in (self.spec.work, self.spec.changes):
            for template in templates:
                words.append(f"{entity} {template_words(template)}")
                if any(self.requests(hit, entity, template) for hit in self.seen.of("hit")):
                    break

        def result_of(hit: Block) -> list[int]:
            asked = any(self.requests(hit, entity, t) for t in (*self.spec.work, *self.spec.changes))
            return [hit.first + 2] if asked else []

        return self.search(words, result_of) or self.read_elsewhere()

    def read_elsewhere(self) -> str:
        """The next page of what other windows hold, when no search has found it."""
        if not self.seen.managed:
            return ""
        for m in ELSEWHERE.finditer(self.seen.out):
            first, last = int(m[1]), int(m[2] or m[1])
            seen = [b for b in self.seen.of("read") if (b.first, b.last) == (first, last) and b.place > self.question.place]
            page, pages = max(((b.page, b.pages) for b in seen), default=(0, 1))
            if page < pages:
                return f"read e{first}" + (f"-e{last}" if last > first else "") + (f" p{page + 1}" if page else "")
        return ""

    @staticmethod
    def requests(hit: Block, entity: str, template: str) -> bool:
        """Whether a search hit shows a request for the record in these words."""
        wanted = template_words(template).split()
        return entity in hit.text and sum(w in hit.text for w in wanted) >= min(2, len(wanted))

    def search(self, searches: Sequence[str], events: Callable[[Block], list[int]]) -> str:
        if not self.seen.managed or not (self.seen.of("boundary") or ELSEWHERE.search(self.seen.out)):
            return ""
        made = {o.text for o in self.seen.own if o.place > self.question.place}
        for words in searches:
            if f"find {words}" not in made:
                return f"find {words}"
        shown = {b.first for b in self.seen.of("result", "user")}
        found = {e for b in self.seen.of("hit") if b.place > self.question.place for e in events(b)}
        left = [e for e in sorted(found - shown, reverse=True) if e < self.question.first and not self.was_read(e)]
        return f"read e{left[0]}" if left else ""

    def mend(self, entity: str, attr: str, known: Known) -> str:
        """What the evidence contradicts is set right before the answer, by a note; what a brief lost and the user wants kept is noted."""
        key = self.spec.key(entity, attr)
        note = self.seen.notes.get(key)
        if not self.seen.managed or self.refused():
            return ""
        wrong = (
            note and note.status != "old" and note.value != known.value and (known.event, known.evidence) > (note.source, False)
        )
        kept = note or any(s.entity == entity and attr in s.fields for _, s in self.briefs)
        lost = attr in self.request.keep and not self.request.call and not kept and self.was_read(known.event)
        room = note or len(self.seen.notes) < MAX_NOTES
        amiss = room and not (note and note.value == known.value) and known.evidence and self.misstated(entity, attr, known)
        return f"note {key}={known.value} @e{known.event}" if wrong or lost or amiss else ""

    # ---- upkeep -------------------------------------------------------------------------------------------------------------

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

    @property
    def keep_limit(self) -> int:
        """Notes that fields of records may take: a rule and its exceptions need room too."""
        return (4 if self.rules.value else 6) - len(self.struck)

    def fold_lines(self, block: Block, stated: Stated, call: str, keep: Sequence[str], room: int) -> list[str]:
        """Notes of what was declared important or was noted before, and the fold of one exchange."""
        noted: dict[str, str] = {}
        for attr, value in stated.fields.items():
            held = self.seen.notes.get(self.spec.key(stated.entity, attr))
            if (held and held.value != value and held.source < block.first) or (
                attr in keep and not held and len(self.seen.notes) < self.keep_limit
            ):
                noted[attr] = value
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
        return turn(kept)

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
        return ""

    def manage(self) -> str:
        """Past 70 % fill: fold finished exchanges still in full, else compress the finished Runs."""
        if self.view.tokens < 0.7 * self.budget or self.refused():
            return ""
        return self.upkeep()

    def upkeep(self) -> str:
        """Fold a finished exchange still in full, else compress the finished Runs; nothing when there is nothing to gain."""
        for block, stated, call in () if self.full else self.unfolded(current=False):
            if self.covered(block, call) >= MIN_COVERED:
                keep = self.kept_of(block)
                return "\n".join(self.fold_lines(block, stated, call, keep, room=88))
        return self.compress()

    def kept_of(self, block: Block) -> Sequence[str]:
        users = [b for b in self.seen.of("user") if b.place <= block.place]
        return read_request(self.spec, users[-1].text).keep if users else ()

    def compress(self) -> str:
        """Everything before the current Run becomes pointers: which record stands in which events."""
        upto = self.question.first - 1
        before = self.seen.blocks[: next(i for i, b in enumerate(self.seen.blocks) if b is self.question)]
        if sum(b.kind == "user" for b in before) < 3:
            return ""
        pointers = {name: list(p.events) for name, p in self.summary.items()}
        for block, stated in [*self.briefs, *self.results]:
            if block.kind in ("fold", "result") and block.last <= upto:
                pointers.setdefault(stated.entity, []).append((block.keep or (block.last,))[-1])
        for block in self.seen.of("cleared"):
            call = next((o.text for o in reversed(self.seen.own) if o.place < block.place), "")
            if m := re.search(r"=(\w+)", call):
                pointers.setdefault(m[1], []).append(block.first)
        notes = [*self.constraint_note(), *self.renotes()]
        if len(notes) > 1:
            return "\n".join(notes[:3])
        facts: dict[str, dict[str, str]] = {name: {} for name in pointers}
        words = self.spec.words
        # References that folds keep must be kept on, by name or by citation.
        held = [k for b in (*self.seen.of("boundary"), *(b for b, _ in self.briefs)) for k in b.keep if k <= upto]
        covered = sum(self.chat.count(b.text) for b in before)
        covered += sum(self.chat.count(o.text) for o in self.seen.own if o.place < self.question.place)
        most = sum(self.chat.count(n) + 1 for n in notes) + int(0.24 * covered) + 3  # a longer text would gain too little

        def said() -> str:
            entries = []
            for name, events in pointers.items():
                body = words.comma.join(self.spec.pair(a, v) for a, v in facts[name].items())
                entries.append(f"{name} {','.join(f'e{e}' for e in sorted(set(events)))}" + (words.colon + body if body else ""))
            return words.entry.join(entries)

        def turn(padding: str = "") -> str:
            named = {e for events in pointers.values() for e in events}
            lost = [k for k in held if k not in named][-8:]
            cites = f" @{','.join(f'e{k}' for k in lost)}" if lost else ""
            return "\n".join([*notes, f"compress e{upto} {said()}{padding}{cites}"])

        while not self.fits(turn(), min(92, most)) and len(pointers) > 1:
            del pointers[next(iter(pointers))]
        # As many values as the turn holds, newest record first: one field of each, then a second.
        for _ in range(2):
            for name in reversed(pointers):
                attr, value = self.unkept(name, facts[name])
                if attr:
                    facts[name][attr] = value
                    if not self.fits(turn(), min(84, most)):
                        del facts[name][attr]
        if not pointers:
            return ""
        padding, least = "", min(LEAST_SHARE * covered, 70)
        while self.chat.count(said() + padding) < least:  # too short a text for much is refused as empty
            padding += words.padding
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
            if known and not self.open_changes(entity, known.event):
                return attr.name, known.value
        return "", ""


@lru_cache
def template_words(template: str) -> str:
    """The fixed words of a template, each once: with a record's name they find the message made from it."""
    words = (w.strip(".,:;?") for w in re.sub(r"\{\w+\}|[，。：；？]", " ", template).split())
    return " ".join(dict.fromkeys(w for w in words if len(w) > 2 or HAN.match(w)))


class Expert:
    """The scripted expert as a policy of ``envs.episode.play``."""

    name = "expert"

    def __init__(self, chat: ChatML, budget: int | None = None) -> None:
        self.chat = chat
        self.budget = budget or get_profile("core@1").view_budget

    def mind(self, view: View) -> Mind:
        """What it makes of one view."""
        return Mind(view, self.chat, self.budget)

    def spell(self, view: View, move: str) -> str:
        """A move as the profile writes it."""
        return move

    def text(self, view: View) -> str:
        """The expert's turn for one view."""
        return self.spell(view, self.mind(view).act())

    def act(self, views: Sequence[View]) -> list[Sampled]:
        texts = [self.text(v) for v in views]
        return [Sampled(self.chat.turn_ids(t), t) for t in texts]
