"""The expert: a function of the view, not of the future.

It manages when the text declares a stage finished or fill passes 70 %. It keeps, in order, the user's constraints, what the text
declared important, then decisions and identifiers as far as a brief may hold them, always with a reference to the raw result.
It reads back when what is asked is not in view, or when a later change is on record without its values; it mends a note that the
evidence contradicts; what no readable event holds, it answers ``unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.policies.knowledge import Known
from envs.policies.paging import first_line
from envs.policies.seen import Block
from envs.policies.stakes import entry, verify_rule
from envs.policies.upkeep import Upkeep
from envs.profiles import get_profile
from envs.text import HAN

MAX_NOTES = get_profile("core@1").max_notes or 8
ELSEWHERE = re.compile(r"e(\d+)(?:-e(\d+))? w\d+\b")
PAGE_ROOM, REPLY_MARGIN = 280, 40
"""Tokens of a page with its tag and the call that asks for it, and of what a turn adds once."""

NEXT_TURN = 120
"""Tokens of an answer or a search with what comes next: the user's next message or the hits."""


class Mind(Upkeep):
    """What the expert does on one view."""

    blind = False
    """There is no room to read anything back."""

    # ---- what to do ---------------------------------------------------------------------------------------------------------

    def act(self) -> str:
        if self.seen.managed and (line := self.manage()):
            return line
        if self.request.call and not self.called():
            return self.request.call
        if self.seen.managed and self.request.call and (pages := self.read_on()) and (line := self.with_room(pages)):
            return line
        if self.seen.managed and self.request.close and (line := self.close_stage()):
            return line
        if line := self.with_room(self.reply()):
            return line
        self.blind = True
        return self.reply()

    def with_room(self, line: str) -> str:
        """As many of the pages asked for as the view has room for; what makes room where it has none. Nothing where nothing can: a
        view that overflows ends the session, and it is better to answer one question by what is known.
        """
        if not self.seen.managed or self.refused():
            return line
        if not line.startswith("read "):
            return (self.view.tokens + NEXT_TURN > self.budget and self.make_room()) or line
        pages = line.split("\n")
        fit = (self.budget - self.view.tokens - REPLY_MARGIN) // PAGE_ROOM
        if fit >= len(pages):
            return line
        if made := self.make_room():
            return made
        return "\n".join(pages[: max(fit, 0)])

    def read_on(self) -> str:
        """The next pages of this Run's result, until they give what is asked and what is to be kept; of a change, all of them: what
        it leaves as it was is then known too.
        """
        since = self.question
        shown = [b.first for b in self.seen.of("paged") if b.place > since.place]
        shown += [s.part.event for _, s in self.briefs if s.part and s.part.event > since.first]
        if not shown:
            return ""
        changed = self.request.call.startswith(f"{self.spec.change.name} ")
        return first_line([self.scan(shown[-1], attr) for attr in ([""] if changed else self.targets)])

    def called(self) -> bool:
        since = self.question
        if any(b.place > since.place and b.kind in ("result", "paged", "cleared") for b in self.seen.blocks):
            return True
        return any(b.kind == "fold" and b.first > since.first for b in self.seen.blocks)

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
        if self.blind or self.spec.compare is None:
            return ""
        return first_line([self.scan(e, self.spec.compare.attr) for e in self.gaps()]) or self.read_elsewhere()

    def check(self, entity: str, attr: str, known: Known | None) -> str:
        """The read-back that the question needs, or nothing."""
        if self.blind:
            return ""
        if known:
            stale = self.open_changes(entity, attr, known.event) or [e for e in [self.contested(entity, attr)] if e]
            stale = stale or (self.later(entity, attr, known.event) if known.evidence else [])
            line = first_line([self.scan(e, attr) for e in stale])
            if not line and self.request.verify and not known.evidence and known.event:
                line = self.scan(known.event, attr, fresh=True)
            return line
        if out := self.struck.get((entity, attr)):  # nothing is in force, unless it was changed since
            changes = self.open_changes(entity, attr, out.event) or self.later(entity, attr, out.event)
            return first_line([self.scan(e, attr) for e in changes])
        for block in self.seen.reads:
            if block.first < block.last and block.page < block.pages and entity in block.text and (line := self.rest_of(block)):
                return line
        others = {e for e, changed in self.changes_of(entity).items() if attr not in changed}
        events = sorted({*self.places(entity), *(e for p in self.pointers(entity) for e in p.events)} - others, reverse=True)
        if line := first_line([self.scan(e, attr) for e in [*events, *self.gaps()]]):
            return line
        seen = [*self.results, *((b, s) for b, s in self.briefs if s.part)]
        if any(s.entity == entity and not s.changed for _, s in seen):
            return ""
        return self.read_list() or self.look_for_record(entity)

    def rest_of(self, block: Block) -> str:
        """The next page of a read-back of a range, unless it was asked for since the question."""
        line = f"read e{block.first}-e{block.last} p{block.page + 1}"
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
        if self.blind or not self.seen.managed or not (self.seen.of("boundary") or ELSEWHERE.search(self.seen.out)):
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
